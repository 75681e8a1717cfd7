/*!
 * \file device.h
 * \brief A device in use: its queue, memory, streams and pipeline cache.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_H_
#define TVM_VISION_VULKAN_DEVICE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frame_wait.h"
#include "stream.h"
#include "wait_limit.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief Raises DeviceError in a child that was forked: it shares the parent's GPU state, which no
 * driver allows. */
void RefuseAfterFork(pid_t opened_by);

/*! \brief One opened device. Its lock guards recording and submission, so that any thread may call.
 */
class Device : public std::enable_shared_from_this<Device> {
 public:
  /*! \param number Its number as tvm.vulkan(number) counts. */
  Device(std::shared_ptr<const DeviceHandle> handle, int number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int number() const { return number_; }
  const DeviceHandle& handle() const { return *handle_; }
  std::shared_ptr<const DeviceHandle> shared_handle() const { return handle_; }
  const DeviceSnapshot& snapshot() const { return handle_->snapshot(); }
  /*! \brief Have a cache saved when the device goes, if not before. */
  void Keep(const std::shared_ptr<PipelineCache>& cache);
  /*! \brief The caches in use. */
  std::vector<std::shared_ptr<PipelineCache>> PipelineCaches();
  std::mutex& lock() { return lock_; }
  /*! \brief Whether work was lost, so that every later use is refused; a new device is needed. */
  bool lost() const { return handle_->lost; }

  // ---- memory; the lock must not be held
  /*! \brief Memory for a tensor; raises DeviceError when there is none left. */
  std::shared_ptr<Buffer> AllocateTensor(uint64_t bytes);
  /*! \brief Device memory that the host writes in place, for inputs; nullptr where there is none
   * left or the device has no such memory. */
  std::shared_ptr<Buffer> TryAllocateInput(uint64_t bytes) {
    return inputs_ ? inputs_->TryAllocate(bytes) : nullptr;
  }
  MemoryStatistics TensorStatistics() { return tensors_->Statistics(); }

  // ---- copies; the lock must not be held. Offsets and sizes in bytes.
  void Upload(const void* from, const std::shared_ptr<Buffer>& to, uint64_t to_offset,
              uint64_t bytes, const std::shared_ptr<Stream>& stream);
  /*! \brief Returns when the bytes are there. */
  void Download(const std::shared_ptr<Buffer>& from, uint64_t from_offset, void* to, uint64_t bytes,
                const std::shared_ptr<Stream>& stream);
  void CopyOnDevice(const std::shared_ptr<Buffer>& from, uint64_t from_offset,
                    const std::shared_ptr<Buffer>& to, uint64_t to_offset, uint64_t bytes,
                    const std::shared_ptr<Stream>& stream);

  /*! \brief Wait until the device is done with a buffer, so that the host may touch it. */
  void WaitForBuffer(const std::shared_ptr<Buffer>& buffer);
  /*! \brief Mapped memory that the host writes (upload) or reads (read-back); raises DeviceError.
   */
  std::shared_ptr<Buffer> AllocateHostWritten(uint64_t bytes) {
    return AllocateStaging(upload_.get(), bytes);
  }
  std::shared_ptr<Buffer> AllocateHostRead(uint64_t bytes) {
    return AllocateStaging(readback_.get(), bytes);
  }

  // ---- streams; the lock must not be held
  /*! \brief The stream behind a handle; nullptr means the default one. Raises DeviceError for
   * others. */
  std::shared_ptr<Stream> FindStream(void* handle);
  /*! \brief The stream that this thread set for the device, else the default one. */
  std::shared_ptr<Stream> CurrentStream();
  /*! \brief Until called with nullptr, this thread's launches on this device go to `stream`, which
   * lives until then. */
  void Capture(const std::shared_ptr<Stream>* stream) noexcept;
  /*! \brief A new stream; its address is the handle that FindStream takes. */
  std::shared_ptr<Stream> CreateStream();
  void DestroyStream(const std::shared_ptr<Stream>& stream);
  /*! \brief Submit commands that do nothing. */
  void SubmitNothing();
  /*! \brief Submit everything recorded on every stream and wait for it. */
  void Synchronize();
  /*! \brief Submit what is recorded on one stream and wait for it. */
  void Synchronize(const std::shared_ptr<Stream>& stream);
  /*! \brief Wait until the device's timeline reaches `value`. */
  void Wait(uint64_t value);
  /*! \brief The same for a frame, submitted at `start`; `how` says when to poll, and learns. */
  void WaitForFrame(uint64_t value, std::chrono::steady_clock::time_point start, FrameWait* how);

  // ---- for Stream; the lock must be held
  std::shared_ptr<Buffer> AllocateUpload(uint64_t bytes);
  std::unique_ptr<Recording> NewRecording(bool reusable = false);
  uint64_t Submit(std::unique_ptr<Recording> recording);
  /*! \brief Submit a reusable recording that was ended and is not in flight; the caller keeps it.
   */
  uint64_t SubmitAgain(Recording* recording);
  /*! \brief Take a recording that was submitted: it lives, with all it uses, until the device has
   * passed it. */
  void Adopt(std::unique_ptr<Recording> recording) noexcept;
  /*! \brief Submit what is recorded on every stream, so that it comes before what is submitted
   * next. */
  void FlushStreams();
  /*! \brief Submit the open recording of this number, if it is still open on some stream. */
  void FlushRecording(uint64_t id);

 private:
  /*! \brief Bytes of one block of staging memory, and the most that uploads hold of it at a time:
   * drivers pin it page by page, which takes longer than to wait for the copies before. */
  static constexpr uint64_t kStagingBlock = 8u << 20;

  std::shared_ptr<Buffer> AllocateStaging(MemoryPool* pool, uint64_t bytes);
  /*!
   * \brief Wait until the timeline reaches `value`; the lock may be held or not. Raises
   * DeviceLostError where that takes longer than this thread's WaitLimit, after which the device
   * counts as lost.
   */
  void WaitForTimeline(uint64_t value);
  /*! \return False when the time was over first. */
  bool WaitForTimeline(uint64_t value, std::chrono::nanoseconds time);
  /*! \brief Whether nothing runs any more, as far as that can be told. */
  bool IsIdle() noexcept;
  uint64_t ReachedTimeline() const;
  void Reap();
  void RefuseIfLost() const;
  /*! \brief Save the caches of pipelines that did not grow for so long. */
  void SavePipelines(std::chrono::milliseconds quiet) noexcept;

  std::shared_ptr<const DeviceHandle> handle_;
  int number_;
  pid_t process_;
  std::mutex lock_;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  /*! \brief Whether it did not answer in time: no call that waits for it may come back. */
  std::atomic<bool> hangs_{false};
  /*! \brief The longest WaitLimit with which work was submitted; zero: none had one. */
  WaitLimit::Duration longest_limit_{0};
  uint64_t submitted_ = 0;
  uint64_t next_recording_ = 1;
  RecordingList in_flight_;
  RecordingList free_;
  std::shared_ptr<MemoryPool> tensors_;
  std::shared_ptr<MemoryPool> inputs_;
  std::shared_ptr<MemoryPool> upload_;
  std::shared_ptr<MemoryPool> readback_;
  std::mutex caches_lock_;
  std::vector<std::weak_ptr<PipelineCache>> caches_;
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_H_
