/*!
 * \file error.h
 * \brief How this library raises: the text first, the exception after it.
 *
 * TVM's own macro throws out of a destructor, so that an exception raised while its text is put
 * together ends the process. Here it takes the place of the one that was meant.
 */
#ifndef TVM_VISION_VULKAN_ERROR_H_
#define TVM_VISION_VULKAN_ERROR_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/error.h>

#include <sstream>
#include <string>
#include <string_view>

namespace tvm_vision {
namespace vulkan {

/*! \brief Bytes of the character of UTF-8 that `text` begins with; 0 where it begins with none. */
inline size_t Utf8Length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) < 0x80   ? 1
                  : byte(0) < 0xc2 ? 0
                  : byte(0) < 0xe0 ? 2
                  : byte(0) < 0xf0 ? 3
                  : byte(0) < 0xf5 ? 4
                                   : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, half of a pair of UTF-16, or past the last character.
  bool wrong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
               (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : length;
}

inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/*! \brief `text` as one line of UTF-8: control characters and what is no UTF-8 as \xNN. Names out
 * of files and drivers may be anything, and Python takes nothing else. */
inline std::string OneLine(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    unsigned char first = static_cast<unsigned char>(text[0]);
    size_t length = Utf8Length(text);
    bool plain = length != 0 && first >= 0x20 && first != 0x7f;
    if (plain) {
      line += text.substr(0, length);
    } else {
      const char* digits = "0123456789abcdef";
      line += {'\\', 'x', digits[first >> 4], digits[first & 15]};
    }
    text.remove_prefix(plain ? length : 1);
  }
  return line;
}

/*! \brief Name of a type of data, also of one that TVM has no name for; never raises for a type. */
inline std::string TypeName(DLDataType type) {
  // By DLPack's code. Those with their bits in the name have no others.
  static const char* names[] = {"int",
                                "uint",
                                "float",
                                "handle",
                                "bfloat",
                                "complex",
                                "bool",
                                "float8_e3m4",
                                "float8_e4m3",
                                "float8_e4m3b11fnuz",
                                "float8_e4m3fn",
                                "float8_e4m3fnuz",
                                "float8_e5m2",
                                "float8_e5m2fnuz",
                                "float8_e8m0fnu",
                                "float6_e2m3fn",
                                "float6_e3m2fn",
                                "float4_e2m1fn"};
  bool known = type.code < sizeof(names) / sizeof(names[0]);
  std::string name = known ? names[type.code] : "type" + std::to_string(type.code) + "_";
  bool bare = type.code == kDLOpaqueHandle || (type.code == kDLBool && type.bits == 8) ||
              (known && type.code > kDLBool);
  if (!bare) name += std::to_string(type.bits);
  return type.lanes == 1 ? name : name + "x" + std::to_string(type.lanes);
}

/*! \brief A text that is put together with <<. */
class Message {
 public:
  template <typename T>
  Message& operator<<(const T& part) {
    stream_ << part;
    return *this;
  }
  std::string str() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
};

/*! \brief Where an error is raised, and of what kind; `&` raises it, with a text that is whole. */
struct Raise {
  const char* kind;
  const char* file;
  int line;
  const char* function;

  [[noreturn]] void operator&(const Message& text) const {
    throw tvm::ffi::Error(kind, OneLine(text.str()), TVMFFIBacktrace(file, line, function, 0));
  }
};

}  // namespace vulkan
}  // namespace tvm_vision

/*! \brief Raise an error of a kind of errors.py or of Python: TVM_VISION_THROW(InputError) << ...
 */
#define TVM_VISION_THROW(Kind) \
  ::tvm_vision::vulkan::Raise{#Kind, __FILE__, __LINE__, __func__} & ::tvm_vision::vulkan::Message()

#endif  // TVM_VISION_VULKAN_ERROR_H_
