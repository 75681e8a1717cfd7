/*!
 * \file hazard_tracker.h
 * \brief Where a barrier is needed between operations on buffers. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_HAZARD_TRACKER_H_
#define TVM_VISION_VULKAN_HAZARD_TRACKER_H_

#include <unordered_map>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief One operation's use of one buffer. */
struct BufferAccess {
  const void* buffer;
  bool reads;
  bool writes;
};

/*! \brief Remembers what happened to each buffer since the last barrier. */
class HazardTracker {
 public:
  /*!
   * \brief Note the accesses of the next operation.
   * \return True when a barrier must come first: it reads what was written since the last barrier,
   * or writes what was read or written since. The barrier then counts as placed.
   */
  bool Access(const std::vector<BufferAccess>& accesses) {
    bool barrier = false;
    for (const BufferAccess& access : accesses) {
      auto it = since_barrier_.find(access.buffer);
      if (it == since_barrier_.end()) continue;
      if (it->second.written || access.writes) barrier = true;
    }
    if (barrier) since_barrier_.clear();
    for (const BufferAccess& access : accesses) {
      since_barrier_[access.buffer].written |= access.writes;
    }
    return barrier;
  }

  /*! \brief Everything before is known to be finished. */
  void Reset() { since_barrier_.clear(); }

 private:
  struct State {
    bool written = false;
  };
  std::unordered_map<const void*, State> since_barrier_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_HAZARD_TRACKER_H_
