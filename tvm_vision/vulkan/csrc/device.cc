#include "device.h"

#include <tvm/ffi/extra/c_env_api.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <thread>

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr size_t kRecordingsInFlight = 64;
constexpr std::chrono::milliseconds kQuietBeforeSave{1000};
/*! \brief A wait looks so often whether another thread has given the device up. */
constexpr std::chrono::milliseconds kLongestSleep{250};

/*! \brief What this thread records for later; see Device::Capture. */
thread_local const Device* captured_device = nullptr;
thread_local const std::shared_ptr<Stream>* capture_stream = nullptr;

}  // namespace

void RefuseAfterFork(pid_t opened_by) {
  if (opened_by == getpid()) return;
  TVM_VISION_THROW(DeviceError)
      << "Vulkan was opened before this process was forked and cannot be used in the child; start "
         "it "
         "with multiprocessing's method spawn, or use Vulkan first in the child";
}

Device::Device(std::shared_ptr<const DeviceHandle> handle, int number)
    : handle_(std::move(handle)), number_(number), process_(getpid()) {
  const DevicePlan& plan = handle_->plan;
  const DeviceFunctions& fn = handle_->fn;
  fn.vkGetDeviceQueue(handle_->vk, plan.queue_family, 0, &queue_);
  VkBufferUsageFlags transfer = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  auto pool = [&](std::vector<uint32_t> types, bool map, VkBufferUsageFlags usage,
                  uint64_t block_size) {
    return std::make_shared<MemoryPool>(handle_, std::move(types), map, usage, block_size,
                                        plan.alignment);
  };
  tensors_ = pool(plan.tensor_memory, plan.unified, transfer | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
                  plan.block_size);
  if (!plan.input_memory.empty()) {
    inputs_ =
        pool(plan.input_memory, true, transfer | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, kStagingBlock);
  }
  upload_ =
      pool({plan.upload_memory}, true,
           VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, kStagingBlock);
  readback_ = pool({plan.readback_memory}, true, VK_BUFFER_USAGE_TRANSFER_DST_BIT, kStagingBlock);
  streams_.push_back(std::make_shared<Stream>(this));
  // The last: behind it nothing is refused, as nobody would destroy it then.
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VK_CHECK("opening " + snapshot().name, fn, vkCreateSemaphore, handle_->vk, &info, nullptr,
           &timeline_);
}

Device::~Device() {
  streams_.clear();
  if (!IsIdle() && !in_flight_.empty()) {
    // What may still run keeps what it uses, and the device, for good: memory freed under it would
    // end the process.
    for (std::unique_ptr<Recording>& recording : in_flight_) recording.release();
    return;
  }
  in_flight_.clear();
  free_.clear();
  SavePipelines(std::chrono::milliseconds::zero());
  handle_->fn.vkDestroySemaphore(handle_->vk, timeline_, nullptr);
}

void Device::Keep(const std::shared_ptr<PipelineCache>& cache) {
  std::lock_guard<std::mutex> guard(caches_lock_);
  auto gone = [](const std::weak_ptr<PipelineCache>& other) { return other.expired(); };
  caches_.erase(std::remove_if(caches_.begin(), caches_.end(), gone), caches_.end());
  caches_.push_back(cache);
}

std::vector<std::shared_ptr<PipelineCache>> Device::PipelineCaches() {
  std::lock_guard<std::mutex> guard(caches_lock_);
  std::vector<std::shared_ptr<PipelineCache>> alive;
  for (const std::weak_ptr<PipelineCache>& cache : caches_) {
    if (std::shared_ptr<PipelineCache> found = cache.lock()) alive.push_back(std::move(found));
  }
  return alive;
}

void Device::SavePipelines(std::chrono::milliseconds quiet) noexcept {
  std::lock_guard<std::mutex> guard(caches_lock_);
  for (const std::weak_ptr<PipelineCache>& cache : caches_) {
    if (std::shared_ptr<PipelineCache> found = cache.lock()) found->Save(quiet);
  }
}

std::shared_ptr<Stream> Device::FindStream(void* handle) {
  std::lock_guard<std::mutex> guard(lock_);
  if (handle == nullptr) return streams_.front();
  for (const std::shared_ptr<Stream>& stream : streams_) {
    if (stream.get() == handle) return stream;
  }
  TVM_VISION_THROW(DeviceError) << "a stream handle of " << snapshot().name
                                << " was needed, found one that was freed or belongs to another "
                                   "device; use the handle that create_stream of this device gave";
}

