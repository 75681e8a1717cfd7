/*!
 * \file image_file.h
 * \brief Image files, by OpenCV where the program was built with it, else by stb.
 */
#ifndef TVM_VISION_CPP_IMAGE_FILE_H_
#define TVM_VISION_CPP_IMAGE_FILE_H_

#include <string>
#include <tvm_vision/tvm_vision.hpp>

#include "resize.h"

namespace tvm_vision {

/*! \brief An image of three channels, BGR. Throws InputError where it cannot be read. */
Pixels ReadImage(const std::string& path);

/*! \brief Write one of one or three channels, BGR, as PNG, to a name of its own first. Throws
 * InputError where it cannot be written. */
void WritePng(const std::string& path, const Pixels& image);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_IMAGE_FILE_H_
