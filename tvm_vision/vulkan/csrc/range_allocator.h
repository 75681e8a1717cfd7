/*!
 * \file range_allocator.h
 * \brief Best-fit allocation of ranges inside one block. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_RANGE_ALLOCATOR_H_
#define TVM_VISION_VULKAN_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <map>

namespace tvm_vision {
namespace vulkan {

/*! \brief Hands out aligned ranges of [0, size) and merges what comes back with its neighbours. */
class RangeAllocator {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  /*! \param alignment Power of two; every range starts at a multiple and is rounded up to one. */
  RangeAllocator(uint64_t size, uint64_t alignment);

  /*! \brief Offset of a free range of at least `bytes`, or kNone. */
  uint64_t Allocate(uint64_t bytes);
  /*! \brief Give back a range; `offset` must come from Allocate and be given back once. */
  void Free(uint64_t offset);

  bool empty() const { return used_.empty(); }
  uint64_t used_bytes() const { return used_bytes_; }

 private:
  void InsertFree(uint64_t offset, uint64_t size);
  void EraseFree(std::map<uint64_t, uint64_t>::iterator it);

  uint64_t alignment_;
  uint64_t used_bytes_ = 0;
  std::map<uint64_t, uint64_t> used_;
  std::map<uint64_t, uint64_t> free_by_offset_;
  std::multimap<uint64_t, uint64_t> free_by_size_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_RANGE_ALLOCATOR_H_
