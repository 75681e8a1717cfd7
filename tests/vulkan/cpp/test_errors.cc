// Errors: texts that are whole before anything is thrown, names of every type, UTF-8 in one line.
#include <random>
#include <stdexcept>

#include "check.h"
#include "error.h"

using namespace tvm_vision::vulkan;

namespace {

std::string Fails() { throw std::runtime_error("inner"); }

TEST(AnExceptionWhileTheTextIsFormedTakesItsPlace) {
  bool caught = false;
  try {
    TVM_VISION_THROW(InputError) << "outer " << Fails();
  } catch (const std::runtime_error& error) {
    caught = std::string(error.what()) == "inner";
  }
  CHECK(caught);
}

TEST(KindAndTextArrive) {
  try {
    TVM_VISION_THROW(InputError) << "found " << 3 << " of\n\xff";
    CHECK(false);
  } catch (const tvm::ffi::Error& error) {
    CHECK(error.kind() == "InputError");
    CHECK(error.message() == "found 3 of\\x0a\\xff");
  }
}

TEST(EveryTypeHasAName) {
  for (int code = 0; code < 256; ++code) {
    for (int bits = 0; bits < 256; ++bits) {
      for (int lanes : {0, 1, 4, 65535}) {
        DLDataType type{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                        static_cast<uint16_t>(lanes)};
        CHECK(!TypeName(type).empty());
      }
    }
  }
  CHECK(TypeName({kDLFloat, 32, 1}) == "float32");
  CHECK(TypeName({kDLComplex, 64, 1}) == "complex64");
  CHECK(TypeName({kDLBool, 8, 1}) == "bool");
  CHECK(TypeName({kDLInt, 8, 4}) == "int8x4");
  CHECK(TypeName({kDLFloat8_e4m3fn, 8, 1}) == "float8_e4m3fn");
  CHECK(TypeName({200, 16, 1}) == "type200_16");
}

TEST(AnyBytesBecomeOneLineOfUtf8) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (uint32_t n = random() % 12; n != 0; --n) {
      bytes += static_cast<char>(random() % 3 == 0 ? random() % 128 : 128 + random() % 128);
    }
    std::string line = OneLine(bytes);
    CHECK(IsUtf8(line));
    CHECK(line.find('\n') == std::string::npos);
    CHECK(OneLine(line) == line);
  }
  CHECK(OneLine("Grün 猫 🐈") == "Grün 猫 🐈");
  CHECK(OneLine("a\xc0\x80z") == "a\\xc0\\x80z");
  CHECK(OneLine("\xed\xa0\x80") == "\\xed\\xa0\\x80");
}

}  // namespace

int main() { return check::Run(); }
