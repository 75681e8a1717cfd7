/*!
 * \file module_format.h
 * \brief Kernels of a module as bytes, in the form that TVM's own Vulkan module has. Pure: no
 * Vulkan.
 *
 * Little endian throughout:
 *   format name (u64 length, bytes) ;
 *   u64 count, then for each kernel: name, FunctionInfo (name, argument types, launch tags, extra
 * tags) ; u64 count, then for each kernel: name, u64 length, shader (u32 flags, u64 words, words) ;
 *   trailer of ours: "TVVK", u32 CRC-32 of all before it. A reader of TVM stops before the trailer;
 * bytes without one are accepted, since TVM writes none.
 */
#ifndef TVM_VISION_VULKAN_MODULE_FORMAT_H_
#define TVM_VISION_VULKAN_MODULE_FORMAT_H_

#include <tvm/ffi/dtype.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief Bits of KernelRecord::flags. Bit 0 is TVM's, the others are ours and ignored by TVM. */
constexpr uint32_t kFlagScalarsInUniformBuffer = 1u << 0;
/*!
 * \brief The grid is folded to stay within 65535 workgroups an axis; see
 * docs/design/vulkan-backend.md.
 */
constexpr uint32_t kFlagFoldedGrid = 1u << 8;
/*! \brief The shader is best with the subgroup size below, and right with any. */
constexpr uint32_t kFlagPreferredSubgroup = 1u << 9;
/*! \brief Bits 16 to 23: subgroup size the shader needs, in lanes. */
constexpr uint32_t kSubgroupSizeShift = 16;

/*! \brief One kernel as it is stored. */
struct KernelRecord {
  std::string name;
  /*! \brief Types of the arguments: buffers (opaque handles) first, then scalars. */
  std::vector<DLDataType> arg_types;
  /*! \brief What the arguments after these are: "blockIdx.x", "threadIdx.x", … */
  std::vector<std::string> launch_param_tags;
  std::vector<int32_t> arg_extra_tags;
  uint32_t flags = 0;
  std::vector<uint32_t> words;
};

/*! \brief Kernels by name; std::map so that the same kernels give the same bytes. */
using KernelMap = std::map<std::string, KernelRecord>;

std::string SerializeKernels(const KernelMap& kernels);

/*! \brief Inverse of SerializeKernels; raises DeviceError for damaged bytes, whatever they are. */
KernelMap DeserializeKernels(const char* data, size_t size);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_MODULE_FORMAT_H_
