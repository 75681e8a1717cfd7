/*!
 * \file memory.h
 * \brief Device memory: blocks that many tensors share, and the buffers cut out of them.
 *
 * Drivers allow as few as 4096 allocations and make each one slow, so small buffers share blocks. A
 * block is one VkDeviceMemory under one VkBuffer; a buffer is a range of it.
 */
#ifndef TVM_VISION_VULKAN_MEMORY_H_
#define TVM_VISION_VULKAN_MEMORY_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_plan.h"
#include "range_allocator.h"

namespace tvm_vision {
namespace vulkan {

class MemoryPool;

/*! \brief One VkDeviceMemory and the VkBuffer over all of it. */
struct MemoryBlock {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t size = 0;
  /*! \brief Address of the whole block in the host's memory; nullptr when it is not mapped. */
  uint8_t* mapped = nullptr;
  std::unique_ptr<RangeAllocator> ranges;
};

/*! \brief Counters of one pool or of a device, in bytes and numbers. */
struct MemoryStatistics {
  uint64_t used_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t peak_used_bytes = 0;
  uint64_t allocations = 0;
  uint64_t blocks = 0;
};

/*!
 * \brief A range of a block, or of another buffer. Gives the range back when it goes; keeps its
 * pool, or the buffer it is a part of, alive.
 */
class Buffer : public std::enable_shared_from_this<Buffer> {
 public:
  Buffer(std::shared_ptr<MemoryPool> pool, std::list<MemoryBlock>::iterator block, uint64_t offset,
         uint64_t size);
  /*! \brief The part of `whole` from `offset` on; `whole` is no part itself. */
  Buffer(std::shared_ptr<Buffer> whole, uint64_t offset, uint64_t size);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  VkBuffer vk() const { return block_->buffer; }
  /*! \brief Offset of the first byte inside vk(). */
  uint64_t offset() const { return offset_; }
  uint64_t size() const { return size_; }
  /*! \brief The buffer that owns the memory: this one, or the one it is a part of. */
  std::shared_ptr<Buffer> owner() { return whole_ ? whole_ : shared_from_this(); }
  /*! \brief First byte in the host's memory, or nullptr. */
  uint8_t* mapped() const { return block_->mapped ? block_->mapped + offset_ : nullptr; }

  // Of an owner only: parts share the state of the whole.
  /*! \brief Number of the recording that used the buffer last; guarded by the device's lock. */
  uint64_t last_recording = 0;
  /*! \brief Timeline value after which the device is done with it; guarded by the device's lock. */
  uint64_t last_use = 0;

 private:
  std::shared_ptr<MemoryPool> pool_;
  std::shared_ptr<Buffer> whole_;
  std::list<MemoryBlock>::iterator block_;
  uint64_t offset_;
  uint64_t size_;
};

/*! \brief Blocks of one purpose (tensors, upload, read-back), over memory types in order of
 * preference. */
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  /*!
   * \param types Memory types to try, best first.
   * \param map Map each block for the life of the pool.
   * \param usage Usage of the VkBuffers.
   */
  MemoryPool(std::shared_ptr<const struct DeviceHandle> device, std::vector<uint32_t> types,
             bool map, VkBufferUsageFlags usage, uint64_t block_size, uint64_t alignment);
  ~MemoryPool();

  /*!
   * \brief A buffer of `bytes` (at least 1).
   * \return nullptr when no memory type has room.
   */
  std::shared_ptr<Buffer> TryAllocate(uint64_t bytes);
  MemoryStatistics Statistics();

 private:
  friend class Buffer;
  void Free(std::list<MemoryBlock>::iterator block, uint64_t offset);
  /*! \brief The same; the lock must be held. */
  void FreeLocked(std::list<MemoryBlock>::iterator block, uint64_t offset);
  bool NewBlock(uint64_t size);
  bool NewBlockOfType(uint64_t size, uint32_t type);
  void DestroyBlock(MemoryBlock* block);

  std::shared_ptr<const DeviceHandle> device_;
  std::vector<uint32_t> types_;
  bool map_;
  VkBufferUsageFlags usage_;
  uint64_t block_size_;
  uint64_t alignment_;
  std::mutex mutex_;
  std::list<MemoryBlock> blocks_;
  MemoryStatistics statistics_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_MEMORY_H_
