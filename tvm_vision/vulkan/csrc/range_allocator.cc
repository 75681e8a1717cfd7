#include "range_allocator.h"

#include <iterator>

namespace tvm_vision {
namespace vulkan {

RangeAllocator::RangeAllocator(uint64_t size, uint64_t alignment) : alignment_(alignment) {
  InsertFree(0, size);
}

void RangeAllocator::InsertFree(uint64_t offset, uint64_t size) {
  if (size == 0) return;
  free_by_offset_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
}

void RangeAllocator::EraseFree(std::map<uint64_t, uint64_t>::iterator it) {
  auto range = free_by_size_.equal_range(it->second);
  for (auto by_size = range.first; by_size != range.second; ++by_size) {
    if (by_size->second == it->first) {
      free_by_size_.erase(by_size);
      break;
    }
  }
  free_by_offset_.erase(it);
}

uint64_t RangeAllocator::Allocate(uint64_t bytes) {
  uint64_t size = (bytes + alignment_ - 1) & ~(alignment_ - 1);
  auto best = free_by_size_.lower_bound(size);
  if (best == free_by_size_.end()) return kNone;
  auto it = free_by_offset_.find(best->second);
  uint64_t offset = it->first;
  uint64_t rest = it->second - size;
  EraseFree(it);
  InsertFree(offset + size, rest);
  used_.emplace(offset, size);
  used_bytes_ += size;
  return offset;
}

void RangeAllocator::Free(uint64_t offset) {
  auto used = used_.find(offset);
  uint64_t size = used->second;
  used_bytes_ -= size;
  used_.erase(used);
  auto next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.end() && next->first == offset + size) {
    size += next->second;
    EraseFree(next);
  }
  next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      EraseFree(previous);
    }
  }
  InsertFree(offset, size);
}

}  // namespace vulkan
}  // namespace tvm_vision
