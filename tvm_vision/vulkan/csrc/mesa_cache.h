/*!
 * \file mesa_cache.h
 * \brief The cache of shaders that Mesa's drivers keep for all programs.
 */
#ifndef TVM_VISION_VULKAN_MESA_CACHE_H_
#define TVM_VISION_VULKAN_MESA_CACHE_H_

#include "device_options.h"

namespace tvm_vision {
namespace vulkan {

/*!
 * \brief Whether the file system of Mesa's cache has room for its index.
 *
 * Mesa maps a file of that size without asking for its blocks: where there are none left, the
 * process is ended by SIGBUS when it writes there.
 */
bool MesaCacheHasRoom(const Environment& environment);

/*! \brief Switch Mesa's cache off for this process where it has no room, unless somebody said what
 * is to be. For before a driver is loaded. */
void SpareMesaCacheWithoutRoom();

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_MESA_CACHE_H_
