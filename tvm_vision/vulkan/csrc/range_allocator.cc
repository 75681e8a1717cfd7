#include "range_allocator.h"

#include <iterator>

namespace tvm_vision {
namespace vulkan {

RangeAllocator::RangeAllocator(uint64_t size, uint64_t alignment) : alignment_(alignment) {
  ranges_.emplace(0, Range{size, false});
}

uint64_t RangeAllocator::Allocate(uint64_t bytes) {
  uint64_t size = (bytes + alignment_ - 1) & ~(alignment_ - 1);
  auto best = ranges_.end();
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    bool fits = !it->second.used && it->second.size >= size;
    if (fits && (best == ranges_.end() || it->second.size < best->second.size)) best = it;
  }
  if (best == ranges_.end()) return kNone;
  uint64_t rest = best->second.size - size;
  // Before anything is changed, for it may be refused.
  if (rest != 0) ranges_.emplace_hint(std::next(best), best->first + size, Range{rest, false});
  best->second = {size, true};
  used_bytes_ += size;
  return best->first;
}

void RangeAllocator::Free(uint64_t offset) noexcept {
  auto range = ranges_.find(offset);
  range->second.used = false;
  used_bytes_ -= range->second.size;
  auto next = std::next(range);
  if (next != ranges_.end() && !next->second.used) {
    range->second.size += next->second.size;
    ranges_.erase(next);
  }
  if (range == ranges_.begin()) return;
  auto previous = std::prev(range);
  if (previous->second.used) return;
  previous->second.size += range->second.size;
  ranges_.erase(range);
}

}  // namespace vulkan
}  // namespace tvm_vision
