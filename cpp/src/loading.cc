#include "loading.h"

#include <dlfcn.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <tuple>

#include "fleet.h"
#include "guarded.h"
#include "opening.h"

// Of the Vulkan backend: register it with TVM's runtime, finish all work.
extern "C" const char* tvm_vision_vulkan_register() noexcept;
extern "C" void tvm_vision_vulkan_shutdown();

namespace tvm_vision {

namespace ffi = tvm::ffi;

void EndVulkanFirst() { std::atexit(tvm_vision_vulkan_shutdown); }

namespace {

/*! \brief Make TVM's runtime know of Vulkan and of sorts on the processor, once a process. */
void StartRuntime() {
  static std::once_flag once;
  std::call_once(once, [] {
    // What a package's library calls, also where this one was opened for itself alone, as other
    // languages open libraries.
    for (const char* name : {"libtvm_ffi.so", "libtvm_runtime.so"}) {
      dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    }
    // Only processors' networks that sort need it; without it these are refused by name.
    dlopen("libtvm_runtime_extra.so", RTLD_NOW | RTLD_LOCAL);
    const char* refused = tvm_vision_vulkan_register();
    if (refused != nullptr) throw Error("DeviceError", refused);
    EndVulkanFirst();
  });
}

/*! \brief Memory that somebody else holds, as a tensor. */
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor*) {}
};

ffi::Tensor Borrow(const StoredTensor& stored) {
  DLDataType type{stored.type_code, stored.type_bits, 1};
  return ffi::Tensor::FromNDAlloc(Borrowed{const_cast<char*>(stored.bytes.data())},
                                  ffi::Shape(stored.shape), type, {kDLCPU, 0});
}

/*! \brief What there is to say of a Vulkan device: `describe` of tvm_vision/vulkan/device.py. */
std::string DescribeVulkan(const DeviceProperties& device) {
  auto text = [&](const char* name) { return std::string(device.at(name).cast<ffi::String>()); };
  std::string kind =
      text("type") == "cpu" ? "a CPU implementation of Vulkan, no GPU" : text("type") + " GPU";
  std::string driver = text("driver_name"), more = text("driver_info");
  driver += (driver.empty() || more.empty() ? "" : " ") + more;
  auto version = device.at("vulkan_api_version").cast<int64_t>();
  return "vulkan(" + std::to_string(kFirstDevice) + "): " + text("name") + " (" + kind + "; " +
         driver + "; Vulkan " + std::to_string(version >> 22 & 0x7F) + "." +
         std::to_string(version >> 12 & 0x3FF) + "." + std::to_string(version & 0xFFF) + ")";
}

/*! \brief The first Vulkan device, or why there is none. */
VulkanHere FirstVulkanDevice() {
  auto status = ffi::Function::GetGlobalRequired("tvm_vision.vulkan.status");
  std::string why = std::string(status().cast<ffi::String>());
  if (!why.empty()) return {std::nullopt, why};
  DeviceProperties device = ffi::Function::GetGlobalRequired("tvm_vision.vulkan.devices")()
                                .cast<ffi::Array<DeviceProperties>>()[kFirstDevice];
  return {device, DescribeVulkan(device)};
}

DLDevice ChooseDevice(const NetworkInfo& info, Device wanted) {
  bool vulkan = info.target_kind == "vulkan";
  if (wanted != Device::kAuto && (wanted == Device::kVulkan) != vulkan) {
    throw Error("DeviceError", std::string("device ") + (vulkan ? "cpu" : "vulkan") +
                                   " was asked for, but the package was compiled for " +
                                   (vulkan ? "vulkan" : "cpu") +
                                   "; compile the network with --target " +
                                   (vulkan ? "llvm" : "vulkan"));
  }
  if (!vulkan) return {kDLCPU, 0};
  auto status = ffi::Function::GetGlobalRequired("tvm_vision.vulkan.status");
  std::string why = std::string(status().cast<ffi::String>());
  if (!why.empty()) {
    throw Error("DeviceError", "the package was compiled for vulkan, but " + why +
                                   "; or compile the network with --target llvm");
  }
  return {kDLVulkan, kFirstDevice};
}

std::string DescribeDevice(DLDevice device) {
  if (device.device_type == kDLCPU) return "cpu(0): the CPU through LLVM";
  return FirstVulkanDevice().words;
}

