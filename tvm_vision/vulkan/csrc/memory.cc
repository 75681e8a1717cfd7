#include "memory.h"

#include <algorithm>
#include <new>

#include "device_handle.h"

namespace tvm_vision {
namespace vulkan {

Buffer::Buffer(std::shared_ptr<MemoryPool> pool, std::list<MemoryBlock>::iterator block,
               uint64_t offset, uint64_t size)
    : pool_(std::move(pool)), block_(block), offset_(offset), size_(size) {}

Buffer::Buffer(std::shared_ptr<Buffer> whole, uint64_t offset, uint64_t size)
    : whole_(std::move(whole)),
      block_(whole_->block_),
      offset_(whole_->offset_ + offset),
      size_(size) {}

Buffer::~Buffer() {
  if (!whole_) pool_->Free(block_, offset_);
}

MemoryPool::MemoryPool(std::shared_ptr<const DeviceHandle> device, std::vector<uint32_t> types,
                       bool map, VkBufferUsageFlags usage, uint64_t block_size, uint64_t alignment)
    : device_(std::move(device)),
      types_(std::move(types)),
      map_(map),
      usage_(usage),
      block_size_(block_size),
      alignment_(alignment) {}

MemoryPool::~MemoryPool() {
  for (MemoryBlock& block : blocks_) DestroyBlock(&block);
}

void MemoryPool::DestroyBlock(MemoryBlock* block) {
  device_->fn.vkDestroyBuffer(device_->vk, block->buffer, nullptr);
  device_->fn.vkFreeMemory(device_->vk, block->memory, nullptr);
}

bool MemoryPool::NewBlockOfType(uint64_t size, uint32_t type) {
  const DeviceFunctions& fn = device_->fn;
  // What the host needs for it comes first: memory of a device would be lost where that is refused.
  std::list<MemoryBlock> made(1);
  MemoryBlock& block = made.front();
  block.size = size;
  block.ranges = std::make_unique<RangeAllocator>(size, alignment_);
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = size;
  info.usage = usage_;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  if (fn.vkCreateBuffer(device_->vk, &info, nullptr, &block.buffer) != VK_SUCCESS) return false;
  VkMemoryRequirements requirements;
  fn.vkGetBufferMemoryRequirements(device_->vk, block.buffer, &requirements);
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.allocationSize = requirements.size;
  allocate.memoryTypeIndex = type;
  bool usable = (requirements.memoryTypeBits & (1u << type)) != 0 &&
                requirements.size <= device_->snapshot().max_allocation_size;
  if (!usable ||
      fn.vkAllocateMemory(device_->vk, &allocate, nullptr, &block.memory) != VK_SUCCESS) {
    fn.vkDestroyBuffer(device_->vk, block.buffer, nullptr);
    return false;
  }
  void* address = nullptr;
  bool ok = fn.vkBindBufferMemory(device_->vk, block.buffer, block.memory, 0) == VK_SUCCESS;
  ok = ok && (!map_ || fn.vkMapMemory(device_->vk, block.memory, 0, VK_WHOLE_SIZE, 0, &address) ==
                           VK_SUCCESS);
  if (!ok) {
    DestroyBlock(&block);
    return false;
  }
  block.mapped = static_cast<uint8_t*>(address);
  blocks_.splice(blocks_.end(), made);
  statistics_.reserved_bytes += size;
  ++statistics_.blocks;
  return true;
}

bool MemoryPool::NewBlock(uint64_t size) {
  if (statistics_.blocks >= device_->snapshot().max_allocation_count) return false;
  for (uint32_t type : types_) {
    // Some drivers accept any size and fail, or kill the process, when the pages are touched.
    const DeviceSnapshot& s = device_->snapshot();
    if (size > s.memory_heaps[s.memory_types[type].heapIndex].size) continue;
    if (NewBlockOfType(size, type)) return true;
  }
  return false;
}

std::shared_ptr<Buffer> MemoryPool::TryAllocate(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  bytes = std::max<uint64_t>(bytes, 1);
  uint64_t rounded = (bytes + alignment_ - 1) & ~(alignment_ - 1);
  auto take = [&](std::list<MemoryBlock>::iterator block) -> std::shared_ptr<Buffer> {
    uint64_t offset = block->ranges->Allocate(bytes);
    if (offset == RangeAllocator::kNone) return nullptr;
    statistics_.used_bytes += rounded;
    statistics_.peak_used_bytes = std::max(statistics_.peak_used_bytes, statistics_.used_bytes);
    ++statistics_.allocations;
    try {
      return std::make_shared<Buffer>(shared_from_this(), block, offset, bytes);
    } catch (const std::bad_alloc&) {
      FreeLocked(block, offset);
      throw;
    }
  };
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (std::shared_ptr<Buffer> buffer = take(block)) return buffer;
  }
  // A buffer of half a block or more gets one of its own: sharing would only strand the rest.
  bool shared_block = rounded < block_size_ / 2 && NewBlock(block_size_);
  if (!shared_block && !NewBlock(rounded)) return nullptr;
  return take(std::prev(blocks_.end()));
}

void MemoryPool::Free(std::list<MemoryBlock>::iterator block, uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex_);
  FreeLocked(block, offset);
}

void MemoryPool::FreeLocked(std::list<MemoryBlock>::iterator block, uint64_t offset) {
  uint64_t before = block->ranges->used_bytes();
  block->ranges->Free(offset);
  statistics_.used_bytes -= before - block->ranges->used_bytes();
  --statistics_.allocations;
  if (!block->ranges->empty()) return;
  // One empty shared block stays, so that a loop of allocate and free does not hit the driver.
  bool another_empty = std::any_of(blocks_.begin(), blocks_.end(), [&](const MemoryBlock& other) {
    return &other != &*block && other.ranges->empty();
  });
  if (block->size == block_size_ && !another_empty) return;
  statistics_.reserved_bytes -= block->size;
  --statistics_.blocks;
  DestroyBlock(&*block);
  blocks_.erase(block);
}

MemoryStatistics MemoryPool::Statistics() {
  std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

}  // namespace vulkan
}  // namespace tvm_vision
