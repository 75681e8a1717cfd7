/*!
 * \file io.h
 * \brief Stands in for a header that the wheel's tensor.h includes but the wheel does not carry.
 *
 * tensor.h only needs these names to compile its inline functions for saving tensors, which this
 * library never calls; hence declarations without definitions.
 */
#ifndef TVM_VISION_VULKAN_COMPAT_IO_H_
#define TVM_VISION_VULKAN_COMPAT_IO_H_

#include <cstddef>

namespace tvm {
namespace support {

class Stream {
 public:
  size_t Read(void* data, size_t bytes);
  size_t Write(const void* data, size_t bytes);
  template <typename T>
  bool Read(T* value);
  template <typename T>
  void Write(const T& value);
  template <typename T>
  bool ReadArray(T* values, size_t count);
  template <typename T>
  void WriteArray(const T* values, size_t count);
};

}  // namespace support
}  // namespace tvm

#endif  // TVM_VISION_VULKAN_COMPAT_IO_H_
