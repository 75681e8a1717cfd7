/*!
 * \file driver_search.h
 * \brief Why the Vulkan loader found no driver with a device. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_DRIVER_SEARCH_H_
#define TVM_VISION_VULKAN_DRIVER_SEARCH_H_

#include <string>

#include "device_options.h"

namespace tvm_vision {
namespace vulkan {

/*!
 * \brief One line: what is wrong, and what to do.
 *
 * The fault of a driver that the environment names; else whether the user may open the GPUs that
 * the kernel has; else what keeps the drivers that are installed from loading, as a limit of
 * memory; else that a driver is missing.
 */
std::string WhyNoDriver(const Environment& environment);

/*!
 * \brief The same of the first driver's file that the environment names and that is of no use; ""
 * where each is sound or none is named.
 *
 * The variables are those of "Loader and Driver Interface" of the Vulkan loader, which answers a
 * damaged file with VK_ERROR_OUT_OF_HOST_MEMORY.
 */
std::string FaultOfNamedDrivers(const Environment& environment);

/*! \brief What is wrong with a driver's file as it follows "which"; empty where it is sound. */
std::string FaultOfDriverFile(const std::string& path);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DRIVER_SEARCH_H_
