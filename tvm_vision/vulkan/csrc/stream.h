/*!
 * \file stream.h
 * \brief Recording of work for a device and its submission.
 *
 * Work is recorded into a command buffer and handed to the queue in batches. Barriers stand only
 * where one operation touches what another one wrote (HazardTracker). Everything a recording uses
 * stays alive until the device has passed it, so that freeing a tensor never waits.
 */
#ifndef TVM_VISION_VULKAN_STREAM_H_
#define TVM_VISION_VULKAN_STREAM_H_

#include <array>
#include <memory>
#include <vector>

#include "hazard_tracker.h"
#include "memory.h"
#include "pipeline.h"

namespace tvm_vision {
namespace vulkan {

class Device;

/*! \brief A command buffer with all that it uses. */
class Recording {
 public:
  explicit Recording(std::shared_ptr<const DeviceHandle> device);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void Begin(uint64_t id);
  void End();
  /*! \brief Drop what was used, so that the recording can begin anew. */
  void Recycle();
  VkDescriptorSet AllocateSet(VkDescriptorSetLayout layout, uint32_t storage_buffers);

  VkCommandBuffer cmd = VK_NULL_HANDLE;
  /*! \brief Number of the recording on its device, never 0 between Begin and Recycle. */
  uint64_t id = 0;
  /*! \brief Timeline value that the device reaches when it is through; 0 before submission. */
  uint64_t value = 0;
  uint32_t operations = 0;
  uint64_t staging_bytes = 0;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::shared_ptr<const void>> kept;

 private:
  void NewDescriptorPool(uint32_t storage_buffers);

  std::shared_ptr<const DeviceHandle> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkDescriptorPool> descriptor_pools_;
  size_t current_pool_ = 0;
};

/*! \brief Two timestamps on the device. */
struct TimestampPair {
  std::shared_ptr<const DeviceHandle> device;
  VkQueryPool pool = VK_NULL_HANDLE;

  explicit TimestampPair(std::shared_ptr<const DeviceHandle> device);
  ~TimestampPair();
  /*! \brief Nanoseconds between the two; both must have been reached. */
  int64_t Nanoseconds() const;
};

/*!
 * \brief A sequence of operations on one device. All methods expect the device's lock to be held.
 */
class Stream {
 public:
  explicit Stream(Device* device) : device_(device) {}

  /*!
   * \brief Record one kernel.
   * \param scalars pipeline->scalar_bytes bytes.
   * \param grid Workgroups per axis, each at least 1 and within the device's limits.
   */
  void Launch(const std::shared_ptr<const Pipeline>& pipeline,
              const std::vector<std::shared_ptr<Buffer>>& buffers, const void* scalars,
              const std::array<uint32_t, 3>& grid);
  /*! \brief Record a copy between buffers of this device; ranges must not overlap. */
  void Copy(const std::shared_ptr<Buffer>& from, uint64_t from_offset,
            const std::shared_ptr<Buffer>& to, uint64_t to_offset, uint64_t bytes);
  /*! \brief Record timestamp 0 or 1, reached when everything before it has finished. */
  void WriteTimestamp(const std::shared_ptr<const TimestampPair>& pair, uint32_t index);
  /*! \brief Submit what was recorded. \return Timeline value of the last submission of this stream.
   */
  uint64_t Flush();

  /*! \brief Number of the open recording; 0 when nothing is recorded. */
  uint64_t open_recording() const { return recording_ ? recording_->id : 0; }
  /*! \brief While positive, recordings are not cut by themselves: a timer measures one submission.
   */
  int timers_running = 0;

 private:
  Recording& Open();
  void Use(const std::shared_ptr<Buffer>& buffer);
  void BarrierIfNeeded(const std::vector<BufferAccess>& accesses);
  void FlushIfLong();

  Device* device_;
  std::unique_ptr<Recording> recording_;
  HazardTracker hazards_;
  uint64_t last_value_ = 0;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_STREAM_H_