std::shared_ptr<Stream> Device::CurrentStream() {
  if (captured_device == this) return *capture_stream;
  return FindStream(TVMFFIEnvGetStream(kDLVulkan, number_));
}

void Device::Capture(const std::shared_ptr<Stream>* stream) noexcept {
  captured_device = stream != nullptr ? this : nullptr;
  capture_stream = stream;
}

std::shared_ptr<Stream> Device::CreateStream() {
  std::lock_guard<std::mutex> guard(lock_);
  streams_.push_back(std::make_shared<Stream>(this));
  return streams_.back();
}

void Device::DestroyStream(const std::shared_ptr<Stream>& stream) {
  Synchronize(stream);
  std::lock_guard<std::mutex> guard(lock_);
  // The first stream is the default one and lives as long as the device.
  auto found = std::find(streams_.begin() + 1, streams_.end(), stream);
  if (found != streams_.end()) streams_.erase(found);
}

void Device::Synchronize() {
  uint64_t value;
  {
    std::lock_guard<std::mutex> guard(lock_);
    FlushStreams();
    value = submitted_;
  }
  Wait(value);
  SavePipelines(kQuietBeforeSave);
}

void Device::Synchronize(const std::shared_ptr<Stream>& stream) {
  uint64_t value;
  {
    std::lock_guard<std::mutex> guard(lock_);
    value = stream->Flush();
  }
  Wait(value);
}

void Device::Wait(uint64_t value) {
  if (value == 0) return;
  WaitForTimeline(value);
  std::lock_guard<std::mutex> guard(lock_);
  Reap();
}

void Device::WaitForFrame(uint64_t value, std::chrono::steady_clock::time_point start,
                          FrameWait* how) {
  if (!how->polls() || value == 0 || ReachedTimeline() >= value) return Wait(value);
  auto elapsed = [&] { return std::chrono::steady_clock::now() - start; };
  FrameWait::Duration rest = how->sleep() - elapsed();
  const WaitLimit::Duration limit = WaitLimit::Current();
  if (limit.count() > 0) rest = std::min(rest, limit);
  bool done = rest.count() > 0 && WaitForTimeline(value, rest);
  while (!done && elapsed() < how->give_up()) {
    done = ReachedTimeline() >= value;
    // The core goes to whoever else wants it.
    if (!done) std::this_thread::yield();
  }
  if (!done) WaitForTimeline(value);
  how->Learn(elapsed());
  std::lock_guard<std::mutex> guard(lock_);
  Reap();
}

bool Device::IsIdle() noexcept {
  const DeviceFunctions& fn = handle_->fn;
  // A device that is lost has given up its work (Vulkan specification, "Lost Device").
  auto over = [](VkResult result) {
    return result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST;
  };
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &submitted_;
  // Where frames have a limit, so has the end. vkDeviceWaitIdle has none.
  if (hangs_ || longest_limit_.count() > 0) {
    WaitLimit::Duration limit = hangs_ ? WaitLimit::Duration::zero() : longest_limit_;
    uint64_t time = static_cast<uint64_t>(limit.count());
    if (!over(fn.vkWaitSemaphores(handle_->vk, &info, time))) return false;
  }
  if (over(fn.vkDeviceWaitIdle(handle_->vk))) return true;
  return over(fn.vkWaitSemaphores(handle_->vk, &info, UINT64_MAX));
}

void Device::WaitForTimeline(uint64_t value) {
  const WaitLimit::Duration limit = WaitLimit::Current();
  WaitLimit::Duration waited{0};
  for (;;) {
    WaitLimit::Duration sleep = kLongestSleep;
    if (limit.count() > 0) sleep = std::min(limit - waited, sleep);
    const auto start = std::chrono::steady_clock::now();
    if (WaitForTimeline(value, sleep)) return;
    RefuseIfLost();
    // No more than was asked for: while the process was stopped, or the machine slept, a device
    // that is a processor did nothing either.
    waited += std::min<WaitLimit::Duration>(std::chrono::steady_clock::now() - start, sleep);
    if (limit.count() > 0 && waited >= limit) break;
  }
  hangs_ = handle_->lost = true;
  double seconds = std::chrono::duration<double>(limit).count();
  TVM_VISION_THROW(DeviceLostError)
      << "waiting for " << snapshot().name << ": its work was not done within " << seconds
      << " s, the time limit, and is given up; load the network again, or allow more time";
}

