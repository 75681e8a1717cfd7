/*!
 * \file module.h
 * \brief The runtime module of kind "vulkan": kernels that TVM's host code calls.
 */
#ifndef TVM_VISION_VULKAN_MODULE_H_
#define TVM_VISION_VULKAN_MODULE_H_

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"
#include "module_format.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief What a module's pipelines are kept in: a file for each device. Called from any thread. */
class PipelineCaches {
 public:
  explicit PipelineCaches(const KernelMap& kernels);
  std::shared_ptr<PipelineCache> On(Device* device);

 private:
  /*! \brief Stands for the shaders: others have other files. */
  uint64_t kernels_ = 0;
  std::mutex mutex_;
  std::map<const DeviceHandle*, std::shared_ptr<PipelineCache>> caches_;
};

/*! \brief One kernel: its code and, for each device it ran on, its pipeline. Called from any
 * thread. */
class Kernel {
 public:
  /*! \brief Read the shader's interface; raises DeviceError for a damaged one. */
  Kernel(const KernelRecord& record, std::shared_ptr<PipelineCaches> caches);

  /*!
   * \brief Record a launch on the device that holds the first buffer.
   * \param args Buffers (handles or tensors), scalars, then one extent for each launch tag.
   */
  void Launch(tvm::ffi::PackedArgs args);

  /*! \brief Its pipeline on a device, compiled when it is asked for first. */
  std::shared_ptr<const Pipeline> PipelineOn(Device* device);
  /*! \brief Where that is kept. */
  std::shared_ptr<PipelineCache> CacheOn(Device* device) { return caches_->On(device); }
  const KernelCode& code() const { return code_; }

 private:
  std::vector<void*> ReadHandles(tvm::ffi::PackedArgs args) const;
  std::vector<uint64_t> PackScalars(tvm::ffi::PackedArgs args) const;
  std::array<uint32_t, 3> ReadGrid(tvm::ffi::PackedArgs args, bool* empty) const;
  std::array<uint32_t, 3> FoldGrid(const std::array<uint32_t, 3>& grid,
                                   const DeviceSnapshot& snapshot) const;

  std::shared_ptr<PipelineCaches> caches_;
  KernelCode code_;
  std::vector<DLDataType> scalar_types_;
  /*! \brief 0 to 2: blockIdx.x to .z; 3 to 5: threadIdx.x to .z; -1: not an extent. */
  std::vector<int> extents_;
  bool folded_ = false;
  std::mutex mutex_;
  std::map<const DeviceHandle*, std::shared_ptr<const Pipeline>> pipelines_;
};

constexpr const char* kModuleKind = "vulkan";

/*! \brief The module; holds kernels, serializes to the form of module_format.h. */
class VulkanModule : public tvm::ffi::ModuleObj {
 public:
  VulkanModule(KernelMap kernels, tvm::ffi::Map<tvm::ffi::String, tvm::ffi::String> source);

  const char* kind() const final { return kModuleKind; }
  int GetPropertyMask() const final {
    return tvm::ffi::Module::kBinarySerializable | tvm::ffi::Module::kRunnable;
  }
  tvm::ffi::Optional<tvm::ffi::Function> GetFunction(const tvm::ffi::String& name) final;
  bool ImplementsFunction(const tvm::ffi::String& name) final;
  tvm::ffi::Bytes SaveToBytes() const final;
  tvm::ffi::String InspectSource(const tvm::ffi::String& format) const final;

  /*! \brief All kernels, in the order of their names. */
  std::vector<std::shared_ptr<Kernel>> Kernels() const;

 private:
  KernelMap records_;
  std::map<std::string, std::shared_ptr<Kernel>> kernels_;
  tvm::ffi::Map<tvm::ffi::String, tvm::ffi::String> source_;
};

/*!
 * \brief Raise DeviceError where a device cannot run a kernel of a library or of what it imports,
 * before a driver sees any: see kernel_needs.h.
 */
void CheckKernels(const tvm::ffi::Module& library, const Device& device);

/*!
 * \brief Compile all kernels of a library and of what it imports for a device, on some threads.
 *
 * Drivers take milliseconds to seconds for one. What a driver refuses is left to its first launch,
 * which says what is wrong.
 */
void PreparePipelines(const tvm::ffi::Module& library, const std::shared_ptr<Device>& device,
                      int64_t threads);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_MODULE_H_
