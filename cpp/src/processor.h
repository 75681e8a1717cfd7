/*!
 * \file processor.h
 * \brief What code asks of a processor beyond what every one of its kind has.
 */
#ifndef TVM_VISION_CPP_PROCESSOR_H_
#define TVM_VISION_CPP_PROCESSOR_H_

#include <string>
#include <vector>

namespace tvm_vision {

/*! \brief Throw the PackageError for features, by Linux's names, that this processor lacks; where
 * Linux says nothing of it, nothing is known. Counterpart of tvm_vision/processors.py. */
void CheckProcessor(const std::vector<std::string>& needed);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_PROCESSOR_H_
