#include "orientation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tvm_vision {

namespace {

constexpr int kUpright = 1;
constexpr uint16_t kOrientationTag = 0x0112, kShort = 3;

/*! \brief A part of a file; what lies beyond its end reads as 0. */
struct Part {
  const uint8_t* data;
  size_t size;

  uint32_t Number(size_t at, size_t bytes, bool little) const {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      size_t place = at + (little ? bytes - 1 - i : i);
      value = value << 8 | (place < size ? data[place] : 0);
    }
    return value;
  }

  bool Begins(size_t at, const char* text, size_t length) const {
    return at + length <= size && std::memcmp(data + at, text, length) == 0;
  }

  Part From(size_t at, size_t length) const {
    at = std::min(at, size);
    return {data + at, std::min(length, size - at)};
  }
};

/*! \brief Of what Exif holds, a TIFF file's head and first directory. */
int OfTiff(const Part& tiff) {
  bool little = tiff.Begins(0, "II*\0", 4);
  if (!little && !tiff.Begins(0, "MM\0*", 4)) return kUpright;
  size_t directory = tiff.Number(4, 4, little);
  size_t entries = tiff.Number(directory, 2, little);
  for (size_t i = 0; i < entries; ++i) {
    size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size) break;
    if (tiff.Number(entry, 2, little) != kOrientationTag) continue;
    if (tiff.Number(entry + 2, 2, little) != kShort) break;
    uint32_t found = tiff.Number(entry + 8, 2, little);
    return 1 <= found && found <= 8 ? static_cast<int>(found) : kUpright;
  }
  return kUpright;
}

int OfJpeg(const Part& file) {
  size_t at = 2;
  while (at + 4 <= file.size && file.data[at] == 0xFF) {
    uint8_t marker = file.data[at + 1];
    if (marker == 0xFF) {  // filling
      ++at;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) break;  // the image begins, or all ends
    size_t length = file.Number(at + 2, 2, false);
    if (marker == 0xE1 && file.Begins(at + 4, "Exif\0\0", 6)) {
      return OfTiff(file.From(at + 10, length < 8 ? 0 : length - 8));
    }
    at += 2 + length;
  }
  return kUpright;
}

int OfPng(const Part& file) {
  size_t at = 8;
  while (at + 12 <= file.size) {
    size_t length = file.Number(at, 4, false);
    if (file.Begins(at + 4, "eXIf", 4)) return OfTiff(file.From(at + 8, length));
    if (file.Begins(at + 4, "IEND", 4)) break;
    at += 12 + length;
  }
  return kUpright;
}

}  // namespace

int OrientationOf(const std::vector<uint8_t>& file) {
  Part all{file.data(), file.size()};
  if (all.Begins(0, "\xFF\xD8", 2)) return OfJpeg(all);
  if (all.Begins(0, "\x89PNG\r\n\x1A\n", 8)) return OfPng(all);
  return kUpright;
}

Pixels Upright(Pixels image, int orientation) {
  if (orientation <= kUpright || orientation > 8) return image;
  // Columns become rows, and rows or columns are read from their end.
  bool turned = orientation >= 5;
  bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  int height = turned ? image.width : image.height, width = turned ? image.height : image.width;
  Pixels upright{height, width, image.channels, {}};
  upright.bytes.resize(image.bytes.size());
  size_t channels = static_cast<size_t>(image.channels);
  uint8_t* out = upright.bytes.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      int row = turned ? x : y, column = turned ? y : x;
      if (from_below) row = image.height - 1 - row;
      if (from_right) column = image.width - 1 - column;
      size_t from =
          static_cast<size_t>(row) * static_cast<size_t>(image.width) + static_cast<size_t>(column);
      out = std::copy_n(image.bytes.data() + from * channels, channels, out);
    }
  }
  return upright;
}

}  // namespace tvm_vision
