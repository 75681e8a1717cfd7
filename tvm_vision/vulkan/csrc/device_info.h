/*!
 * \file device_info.h
 * \brief What a device reports, in the words of TVM's targets and of our Python API.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_INFO_H_
#define TVM_VISION_VULKAN_DEVICE_INFO_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/string.h>

#include <string>

#include "device_plan.h"

namespace tvm_vision {
namespace vulkan {

/*!
 * \brief A property by the name it has as attribute of TVM's target kind "vulkan".
 * \return None when there is no such property.
 */
tvm::ffi::Any TargetProperty(const DeviceSnapshot& snapshot, const std::string& name);

/*! \brief Bytes of the largest heap that tensors may lie in. */
int64_t TensorMemoryBytes(const DeviceSnapshot& snapshot, const DevicePlan& plan);

/*! \brief Everything known of a device, for tvm_vision.vulkan.devices(). */
tvm::ffi::Map<tvm::ffi::String, tvm::ffi::Any> DescribeDevice(const DeviceSnapshot& snapshot,
                                                              const DevicePlan& plan);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_INFO_H_
