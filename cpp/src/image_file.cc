#include "image_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "orientation.h"

#ifdef TVM_VISION_WITH_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#else
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_FAILURE_USERMSG
#define STBI_NO_STDIO
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>
#endif

namespace tvm_vision {

namespace {

#ifdef TVM_VISION_WITH_OPENCV

bool Read(const std::string& path, Pixels* out, std::string* reason) {
  cv::Mat image = cv::imread(path, cv::IMREAD_COLOR);
  if (image.empty()) {
    *reason = "it is missing, or no image that OpenCV knows";
    return false;
  }
  *out = {image.rows, image.cols, 3, {}};
  for (int y = 0; y < image.rows; ++y) {
    out->bytes.insert(out->bytes.end(), image.ptr(y), image.ptr(y) + 3 * image.cols);
  }
  return true;
}

bool Write(const std::string& path, const Pixels& image) {
  int type = image.channels == 1 ? CV_8UC1 : CV_8UC3;
  cv::Mat view(image.height, image.width, type, const_cast<uint8_t*>(image.bytes.data()));
  std::vector<uint8_t> file;
  if (!cv::imencode(".png", view, file)) return false;
  std::FILE* stream = std::fopen(path.c_str(), "wb");
  if (stream == nullptr) return false;
  bool whole = std::fwrite(file.data(), 1, file.size(), stream) == file.size();
  return (std::fclose(stream) == 0) && whole;
}

#else

constexpr size_t kMostBytes = size_t{1} << 30;  // as in Python

/*! \brief RGB to BGR, and back. */
void SwapColors(std::vector<uint8_t>* bytes) {
  for (size_t i = 0; i + 2 < bytes->size(); i += 3) std::swap((*bytes)[i], (*bytes)[i + 2]);
}

/*! \brief The bytes of a file; what is read as a stream ends by itself. */
bool ReadBytes(const std::string& path, std::vector<uint8_t>* out, std::string* reason) {
  std::FILE* stream = std::fopen(path.c_str(), "rb");
  if (stream == nullptr) {
    *reason = std::strerror(errno);
    return false;
  }
  uint8_t block[1 << 16];
  while (size_t count = std::fread(block, 1, sizeof(block), stream)) {
    out->insert(out->end(), block, block + count);
    if (out->size() > kMostBytes) break;
  }
  bool failed = std::ferror(stream) != 0;
  if (failed) *reason = std::strerror(errno);
  std::fclose(stream);
  if (failed) return false;
  if (out->empty()) *reason = "it is empty";
  if (out->size() > kMostBytes) *reason = "it has more than 1 GiB";
  return !out->empty() && out->size() <= kMostBytes;
}

bool Read(const std::string& path, Pixels* out, std::string* reason) {
  std::vector<uint8_t> file;
  if (!ReadBytes(path, &file, reason)) return false;
  int width = 0, height = 0, channels = 0;
  stbi_uc* pixels = stbi_load_from_memory(file.data(), static_cast<int>(file.size()), &width,
                                          &height, &channels, 3);
  if (pixels == nullptr) {
    *reason = stbi_failure_reason();
    return false;
  }
  *out = {height, width, 3, {pixels, pixels + static_cast<size_t>(width) * height * 3}};
  stbi_image_free(pixels);
  SwapColors(&out->bytes);
  // OpenCV does so by itself.
  *out = Upright(std::move(*out), OrientationOf(file));
  return true;
}

bool Write(const std::string& path, const Pixels& image) {
  std::vector<uint8_t> bytes = image.bytes;
  if (image.channels == 3) SwapColors(&bytes);
  return stbi_write_png(path.c_str(), image.width, image.height, image.channels, bytes.data(),
                        image.width * image.channels) != 0;
}

#endif

}  // namespace

Pixels ReadImage(const std::string& path) {
  Pixels image;
  std::string reason;
  if (!Read(path, &image, &reason)) {
    throw Error("InputError", "an image file is needed, and '" + path + "' cannot be read (" +
                                  reason + "): check the path, or convert it to PNG or JPEG");
  }
  return image;
}

void WritePng(const std::string& path, const Pixels& image) {
  std::string fresh = path + ".new.png";
  struct stat there{};
  // Root could give a device's name to the image: /dev/null would be one for all programs.
  bool plain = stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode);
  bool written = plain && Write(fresh, image);
  if (!written || std::rename(fresh.c_str(), path.c_str()) != 0) {
    std::remove(fresh.c_str());
    throw Error("InputError", "a file that can be written is needed for the image, and '" + path +
                                  "' cannot be: choose another name or free some room");
  }
}

}  // namespace tvm_vision
