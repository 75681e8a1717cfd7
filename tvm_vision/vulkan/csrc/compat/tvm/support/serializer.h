/*!
 * \file serializer.h
 * \brief Stands in for a header that the wheel's tensor.h includes but the wheel does not carry.
 */
#ifndef TVM_VISION_VULKAN_COMPAT_SERIALIZER_H_
#define TVM_VISION_VULKAN_COMPAT_SERIALIZER_H_

#include "io.h"

namespace tvm {
namespace support {

template <typename T, typename Enable = void>
struct Serializer {
  static constexpr bool enabled = false;
};

}  // namespace support
}  // namespace tvm

#endif  // TVM_VISION_VULKAN_COMPAT_SERIALIZER_H_
