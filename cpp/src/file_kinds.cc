#include "file_kinds.h"

namespace tvm_vision {

namespace {

constexpr const char* kImage =
    "an image: 'tvm-vision detect' and 'classify' take it after a package";
constexpr const char* kVideo =
    "a video: 'tvm-vision detect' and 'classify' take it after a package";
constexpr const char* kBag = "a recorded bag: 'tvm-vision bag' and 'replay' take it";
constexpr const char* kLibrary = "a shared library: name the package that it is of";
constexpr const char* kTflite = "a TFLite model: 'tvm-vision compile' makes a package of it";
constexpr const char* kParams = "mod.params of a package: name the package that it is of";
constexpr const char* kCheckpoint =
    "a PyTorch checkpoint: 'yoeo-to-onnx' and 'classifier-to-onnx' take it";

/*! \brief First bytes, and where they stand. */
struct Magic {
  size_t at;
  std::string_view bytes;
  const char* words;
};
constexpr Magic kMagic[] = {{0, "\x89PNG\r\n", kImage},
                            {0, "\xff\xd8\xff", kImage},
                            {0, "GIF8", kImage},
                            {8, "WEBP", kImage},
                            {0, {"II*\0", 4}, kImage},
                            {0, {"MM\0*", 4}, kImage},
                            {4, "ftyp", kVideo},
                            {8, "AVI ", kVideo},
                            {0, "\x1a\x45\xdf\xa3", kVideo},
                            {0, "\x89MCAP", kBag},
                            {0, {"SQLite format 3\0", 16}, kBag},
                            {0, "\x7f\x45LF", kLibrary},
                            {4, "TFL3", kTflite},
                            {0, "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7", kParams},
                            {0, "\x80\x02", kCheckpoint}};

}  // namespace

std::string KindOfFile(std::string_view head) {
  for (const Magic& magic : kMagic) {
    if (head.size() > magic.at && head.substr(magic.at, magic.bytes.size()) == magic.bytes) {
      return magic.words;
    }
  }
  return "";
}

}  // namespace tvm_vision
