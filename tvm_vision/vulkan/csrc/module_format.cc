#include "module_format.h"

#include <cstring>

#include "cache_file.h"
#include "error.h"

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr char kFormatName[] = "vulkan";
constexpr char kTrailerMagic[4] = {'T', 'V', 'V', 'K'};
constexpr size_t kTrailerBytes = sizeof(kTrailerMagic) + sizeof(uint32_t);

class Writer {
 public:
  template <typename T>
  void Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(const std::string& text) {
    Number<uint64_t>(text.size());
    bytes_ += text;
  }
  void Raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

/*! \brief Reads within bounds; a length from the bytes is never trusted before it is compared. */
class Reader {
 public:
  Reader(const char* data, size_t size) : at_(data), left_(size) {}

  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Take(sizeof(T)), sizeof(T));
    return value;
  }
  /*! \brief A count of items that take at least `item_bytes` each. */
  size_t Count(size_t item_bytes) {
    uint64_t count = Number<uint64_t>();
    if (count > left_ / item_bytes) Refuse("a length runs past its end");
    return static_cast<size_t>(count);
  }
  std::string Text() {
    size_t size = Count(1);
    std::string text(Take(size), size);
    if (!IsUtf8(text)) Refuse("a name is no text");
    return text;
  }
  const char* Take(size_t size) {
    if (size > left_) Refuse("it ends too early");
    const char* taken = at_;
    at_ += size;
    left_ -= size;
    return taken;
  }
  size_t left() const { return left_; }

  [[noreturn]] static void Refuse(const char* why) {
    TVM_VISION_THROW(DeviceError)
        << "a saved Vulkan module was needed, but these bytes are damaged: " << why
        << "; compile the network again";
  }

 private:
  const char* at_;
  size_t left_;
};

void CheckTrailer(const char* data, size_t size, size_t left) {
  if (left == 0) return;
  if (left != kTrailerBytes ||
      std::memcmp(data + size - left, kTrailerMagic, sizeof(kTrailerMagic)) != 0) {
    Reader::Refuse("unknown bytes follow the kernels");
  }
  uint32_t stored;
  std::memcpy(&stored, data + size - sizeof(stored), sizeof(stored));
  if (stored != Crc32(data, size - left)) Reader::Refuse("the checksum is wrong");
}

}  // namespace

std::string SerializeKernels(const KernelMap& kernels) {
  Writer out;
  out.Text(kFormatName);
  out.Number<uint64_t>(kernels.size());
  for (const auto& [name, kernel] : kernels) {
    out.Text(name);
    out.Text(kernel.name);
    out.Number<uint64_t>(kernel.arg_types.size());
    for (DLDataType type : kernel.arg_types) {
      out.Number<uint8_t>(type.code);
      out.Number<uint8_t>(type.bits);
      out.Number<uint16_t>(type.lanes);
    }
    out.Number<uint64_t>(kernel.launch_param_tags.size());
    for (const std::string& tag : kernel.launch_param_tags) out.Text(tag);
    out.Number<uint64_t>(kernel.arg_extra_tags.size());
    for (int32_t tag : kernel.arg_extra_tags) out.Number<int32_t>(tag);
  }
  out.Number<uint64_t>(kernels.size());
  for (const auto& [name, kernel] : kernels) {
    out.Text(name);
    size_t shader_bytes = kernel.words.size() * sizeof(uint32_t);
    out.Number<uint64_t>(sizeof(uint32_t) + sizeof(uint64_t) + shader_bytes);
    out.Number<uint32_t>(kernel.flags);
    out.Number<uint64_t>(kernel.words.size());
    out.Raw(kernel.words.data(), shader_bytes);
  }
  uint32_t crc = Crc32(out.bytes().data(), out.bytes().size());
  out.Raw(kTrailerMagic, sizeof(kTrailerMagic));
  out.Number<uint32_t>(crc);
  return std::move(out.bytes());
}

KernelMap DeserializeKernels(const char* data, size_t size) {
  Reader in(data, size);
  if (in.Text() != kFormatName) Reader::Refuse("it does not begin with the format's name");
  KernelMap kernels;
  for (size_t left = in.Count(8); left != 0; --left) {
    std::string key = in.Text();
    KernelRecord& kernel = kernels[key];
    kernel.name = in.Text();
    for (size_t i = in.Count(4); i != 0; --i) {
      DLDataType type;
      type.code = in.Number<uint8_t>();
      type.bits = in.Number<uint8_t>();
      type.lanes = in.Number<uint16_t>();
      kernel.arg_types.push_back(type);
    }
    for (size_t i = in.Count(8); i != 0; --i) kernel.launch_param_tags.push_back(in.Text());
    for (size_t i = in.Count(4); i != 0; --i) {
      kernel.arg_extra_tags.push_back(in.Number<int32_t>());
    }
  }
  for (size_t left = in.Count(8); left != 0; --left) {
    std::string key = in.Text();
    auto kernel = kernels.find(key);
    if (kernel == kernels.end()) Reader::Refuse("a shader belongs to no kernel");
    size_t payload = in.Count(1);
    size_t before = in.left();
    kernel->second.flags = in.Number<uint32_t>();
    size_t words = in.Count(sizeof(uint32_t));
    const char* code = in.Take(words * sizeof(uint32_t));
    kernel->second.words.resize(words);
    if (words != 0) std::memcpy(kernel->second.words.data(), code, words * sizeof(uint32_t));
    if (before - in.left() != payload) Reader::Refuse("a shader's length is wrong");
  }
  CheckTrailer(data, size, in.left());
  for (const auto& [name, kernel] : kernels) {
    if (kernel.words.empty()) Reader::Refuse("a kernel has no shader");
  }
  return kernels;
}

}  // namespace vulkan
}  // namespace tvm_vision
