#include "file_kinds.h"

#include <cstdint>
#include <string_view>

namespace tvm_vision {

namespace {

constexpr size_t kHead = 64;
constexpr const char* kImage =
    "an image: 'tvm-vision detect' and 'classify' take it after a package";
constexpr const char* kVideo =
    "a video: 'tvm-vision detect' and 'classify' take it after a package";
constexpr const char* kBag = "a recorded bag: 'tvm-vision bag' and 'replay' take it";
constexpr const char* kLibrary = "a shared library: name the package that it is of";
constexpr const char* kTflite = "a TFLite model: 'tvm-vision compile' makes a package of it";
constexpr const char* kOrtFormat =
    "in onnxruntime's own format (.ort): take the .onnx file that it was made of, onnxruntime "
    "writes none from it";
constexpr const char* kParams = "mod.params of a package: name the package that it is of";
constexpr const char* kCheckpoint =
    "a PyTorch checkpoint: export it to ONNX where it was trained, as 'yolo export format=onnx' "
    "does; 'yoeo-to-onnx' and 'classifier-to-onnx' take those of YOEO and of classifiers";
constexpr const char* kOnnx = "an ONNX model: 'tvm-vision compile' makes a package of it";
constexpr const char* kWeights = "weights without a network: export the network with them to ONNX";
constexpr const char* kKeras = "a Keras network: tf2onnx makes an ONNX model of it";

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
                            // Images in the container that videos have, too.
                            {4, "ftypavi", kImage},
                            {4, "ftyphei", kImage},
                            {4, "ftyphev", kImage},
                            {4, "ftypmif1", kImage},
                            {4, "ftypmsf1", kImage},
                            {4, "ftyp", kVideo},
                            {0, {"\0\0\0\x0cjP  ", 8}, kImage},
                            {8, "AVI ", kVideo},
                            {0, "\x1a\x45\xdf\xa3", kVideo},
                            {0, "\x89MCAP", kBag},
                            {0, {"SQLite format 3\0", 16}, kBag},
                            {0, "\x7f\x45LF", kLibrary},
                            {4, "TFL3", kTflite},
                            {4, "ORTM", kOrtFormat},
                            {0, "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7", kParams},
                            {0, "\x89HDF\r\n", kKeras},
                            {0, "\x80\x02", kCheckpoint}};
// Wire types and the field of a ModelProto that has its graph.
constexpr uint64_t kVarint = 0, kBytes = 2, kLastField = 25, kGraph = 7;
constexpr int kMostFields = 65536;  // who writes more of them wants to be looked at for long

/*! \brief A number of protobuf at an offset, moved behind it; false where there is none. */
bool ReadVarint(const PlainFile& file, uint64_t* offset, uint64_t* value) {
  char bytes[10];
  size_t count = file.Read(*offset, bytes, sizeof bytes);
  *value = 0;
  for (size_t i = 0; i < count; ++i) {
    auto byte = static_cast<unsigned char>(bytes[i]);
    *value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      *offset += i + 1;
      return true;
    }
  }
  return false;
}

/*! \brief Whether a file is protobuf fields one after the other as of a ModelProto, a graph too. */
bool IsOnnx(const PlainFile& file) {
  bool graph = false;
  uint64_t at = 0;
  for (int fields = 0; at < file.size(); ++fields) {
    uint64_t key, value;
    if (fields == kMostFields) return false;
    if (!ReadVarint(file, &at, &key)) return false;
    uint64_t field = key >> 3, wire = key & 7;
    if (field < 1 || field > kLastField || (wire != kVarint && wire != kBytes)) return false;
    if (!ReadVarint(file, &at, &value)) return false;
    if (wire == kBytes) {
      if (value > file.size() - at) return false;
      at += value;
    }
    graph = graph || field == kGraph;
  }
  return graph;
}

}  // namespace

std::string KindOfFile(const PlainFile& file) {
  char first[kHead];
  std::string_view head(first, file.Read(0, first, kHead));
  for (const Magic& magic : kMagic) {
    if (head.size() > magic.at && head.substr(magic.at, magic.bytes.size()) == magic.bytes) {
      return magic.words;
    }
  }
  if (head.size() > 9 && head.substr(8, 2) == "{\"") {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
    if (length < file.size()) return kWeights;
  }
  return IsOnnx(file) ? kOnnx : "";
}

}  // namespace tvm_vision
