/*!
 * \file device_snapshot.h
 * \brief Read a physical device into plain data.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_SNAPSHOT_H_
#define TVM_VISION_VULKAN_DEVICE_SNAPSHOT_H_

#include "device_plan.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief Ask a device for everything that planning and code generation use. */
DeviceSnapshot TakeSnapshot(const InstanceFunctions& fn, VkPhysicalDevice physical);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_SNAPSHOT_H_
