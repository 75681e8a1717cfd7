/*!
 * \file environment.h
 * \brief Environment variables that choose between two ways.
 */
#ifndef TVM_VISION_VULKAN_ENVIRONMENT_H_
#define TVM_VISION_VULKAN_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

namespace tvm_vision {
namespace vulkan {

/*!
 * \brief Whether a variable asks for `other`; unset and empty mean `usual`.
 * \param error One line when it is neither of them.
 */
inline bool AskedFor(const char* variable, const char* usual, const char* other,
                     std::string* error) {
  const char* value = std::getenv(variable);
  std::string way = value == nullptr || *value == '\0' ? usual : value;
  if (way != usual && way != other) {
    *error = std::string(variable) + " must be " + usual + " or " + other + ", found \"" + way +
             "\"; unset it for the default";
  }
  return way == other;
}

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_ENVIRONMENT_H_
