/*!
 * \file pipeline.h
 * \brief Compute pipelines and the cache of compiled ones on disk.
 */
#ifndef TVM_VISION_VULKAN_PIPELINE_H_
#define TVM_VISION_VULKAN_PIPELINE_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_handle.h"
#include "kernel_code.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief A compiled kernel on one device. Keeps the device alive. */
struct Pipeline {
  std::shared_ptr<const DeviceHandle> device;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline vk = VK_NULL_HANDLE;
  std::string name;
  uint32_t num_buffers = 0;
  uint32_t scalar_bytes = 0;
  bool scalars_in_uniform_buffer = false;
  /*! \brief Access of each buffer argument, by binding. */
  std::vector<BindingAccess> access;

  /*! \brief Compile; raises DeviceError naming kernel and feature when the device cannot run it. */
  Pipeline(std::shared_ptr<const DeviceHandle> device, const KernelCode& code,
           VkPipelineCache cache);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
};

/*! \brief The driver's compiled pipelines, kept between processes. */
class PipelineCache {
 public:
  /*! \brief Start from the file of this device and driver, or empty where it is missing or foreign.
   */
  /*! \param kernels Stands for the shaders whose pipelines it keeps; see PipelineCaches. */
  PipelineCache(std::shared_ptr<const DeviceHandle> device, uint64_t kernels);
  ~PipelineCache();
  PipelineCache(const PipelineCache&) = delete;
  PipelineCache& operator=(const PipelineCache&) = delete;

  VkPipelineCache vk() const { return cache_; }
  /*! \brief A pipeline was made: the driver may have added it. */
  void MarkChanged();
  /*! \brief Write the file if the driver has added pipelines, and the last of them was made at
   * least `quiet` ago. */
  void Save(std::chrono::milliseconds quiet = std::chrono::milliseconds(0)) noexcept;
  /*! \brief Where the file is; empty when nothing is cached. */
  const std::string& path() const { return path_; }

 private:
  bool HeaderMatches(const std::vector<uint8_t>& data) const;
  /*! \brief Bytes that the driver would give now; 0 when it does not say. */
  size_t Bytes() const;
  void Write();

  std::shared_ptr<const DeviceHandle> device_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::string path_;
  std::mutex mutex_;
  bool changed_ = false;
  /*! \brief Bytes of what the file has; more mean that a pipeline was added. */
  size_t stored_bytes_ = 0;
  /*! \brief Of the file's content, also where that is none for this driver. */
  uint32_t file_crc_ = 0;
  std::chrono::steady_clock::time_point last_change_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_PIPELINE_H_
