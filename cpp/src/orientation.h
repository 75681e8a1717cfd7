/*!
 * \file orientation.h
 * \brief Which way up an image file says that it is: cameras write what they saw, and how they were
 * held.
 */
#ifndef TVM_VISION_CPP_ORIENTATION_H_
#define TVM_VISION_CPP_ORIENTATION_H_

#include <cstdint>
#include <vector>

#include "resize.h"

namespace tvm_vision {

/*! \brief Exif's orientation in the bytes of a JPEG or PNG file: 1 to 8; 1, upright, where it says
 * none. Never throws: what is damaged says none. */
int OrientationOf(const std::vector<uint8_t>& file);

/*! \brief The image upright, as OpenCV gives it. orientation: 1 to 8. */
Pixels Upright(Pixels image, int orientation);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_ORIENTATION_H_
