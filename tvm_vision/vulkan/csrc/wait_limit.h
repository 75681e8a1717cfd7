/*!
 * \file wait_limit.h
 * \brief How long a thread waits for a device before it gives the device up. Pure: no Vulkan.
 *
 * A GPU that hangs answers nobody. Whoever runs a network says how long its frames may take; that
 * holds for every wait within the call, whatever part of the library it is in.
 */
#ifndef TVM_VISION_VULKAN_WAIT_LIMIT_H_
#define TVM_VISION_VULKAN_WAIT_LIMIT_H_

#include <chrono>

namespace tvm_vision {
namespace vulkan {

class WaitLimit {
 public:
  using Duration = std::chrono::nanoseconds;

  /*! \brief Of this thread; zero: it waits for any time. */
  static Duration Current() { return Slot(); }

  /*! \brief A limit of this thread from here to the end of the block. */
  class Scope {
   public:
    explicit Scope(Duration limit) : before_(Slot()) { Slot() = limit; }
    ~Scope() { Slot() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Duration before_;
  };

 private:
  static Duration& Slot() {
    thread_local Duration limit{0};
    return limit;
  }
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_WAIT_LIMIT_H_
