#include "cache_file.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr char kMagic[8] = {'T', 'V', 'V', 'C', 'A', 'C', 'H', '1'};

struct Header {
  char magic[8];
  uint32_t crc;
  uint32_t reserved;
  uint64_t bytes;
};

}  // namespace

uint32_t Crc32(const void* data, size_t bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xedb88320u : 0u);
      t[i] = value;
    }
    return t;
  }();
  uint32_t crc = 0xffffffffu;
  const uint8_t* at = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) crc = table[(crc ^ at[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string CacheFolder() {
  if (const char* own = std::getenv("TVM_VISION_CACHE_DIR")) return own;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg != '\0') return std::string(xdg) + "/tvm_vision";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/tvm_vision";
  return "";
}

std::vector<uint8_t> ReadCacheFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  std::streamoff size = file.tellg();
  Header header;
  if (size < static_cast<std::streamoff>(sizeof(header))) return {};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  uint64_t rest = static_cast<uint64_t>(size) - sizeof(header);
  if (!file || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.bytes != rest) {
    return {};
  }
  std::vector<uint8_t> payload(rest);
  file.read(reinterpret_cast<char*>(payload.data()), static_cast<std::streamsize>(rest));
  if (!file || Crc32(payload.data(), payload.size()) != header.crc) return {};
  return payload;
}

void WriteCacheFile(const std::string& path, const std::vector<uint8_t>& payload) {
  std::error_code ignored;
  std::filesystem::path target(path);
  std::filesystem::create_directories(target.parent_path(), ignored);
  std::string temporary = path + ".tmp" + std::to_string(getpid());
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.crc = Crc32(payload.data(), payload.size());
  header.bytes = payload.size();
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(reinterpret_cast<const char*>(payload.data()),
               static_cast<std::streamsize>(payload.size()));
    file.close();
    if (!file) {
      std::filesystem::remove(temporary, ignored);
      return;
    }
  }
  std::filesystem::rename(temporary, target, ignored);
  if (ignored) std::filesystem::remove(temporary, ignored);
}

}  // namespace vulkan
}  // namespace tvm_vision
