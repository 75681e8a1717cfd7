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
  /*! \brief Give back a range; `offset` must come from Allocate and be given back once. Needs no
   * memory: destructors call it. */
  void Free(uint64_t offset) noexcept;

  bool empty() const { return used_bytes_ == 0; }
  uint64_t used_bytes() const { return used_bytes_; }

 private:
  struct Range {
    uint64_t size;
    bool used;
  };

  uint64_t alignment_;
  uint64_t used_bytes_ = 0;
  /*! \brief All of the block, by offset; no two free ones lie side by side. */
  std::map<uint64_t, Range> ranges_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_RANGE_ALLOCATOR_H_
