// For libFuzzer, under ASan and UBSan: bytes of a module, and what of them is taken for a shader.
#include <cstdint>
#include <cstring>
#include <string>

#include "module_format.h"
#include "spirv_reader.h"

using namespace tvm_vision::vulkan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    KernelMap kernels = DeserializeKernels(reinterpret_cast<const char*>(data), size);
    for (const auto& [name, kernel] : kernels) {
      try {
        ReadShaderInterface(name, kernel.words);
      } catch (const tvm::ffi::Error&) {
      }
    }
    // What is read is written as what reads the same.
    std::string bytes = SerializeKernels(kernels);
    if (SerializeKernels(DeserializeKernels(bytes.data(), bytes.size())) != bytes) __builtin_trap();
  } catch (const tvm::ffi::Error&) {
  }
  std::vector<uint32_t> words(size / 4);
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * 4);
  try {
    ReadShaderInterface("words", words);
  } catch (const tvm::ffi::Error&) {
  }
  return 0;
}
