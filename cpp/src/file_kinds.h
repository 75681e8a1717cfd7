/*!
 * \file file_kinds.h
 * \brief What a file is that is no package, told by its first bytes; the words of
 * tvm_vision/file_kinds.py.
 */
#ifndef TVM_VISION_CPP_FILE_KINDS_H_
#define TVM_VISION_CPP_FILE_KINDS_H_

#include <string>

#include "container.h"

namespace tvm_vision {

/*! \brief "an image: ...", with what to do; "" for what is not known. */
std::string KindOfFile(const PlainFile& file);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_FILE_KINDS_H_
