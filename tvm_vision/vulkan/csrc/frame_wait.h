/*!
 * \file frame_wait.h
 * \brief How a host thread waits for a frame: asleep while it cannot be done yet, then polling.
 * Pure: no Vulkan, no clock.
 *
 * To be woken costs 40 microseconds on a desktop and some hundred in a virtual machine, more than
 * the frame of a small network; polling costs a core. So a thread sleeps until shortly before the
 * time that frames took so far, polls for a while, and sleeps again when that was not enough.
 */
#ifndef TVM_VISION_VULKAN_FRAME_WAIT_H_
#define TVM_VISION_VULKAN_FRAME_WAIT_H_

#include <algorithm>
#include <chrono>

namespace tvm_vision {
namespace vulkan {

class FrameWait {
 public:
  using Duration = std::chrono::nanoseconds;

  /*! \param margin Polling begins so long before the expected end and ends as long after it; zero
   * means never to poll. */
  explicit FrameWait(Duration margin) : margin_(margin) {}

  bool polls() const { return margin_ != Duration::zero(); }
  /*! \brief Since its submission, how long to sleep before polling. */
  Duration sleep() const { return std::max(Duration::zero(), expected_ - margin_); }
  /*! \brief Since its submission, when to give up polling and sleep until it is done. */
  Duration give_up() const { return expected_ + 2 * margin_; }
  /*! \brief A frame took so long. The fastest of the last ones count: others met other work. */
  void Learn(Duration frame) {
    expected_ += frame < expected_ ? frame - expected_ : (frame - expected_) / kSlowness;
  }

 private:
  static constexpr int kSlowness = 8;

  Duration margin_;
  Duration expected_{0};
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_FRAME_WAIT_H_
