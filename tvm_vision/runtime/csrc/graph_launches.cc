/*!
 * \file graph_launches.cc
 * \brief What a network launches, told without a device.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/registry.h>

#include "graph_runner.h"
#include "vulkan/csrc/launch_log.h"
#include "vulkan/csrc/refusals.h"

namespace tvm_vision {
namespace runtime {

namespace ffi = tvm::ffi;

namespace {

using Fields = ffi::Map<ffi::String, ffi::Any>;

/*! \brief Apart as far as generated code wants memory to be aligned. */
constexpr uintptr_t kApart = 256;

/*! \brief An address that stands for a tensor; nobody reads or writes there. */
void* AddressOf(size_t tensor) { return reinterpret_cast<void*>((tensor + 1) * kApart); }
uint32_t TensorAt(void* address) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) / kApart - 1);
}

Fields Describe(const vulkan::Launch& launch, int64_t call) {
  Fields fields;
  fields.Set("call", call);
  fields.Set("kernel", ffi::String(launch.kernel));
  const std::array<uint32_t, 3>& grid = launch.grid;
  fields.Set("grid", ffi::Array<int64_t>{grid[0], grid[1], grid[2]});
  ffi::Array<int64_t> tensors;
  for (void* address : launch.buffers) tensors.push_back(TensorAt(address));
  fields.Set("tensors", tensors);
  return fields;
}

/*!
 * \brief What a frame launches, in order.
 * \return Of each launch: "call", the number of the graph's kernel that does it; "kernel", its
 * name in the library; "grid", workgroups per axis; "tensors", numbers of the graph's tensors, by
 * binding. Raises PackageError for a library of another network.
 */
ffi::Array<Fields> Launches(const ffi::String& json, const ffi::Module& library) {
  GraphSpec graph = ReadGraph(std::string(json));
  std::vector<ffi::Function> functions = BindFunctions(graph, library);
  std::vector<DLTensor> tensors = DescribeTensors(&graph, {kDLVulkan, 0}, AddressOf);
  ffi::Array<Fields> found;
  for (size_t k = 0; k < graph.kernels.size(); ++k) {
    vulkan::LaunchLog log;
    std::vector<ffi::AnyView> args;
    for (uint32_t id : graph.kernels[k].args) args.emplace_back(&tensors[id]);
    ffi::Any ignored;
    functions[k].CallPacked(args.data(), static_cast<int32_t>(args.size()), &ignored);
    for (const vulkan::Launch& launch : log.launches) {
      found.push_back(Describe(launch, static_cast<int64_t>(k)));
    }
  }
  return found;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("tvm_vision.graph_executor.launches", vulkan::Telling(Launches));
}

}  // namespace runtime
}  // namespace tvm_vision
