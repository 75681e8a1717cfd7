/*!
 * \file text.h
 * \brief UTF-8 out of files that anybody may have written, for messages and for what is signed.
 */
#ifndef TVM_VISION_CPP_TEXT_H_
#define TVM_VISION_CPP_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tvm_vision {

/*! \brief What std::bad_alloc, which has no words, is told as. */
constexpr const char* kOutOfMemory =
    "this process needs more memory, and the system refuses it: end what else needs memory, raise "
    "the limit of the process (ulimit -v, that of its container), or use a smaller image";

/*! \brief Take a character off the front. False, and nothing taken, where no character of UTF-8
 * (RFC 3629) begins. */
bool TakeCharacter(std::string_view* text, uint32_t* character);

bool IsUtf8(std::string_view text);

/*! \brief Bytes that are no UTF-8 as \xNN, as Python's "backslashreplace" has them. */
std::string ToUtf8(std::string_view bytes);

/*! \brief Why the system's last call failed, by errno. */
std::string SystemReason();

/*! \brief At most so many characters of UTF-8. */
std::string Shortened(std::string_view text, size_t most);

/*! \brief One line of a message: what cannot be printed is written out, and of one without end both
 * ends stay, as in tvm_vision/errors.py. */
std::string OneLine(std::string_view text);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_TEXT_H_
