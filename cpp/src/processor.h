/*!
 * \file processor.h
 * \brief The processor that this is, and what code asks of one: tvm_vision/processors.py.
 */
#ifndef TVM_VISION_CPP_PROCESSOR_H_
#define TVM_VISION_CPP_PROCESSOR_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tvm_vision {

/*! \brief Features of a processor by Linux's names; nothing where nothing is known of it. */
using ProcessorFeatures = std::optional<std::set<std::string>>;

/*! \brief The kind of processor that this was built for, as Python's platform.machine() says it. */
std::string ProcessorName();

/*! \brief The kind of processor that a library in ELF is for, by such a name; "" for others. */
std::string MachineOf(std::string_view library);

/*! \brief What Linux says that this processor has. */
ProcessorFeatures FeaturesHere();

/*! \brief Those that a processor lacks, with commas between them; "" where nothing is known. */
std::string Lacking(const std::vector<std::string>& needed, const ProcessorFeatures& here);

/*! \brief Throw the PackageError for a library that is for another kind of processor, or that
 * needs features that this one lacks. */
void CheckProcessor(std::string_view library, const std::vector<std::string>& needed);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_PROCESSOR_H_
