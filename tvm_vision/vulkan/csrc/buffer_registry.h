/*!
 * \file buffer_registry.h
 * \brief Which handles that TVM passes around are buffers of ours.
 */
#ifndef TVM_VISION_VULKAN_BUFFER_REGISTRY_H_
#define TVM_VISION_VULKAN_BUFFER_REGISTRY_H_

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "device.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief A tensor's memory and the device it lives on. */
struct RegisteredBuffer {
  std::shared_ptr<Buffer> buffer;
  std::shared_ptr<Device> device;
};

/*! \brief DLTensor::data of a Vulkan tensor is a key of this map; a foreign pointer is noticed. */
class BufferRegistry {
 public:
  static BufferRegistry& Global();

  void* Add(RegisteredBuffer buffer);
  /*! \brief The buffer behind a handle; raises DeviceError naming `user` when it is none of ours.
   */
  RegisteredBuffer Find(const void* handle, const char* user);
  void Remove(const void* handle);

 private:
  std::shared_mutex mutex_;
  std::unordered_map<const void*, RegisteredBuffer> buffers_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_BUFFER_REGISTRY_H_
