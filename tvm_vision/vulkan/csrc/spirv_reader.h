/*!
 * \file spirv_reader.h
 * \brief What the runtime needs to know of a compute shader, read from its SPIR-V. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_SPIRV_READER_H_
#define TVM_VISION_VULKAN_SPIRV_READER_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shader_types.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief How a shader touches one storage buffer. */
struct BindingAccess {
  bool reads = false;
  bool writes = false;
};

/*! \brief Interface of a compute shader. */
struct ShaderInterface {
  /*! \brief Version of SPIR-V, as 0x10500 for 1.5. */
  uint32_t version = 0;
  std::string entry_point;
  std::array<uint32_t, 3> local_size{{1, 1, 1}};
  /*! \brief Numbers of the SPIR-V capabilities the shader declares. */
  std::vector<uint32_t> capabilities;
  /*! \brief Storage and uniform buffers of descriptor set 0, by binding. */
  std::map<uint32_t, BindingAccess> bindings;
  /*! \brief Of workgroup memory. */
  uint64_t shared_bytes = 0;
  /*! \brief Products on matrix units, each once. */
  std::vector<MatrixProduct> products;
  /*! \brief See ShaderTypes. */
  std::string extended_subgroup_type;
};

/*!
 * \brief Read the interface of a compute shader.
 *
 * Walks the binary layout of the SPIR-V specification (section 2.3) and checks each instruction's
 * length, so that damaged words are refused here and never reach a driver. Access is derived from
 * the decorations NonWritable and NonReadable; a buffer without them counts as read and written.
 * \param name The kernel, for messages.
 * \return The interface; raises DeviceError for words that are no compute shader.
 */
ShaderInterface ReadShaderInterface(const std::string& name, const std::vector<uint32_t>& words);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_SPIRV_READER_H_
