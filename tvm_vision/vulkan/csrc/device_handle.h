/*!
 * \file device_handle.h
 * \brief The VkDevice itself, kept alive by everything that was created from it.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_HANDLE_H_
#define TVM_VISION_VULKAN_DEVICE_HANDLE_H_

#include <atomic>
#include <memory>

#include "instance.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief A VkDevice and its entry points; destroyed when the last buffer or pipeline is gone. */
struct DeviceHandle {
  std::shared_ptr<Instance> instance;
  /*! \brief Index of the physical device in the instance. */
  size_t physical_index = 0;
  DevicePlan plan;
  /*! \brief As they were when the devices were opened. */
  const DeviceOptions options;
  DeviceFunctions fn;
  VkDevice vk = VK_NULL_HANDLE;
  /*! \brief Whether work on it was lost: nobody uses it any more, and keeps nothing of it. */
  mutable std::atomic<bool> lost{false};

  const DeviceSnapshot& snapshot() const { return instance->snapshots()[physical_index]; }

  /*!
   * \brief Create the device with every feature its snapshot has; raises DeviceError.
   * \param plan Of this device, without a refusal.
   */
  DeviceHandle(std::shared_ptr<Instance> instance, size_t physical_index, DevicePlan plan,
               DeviceOptions options);
  ~DeviceHandle();
  DeviceHandle(const DeviceHandle&) = delete;
  DeviceHandle& operator=(const DeviceHandle&) = delete;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_HANDLE_H_
