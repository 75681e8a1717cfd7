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
#include <list>
#include <memory>
#include <vector>

#include "hazard_tracker.h"
#include "memory.h"
#include "pipeline.h"

namespace tvm_vision {
namespace vulkan {

class Device;
class Recording;

/*! \brief Recordings go from list to list without memory that might be refused. */
using RecordingList = std::list<std::unique_ptr<Recording>>;

/*! \brief A command buffer with all that it uses. */
class Recording {
 public:
  explicit Recording(std::shared_ptr<const DeviceHandle> device);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /*! \param reusable It will be submitted more than once, never while it is in flight. */
  void Begin(uint64_t id, bool reusable);
  void End();
  /*! \brief Drop what was used, so that the recording can begin anew; false where it cannot. */
  bool Recycle();
  VkDescriptorSet AllocateSet(VkDescriptorSetLayout layout, uint32_t storage_buffers);

  VkCommandBuffer cmd = VK_NULL_HANDLE;
  /*! \brief Number of the recording on its device, never 0 between Begin and Recycle. */
  uint64_t id = 0;
  /*! \brief Timeline value that the device reaches when it is through; 0 before submission. */
  uint64_t value = 0;
  uint32_t operations = 0;
  /*! \brief Barriers between operations. */
  uint32_t barriers = 0;
  uint64_t copied_bytes = 0;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::shared_ptr<const void>> kept;
  /*! \brief Its place in the device's list of what is in flight, while it is in none. */
  RecordingList place;

 private:
  /*! \brief Without anything yet, so that what fails to be made leaves nothing behind. */
  struct Empty {};
  Recording(std::shared_ptr<const DeviceHandle> device, Empty);
  void NewDescriptorPool(uint32_t storage_buffers);

  std::shared_ptr<const DeviceHandle> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkDescriptorPool> descriptor_pools_;
  size_t current_pool_ = 0;
};

/*! \brief Timestamps on the device. */
struct Timestamps {
  std::shared_ptr<const DeviceHandle> device;
  VkQueryPool pool = VK_NULL_HANDLE;
  uint32_t count = 0;

  Timestamps(std::shared_ptr<const DeviceHandle> device, uint32_t count);
  ~Timestamps();
  Timestamps(const Timestamps&) = delete;
  Timestamps& operator=(const Timestamps&) = delete;
  /*! \brief Nanoseconds from the first timestamp to each one; all must have been reached. */
  std::vector<int64_t> Nanoseconds() const;
  /*! \brief The same on the host's steady clock, where the device's can be read beside it; empty
   * where not. \param deviation How far apart the two may have been read, in nanoseconds. */
  std::vector<int64_t> OnHostClock(int64_t* deviation) const;

 private:
  std::vector<uint64_t> Ticks() const;
  /*! \brief Nanoseconds from one tick to another, which may be the earlier one. */
  int64_t Between(uint64_t from, uint64_t to) const;
};

/*!
 * \brief A sequence of operations on one device. All methods expect the device's lock to be held.
 */
class Stream {
 public:
  explicit Stream(Device* device) : device_(device) {}
  /*! \brief A stream that captures: what is launched goes into `recording` and is not submitted. */
  Stream(Device* device, std::unique_ptr<Recording> recording)
      : device_(device), recording_(std::move(recording)), capturing_(true) {}

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
  /*!
   * \brief Record a timestamp, reached when everything before it has finished; what follows starts
   * after it. Number 0 comes first: it resets the others.
   */
  void WriteTimestamp(const std::shared_ptr<const Timestamps>& timestamps, uint32_t index);
  /*! \brief Everything recorded before finishes before what follows begins. */
  void FullBarrier();
  /*! \brief End a capture. \return What was captured. */
  std::unique_ptr<Recording> Finish() { return std::move(recording_); }
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
  void EmitBarrier();
  void FlushIfLong();

  Device* device_;
  std::unique_ptr<Recording> recording_;
  bool capturing_ = false;
  HazardTracker hazards_;
  uint64_t last_value_ = 0;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_STREAM_H_
