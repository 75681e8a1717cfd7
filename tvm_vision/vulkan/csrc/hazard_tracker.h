/*!
 * \file hazard_tracker.h
 * \brief Where a barrier is needed between operations on buffers. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_HAZARD_TRACKER_H_
#define TVM_VISION_VULKAN_HAZARD_TRACKER_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief One operation's use of the bytes [begin, end) of one piece of memory. */
struct BufferAccess {
  const void* memory;
  uint64_t begin;
  uint64_t end;
  bool reads;
  bool writes;
};

/*! \brief Remembers what happened to each piece of memory since the last barrier. */
class HazardTracker {
 public:
  /*!
   * \brief Note the accesses of the next operation.
   * \return True when a barrier must come first: it reads what was written since the last barrier,
   * or writes what was read or written since. The barrier then counts as placed.
   */
  bool Access(const std::vector<BufferAccess>& accesses) {
    bool barrier = false;
    for (const BufferAccess& access : accesses) barrier = barrier || Conflicts(access);
    if (barrier) since_barrier_.clear();
    for (const BufferAccess& access : accesses) {
      since_barrier_[access.memory].push_back({access.begin, access.end, access.writes});
    }
    return barrier;
  }

  /*! \brief Everything before is known to be finished. */
  void Reset() { since_barrier_.clear(); }

 private:
  struct Range {
    uint64_t begin;
    uint64_t end;
    bool written;
  };

  bool Conflicts(const BufferAccess& access) const {
    auto found = since_barrier_.find(access.memory);
    if (found == since_barrier_.end()) return false;
    for (const Range& range : found->second) {
      bool overlap = range.begin < access.end && access.begin < range.end;
      if (overlap && (range.written || access.writes)) return true;
    }
    return false;
  }

  std::unordered_map<const void*, std::vector<Range>> since_barrier_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_HAZARD_TRACKER_H_