bool Device::WaitForTimeline(uint64_t value, std::chrono::nanoseconds time) {
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &value;
  VkResult result =
      handle_->fn.vkWaitSemaphores(handle_->vk, &info, static_cast<uint64_t>(time.count()));
  if (result == VK_TIMEOUT) return false;
  if (result == VK_ERROR_DEVICE_LOST) handle_->lost = true;
  if (result != VK_SUCCESS)
    CheckResult(result, "vkWaitSemaphores", "waiting for " + snapshot().name);
  return true;
}

uint64_t Device::ReachedTimeline() const {
  uint64_t reached = 0;
  VkResult result = handle_->fn.vkGetSemaphoreCounterValue(handle_->vk, timeline_, &reached);
  if (result == VK_ERROR_DEVICE_LOST) handle_->lost = true;
  CheckResult(result, "vkGetSemaphoreCounterValue", "asking " + snapshot().name + " how far it is");
  return reached;
}

void Device::Reap() {
  // Of a lost device nobody can tell which work it has begun: all is kept until it goes.
  if (in_flight_.empty() || handle_->lost) return;
  uint64_t reached = ReachedTimeline();
  while (!in_flight_.empty() && in_flight_.front()->value <= reached) {
    auto first = in_flight_.begin();
    if ((*first)->Recycle()) {
      free_.splice(free_.end(), in_flight_, first);
    } else {
      in_flight_.erase(first);
    }
  }
}

void Device::RefuseIfLost() const {
  if (!handle_->lost) return;
  TVM_VISION_THROW(DeviceLostError)
      << "work for " << snapshot().name << " was lost when an earlier call "
      << "failed; load the network again, or restart the process";
}

std::unique_ptr<Recording> Device::NewRecording(bool reusable) {
  RefuseAfterFork(process_);
  RefuseIfLost();
  Reap();
  if (in_flight_.size() >= kRecordingsInFlight) {
    uint64_t oldest = in_flight_.front()->value;
    WaitForTimeline(oldest);
    Reap();
  }
  std::unique_ptr<Recording> recording;
  if (free_.empty()) {
    recording = std::make_unique<Recording>(handle_);
  } else {
    RecordingList place;
    place.splice(place.end(), free_, std::prev(free_.end()));
    recording = std::move(place.front());
    recording->place = std::move(place);
  }
  recording->Begin(next_recording_++, reusable);
  return recording;
}

void Device::Adopt(std::unique_ptr<Recording> recording) noexcept {
  RecordingList place = std::move(recording->place);
  place.front() = std::move(recording);
  in_flight_.splice(in_flight_.end(), place);
}

uint64_t Device::Submit(std::unique_ptr<Recording> recording) {
  try {
    recording->End();
    uint64_t value = SubmitAgain(recording.get());
    Adopt(std::move(recording));
    return value;
  } catch (const std::exception&) {
    // Others count on what it would have done: nobody may go on as if it had.
    handle_->lost = true;
    // A lost device may have begun it.
    Adopt(std::move(recording));
    throw;
  }
}

uint64_t Device::SubmitAgain(Recording* recording) {
  RefuseAfterFork(process_);
  RefuseIfLost();
  uint64_t value = submitted_ + 1;
  longest_limit_ = std::max(longest_limit_, WaitLimit::Current());
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &value;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &recording->cmd;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline_;
  VkResult result = handle_->fn.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
  if (result == VK_ERROR_DEVICE_LOST) handle_->lost = true;
  if (result != VK_SUCCESS)
    CheckResult(result, "vkQueueSubmit", "submitting commands to " + snapshot().name);
  submitted_ = value;
  recording->value = value;
  for (const std::shared_ptr<Buffer>& buffer : recording->buffers) buffer->last_use = value;
  return value;
}

void Device::SubmitNothing() {
  std::lock_guard<std::mutex> guard(lock_);
  FlushStreams();
  Submit(NewRecording());
}

void Device::FlushStreams() {
  for (const std::shared_ptr<Stream>& stream : streams_) stream->Flush();
}

void Device::FlushRecording(uint64_t id) {
  if (id == 0) return;
  for (const std::shared_ptr<Stream>& stream : streams_) {
    if (stream->open_recording() == id) stream->Flush();
  }
}

}  // namespace vulkan
}  // namespace tvm_vision