ffi::Module LoadLibrary(const Package& package) {
  Package::Library file(package.library());
  try {
    return ffi::Module::LoadFromFile(ffi::String(file.path()));
  } catch (const ffi::Error& error) {
    std::string message = error.message();
    // Nothing is wrong with the package where memory is refused.
    if (error.kind() == "DeviceError") throw Error("DeviceError", message);
    throw Error("PackageError", "mod.so of the package cannot be loaded (" +
                                    message.substr(0, message.find('\n')) +
                                    "); compile the network again");
  }
}

}  // namespace

ffi::Map<ffi::String, ffi::Tensor> Weights(const Package& package) {
  ffi::Map<ffi::String, ffi::Tensor> weights;
  for (const StoredTensor& stored : package.Params()) {
    weights.Set(ffi::String(stored.name), Borrow(stored));
  }
  return weights;
}

namespace {

/*! \brief A package whose mod.json was read, of a package for several devices the variant's. */
struct Begun {
  Package package;
  Fields fields;
  std::string variant;
};

Begun Begin(const Origin& origin, Device device) {
  StartRuntime();
  Package package = Package::Read(origin.path, origin.keys.get());
  auto parse = [&] {
    return Naming(origin.path, [&] { return Guarded([&] { return ParseInfo(package.info()); }); });
  };
  Fields fields = parse();
  if (!IsFleet(fields)) {
    if (origin.variant.empty()) return {std::move(package), std::move(fields), ""};
    throw Error("InputError", "a package for several devices is needed to take '" + origin.variant +
                                  "' of, and '" + origin.path +
                                  "' is for one: leave the target out");
  }
  auto vulkan = [&] {
    Opening(kNoDevice, origin.opening_timeout).Wait();
    return FirstVulkanDevice();
  };
  Variant chosen = Naming(origin.path, [&] {
    return Guarded([&] { return ChooseVariant(fields, device, origin.variant, vulkan); });
  });
  package.Select(chosen);
  fields = parse();
  return {std::move(package), std::move(fields), chosen.name};
}

std::string Listed(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) text += (text.empty() ? "" : ", ") + TensorText(spec);
  return text;
}

}  // namespace

Package ReadPackage(const Origin& origin) {
  Begun begun = Begin(origin, Device::kAuto);
  begun.package.Check(begun.fields);
  return std::move(begun.package);
}

/*! \brief One loading: the device opens while the package is read and checked. */
Parts LoadParts(const Origin& origin, Device device) {
  auto [package, fields, variant] = Begin(origin, device);
  NetworkInfo info =
      Naming(origin.path, [&, &fields = fields] { return NetworkInfo::Read(fields); });
  std::optional<Opening> opening;
  if (device != Device::kCpu && info.target_kind == "vulkan") {
    opening.emplace(kFirstDevice, origin.opening_timeout);
  }
  package.Check(fields);
  if (opening.has_value()) opening->Wait();
  return Guarded([&, &package = package, &variant = variant] {
    DLDevice chosen = ChooseDevice(info, device);
    ffi::Module library = LoadLibrary(package);
    std::string json(package.info());
    return Parts{std::move(info),
                 std::move(json),
                 chosen,
                 DescribeDevice(chosen),
                 std::move(library),
                 {origin.path, variant, origin.keys, origin.opening_timeout},
                 std::move(package)};
  });
}

Parts LoadFallback(const NetworkInfo& info, const Origin& origin, const std::string& wanted) {
  bool same = wanted == "cpu";
  if (same && origin.variant.empty()) {
    throw Error("InputError",
                "a package for several devices is needed to fall back to the cpu, and this is for "
                "one: compile it with --target vulkan,llvm, or give the path of a package for the "
                "cpu");
  }
  Parts found = LoadParts({same ? origin.path : wanted, "", origin.keys, origin.opening_timeout},
                          Device::kCpu);
  for (auto [what, ours, theirs] : {std::tuple{"inputs", &info.inputs, &found.info.inputs},
                                    std::tuple{"outputs", &info.outputs, &found.info.outputs}}) {
    if (Listed(*ours) == Listed(*theirs)) continue;
    throw Error("InputError", std::string("a fallback with the ") + what + " of the network (" +
                                  Listed(*ours) + ") is needed, and '" + wanted + "' has " +
                                  Listed(*theirs) + ": compile it from the same model");
  }
  return found;
}

}  // namespace tvm_vision
