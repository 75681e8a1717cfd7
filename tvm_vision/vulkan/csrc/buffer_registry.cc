#include "buffer_registry.h"

#include <new>

namespace tvm_vision {
namespace vulkan {

BufferRegistry& BufferRegistry::Global() {
  // Never destroyed: Python may free tensors after static destructors have run.
  alignas(BufferRegistry) static unsigned char memory[sizeof(BufferRegistry)];
  static BufferRegistry* registry = new (memory) BufferRegistry();
  return *registry;
}

void* BufferRegistry::Add(RegisteredBuffer buffer) {
  void* handle = buffer.buffer.get();
  std::unique_lock<std::shared_mutex> lock(mutex_);
  buffers_.emplace(handle, std::move(buffer));
  return handle;
}

RegisteredBuffer BufferRegistry::Find(const void* handle, const char* user) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto found = buffers_.find(handle);
  if (found == buffers_.end()) {
    TVM_VISION_THROW(DeviceError) << user
                                  << " needed a tensor on a Vulkan device, found a pointer that "
                                  << "is none; pass tensors made with device=tvm.vulkan(i)";
  }
  return found->second;
}

void BufferRegistry::Remove(const void* handle) {
  RegisteredBuffer removed;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  auto found = buffers_.find(handle);
  if (found == buffers_.end()) return;
  removed = std::move(found->second);
  buffers_.erase(found);
  // The memory goes back after the lock: freeing a block may take the driver long.
  lock.unlock();
}

}  // namespace vulkan
}  // namespace tvm_vision
