/*!
 * \file kernel_needs.h
 * \brief What a kernel needs of a device, compared with what the device has. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_KERNEL_NEEDS_H_
#define TVM_VISION_VULKAN_KERNEL_NEEDS_H_

#include <string>
#include <vector>

#include "device_plan.h"
#include "kernel_code.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief Something that a kernel needs and a device has not, in words. */
struct UnmetNeed {
  /*! \brief As in "512 invocations in a workgroup". */
  std::string needed;
  /*! \brief As in "256 (maxComputeWorkGroupInvocations)". */
  std::string found;
};

/*! \brief All that a kernel needs and a device has not, by one table; none where it can run. */
std::vector<UnmetNeed> UnmetNeeds(const DeviceSnapshot& snapshot, const KernelCode& code);

/*!
 * \brief Name of what a device lacks to run shaders of this SPIR-V capability.
 * \return The feature's name in the Vulkan specification, or an empty string when it has it.
 */
std::string MissingForCapability(const DeviceSnapshot& snapshot, uint32_t spirv_capability);

/*! \brief Whether a pipeline of this device may ask for subgroups of so many lanes. */
bool CanRequireSubgroupSize(const DeviceSnapshot& snapshot, uint32_t lanes);

/*!
 * \brief Raise DeviceError where a device cannot run one of these kernels: one line that names the
 * first of them, what it needs, what the device has, and the remedy.
 */
void CheckRunnable(const DeviceSnapshot& snapshot, const std::vector<const KernelCode*>& kernels);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_KERNEL_NEEDS_H_
