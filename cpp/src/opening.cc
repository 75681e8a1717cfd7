#include "opening.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <tvm_vision/tvm_vision.hpp>

#include "loading.h"

// Of the Vulkan backend.
extern "C" uint64_t tvm_vision_vulkan_shutdowns();
extern "C" void tvm_vision_vulkan_open(int device, uint64_t shutdowns) noexcept;
extern "C" void tvm_vision_vulkan_shutdown();

namespace tvm_vision {

namespace {

constexpr double kMostSeconds = 1e8;  // more than clocks can add, and than anybody waits

}  // namespace

/*! \brief What the thread and who waits for it have in common; the thread may outlive all else. */
struct Opening::Work {
  std::mutex mutex;
  std::condition_variable over;
  bool done = false;

  bool Done() {
    std::lock_guard<std::mutex> guard(mutex);
    return done;
  }
};

/*! \brief The opening that took too long, if there is one. */
struct Opening::Late {
  std::mutex mutex;
  std::shared_ptr<Work> work;
  bool watched = false;
};

Opening::Late& Opening::AllLate() {
  static auto* late = new Late;  // never destroyed: the process' end asks for it
  return *late;
}

void CheckOpeningTimeout(double seconds) {
  if (std::isfinite(seconds) && seconds >= 0) return;
  char found[32];
  std::snprintf(found, sizeof(found), std::isfinite(seconds) ? "%.6g" : "%g", seconds);
  throw Error("InputError", std::string("opening_timeout must be 0 or more seconds, found ") +
                                found + "; 0 sets no limit");
}

Opening::Opening(int device, double seconds) : device_(device), seconds_(seconds) {
  {
    Late& late = AllLate();
    std::lock_guard<std::mutex> guard(late.mutex);
    if (late.work != nullptr && !late.work->Done()) {
      work_ = late.work;
      return;
    }
  }
  work_ = std::make_shared<Work>();
  // All that it needs is its own: who began it may be gone before it is over.
  auto open = [work = work_, device, shutdowns = tvm_vision_vulkan_shutdowns()] {
    tvm_vision_vulkan_open(device, shutdowns);
    std::lock_guard<std::mutex> guard(work->mutex);
    work->done = true;
    work->over.notify_all();
  };
  try {
    std::thread(open).detach();
  } catch (const std::system_error&) {
    open();  // no more threads are to be had
  }
}

Opening::~Opening() {
  if (work_ != nullptr) OverInTime();
}

void Opening::Wait() {
  bool over = OverInTime();
  work_.reset();
  if (!over) {
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%g", seconds_);
    throw Error(
        "DeviceError",
        std::string("a Vulkan driver that answers is needed, and one has been at opening its "
                    "device for ") +
            seconds +
            " s: end this process, see the kernel log for the GPU, and what tvm-vision doctor says "
            "of each driver; restart the machine where it stays so");
  }
  // A driver loads more with a device than to tell of itself.
  static std::once_flag once[2];
  std::call_once(once[device_ == kNoDevice ? 0 : 1], EndVulkanFirst);
}

bool Opening::OverInTime() {
  std::unique_lock<std::mutex> lock(work_->mutex);
  auto done = [&] { return work_->done; };
  if (seconds_ == 0) {
    work_->over.wait(lock, done);
    return true;
  }
  std::chrono::duration<double> limit(std::min(seconds_, kMostSeconds));
  if (work_->over.wait_for(lock, limit, done)) return true;
  lock.unlock();
  Late& late = AllLate();
  std::lock_guard<std::mutex> guard(late.mutex);
  late.work = work_;
  // Last, so that it comes first: before destructors of libraries that the driver is made of.
  if (!late.watched) on_exit(LeaveNow, nullptr);
  late.watched = true;
  return false;
}

/*! \brief At the process' end: what the driver holds would hold up a regular one. */
void Opening::LeaveNow(int status, void*) {
  Late& late = AllLate();
  std::lock_guard<std::mutex> guard(late.mutex);
  if (late.work->Done()) {
    tvm_vision_vulkan_shutdown();
    return;
  }
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace tvm_vision
