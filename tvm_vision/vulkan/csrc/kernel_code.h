/*!
 * \file kernel_code.h
 * \brief A kernel as plain data. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_KERNEL_CODE_H_
#define TVM_VISION_VULKAN_KERNEL_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "spirv_reader.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief A kernel as the device runs it, whatever the device. */
struct KernelCode {
  std::string name;
  std::vector<uint32_t> words;
  ShaderInterface interface;
  uint32_t num_buffers = 0;
  /*! \brief Bytes of scalars, hidden ones included; 8 a scalar. */
  uint32_t scalar_bytes = 0;
  /*! \brief Scalars come in a uniform buffer at binding num_buffers instead of push constants. */
  bool scalars_in_uniform_buffer = false;
  /*! \brief Subgroup size the shader counts on, in lanes; 0 when it does not care. */
  uint32_t subgroup_size = 0;
  /*! \brief It does not count on it, but is fastest with it. */
  bool subgroup_preferred = false;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_KERNEL_CODE_H_
