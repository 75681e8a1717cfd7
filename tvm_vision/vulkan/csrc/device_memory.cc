/*!
 * \file device_memory.cc
 * \brief A device's memory: tensors, staging, and the copies between host and device.
 */
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device.h"

namespace tvm_vision {
namespace vulkan {

namespace {

/*! \brief Bytes of one staging copy: large enough for full bus speed, small enough to overlap, and
 * less than half a block, so that blocks are shared. */
constexpr uint64_t kStagingChunk = 2u << 20;
std::string Mebibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::shared_ptr<Buffer> Device::AllocateTensor(uint64_t bytes) {
  std::shared_ptr<Buffer> buffer = tensors_->TryAllocate(bytes);
  if (!buffer) {
    // Freed tensors may still wait for the device to pass them.
    Synchronize();
    buffer = tensors_->TryAllocate(bytes);
  }
  if (!buffer) {
    MemoryStatistics statistics = tensors_->Statistics();
    const DeviceSnapshot& s = snapshot();
    uint64_t heap = 0;
    for (uint32_t type : handle_->plan.tensor_memory) {
      heap = std::max<uint64_t>(heap, s.memory_heaps[s.memory_types[type].heapIndex].size);
    }
    TVM_VISION_THROW(DeviceError) << "out of device memory on " << s.name << ": needed "
                                  << Mebibytes(bytes) << " for a tensor; "
                                  << Mebibytes(statistics.used_bytes) << " in "
                                  << statistics.allocations
                                  << " tensors are in use, the memory holds " << Mebibytes(heap)
                                  << ", one allocation at most " << Mebibytes(s.max_allocation_size)
                                  << "; free tensors or use a smaller batch or image";
  }
  return buffer;
}

std::shared_ptr<Buffer> Device::AllocateUpload(uint64_t bytes) {
  std::shared_ptr<Buffer> buffer = upload_->TryAllocate(bytes);
  if (!buffer) {
    TVM_VISION_THROW(DeviceError) << "out of host-visible memory on " << snapshot().name
                                  << ": needed " << Mebibytes(bytes)
                                  << " for arguments; free tensors";
  }
  return buffer;
}

std::shared_ptr<Buffer> Device::AllocateStaging(MemoryPool* pool, uint64_t bytes) {
  std::shared_ptr<Buffer> buffer = pool->TryAllocate(bytes);
  if (!buffer) {
    Synchronize();
    buffer = pool->TryAllocate(bytes);
  }
  if (!buffer) {
    TVM_VISION_THROW(DeviceError) << "out of host-visible memory on " << snapshot().name
                                  << ": needed " << Mebibytes(bytes)
                                  << " to stage a copy; free tensors";
  }
  return buffer;
}

void Device::WaitForBuffer(const std::shared_ptr<Buffer>& used) {
  std::shared_ptr<Buffer> buffer = used->owner();
  uint64_t value;
  {
    std::lock_guard<std::mutex> guard(lock_);
    RefuseIfLost();
    FlushRecording(buffer->last_recording);
    value = buffer->last_use;
  }
  Wait(value);
}

void Device::Upload(const void* from, const std::shared_ptr<Buffer>& to, uint64_t to_offset,
                    uint64_t bytes, const std::shared_ptr<Stream>& stream) {
  if (to->mapped() != nullptr) {
    WaitForBuffer(to);
    std::memcpy(to->mapped() + to_offset, from, bytes);
    return;
  }
  const uint8_t* source = static_cast<const uint8_t*>(from);
  for (uint64_t done = 0; done < bytes; done += kStagingChunk) {
    uint64_t size = std::min(kStagingChunk, bytes - done);
    if (upload_->Statistics().used_bytes + size > kStagingBlock) Synchronize(stream);
    std::shared_ptr<Buffer> staging = AllocateStaging(upload_.get(), size);
    std::memcpy(staging->mapped(), source + done, size);
    std::lock_guard<std::mutex> guard(lock_);
    stream->Copy(staging, 0, to, to_offset + done, size);
  }
}

void Device::Download(const std::shared_ptr<Buffer>& from, uint64_t from_offset, void* to,
                      uint64_t bytes, const std::shared_ptr<Stream>& stream) {
  if (from->mapped() != nullptr && handle_->plan.unified_cached) {
    WaitForBuffer(from);
    std::memcpy(to, from->mapped() + from_offset, bytes);
    return;
  }
  uint8_t* target = static_cast<uint8_t*>(to);
  for (uint64_t done = 0; done < bytes; done += kStagingChunk) {
    uint64_t size = std::min(kStagingChunk, bytes - done);
    std::shared_ptr<Buffer> staging = AllocateStaging(readback_.get(), size);
    {
      std::lock_guard<std::mutex> guard(lock_);
      stream->Copy(from, from_offset + done, staging, 0, size);
    }
    Synchronize(stream);
    std::memcpy(target + done, staging->mapped(), size);
  }
}

void Device::CopyOnDevice(const std::shared_ptr<Buffer>& from, uint64_t from_offset,
                          const std::shared_ptr<Buffer>& to, uint64_t to_offset, uint64_t bytes,
                          const std::shared_ptr<Stream>& stream) {
  bool overlap = from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes;
  std::shared_ptr<Buffer> between = overlap ? AllocateTensor(bytes) : nullptr;
  std::lock_guard<std::mutex> guard(lock_);
  if (overlap) {
    stream->Copy(from, from_offset, between, 0, bytes);
    stream->Copy(between, 0, to, to_offset, bytes);
  } else {
    stream->Copy(from, from_offset, to, to_offset, bytes);
  }
}

}  // namespace vulkan
}  // namespace tvm_vision
