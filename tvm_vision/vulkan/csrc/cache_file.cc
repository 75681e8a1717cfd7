#include "cache_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr char kMagic[8] = {'T', 'V', 'V', 'C', 'A', 'C', 'H', '1'};

constexpr std::chrono::hours kDay{24};

struct Header {
  char magic[8];
  uint32_t crc;
  uint32_t reserved;
  uint64_t bytes;
};

}  // namespace

uint32_t Crc32(const void* data, size_t bytes) {
  // Eight bytes at a time: table k is of a byte that k zero bytes follow.
  static const std::array<std::array<uint32_t, 256>, 8> table = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xedb88320u : 0u);
      t[0][i] = value;
    }
    for (size_t k = 1; k < 8; ++k) {
      for (size_t i = 0; i < 256; ++i) t[k][i] = t[0][t[k - 1][i] & 0xff] ^ (t[k - 1][i] >> 8);
    }
    return t;
  }();
  uint32_t crc = 0xffffffffu;
  const uint8_t* at = static_cast<const uint8_t*>(data);
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint32_t low = crc ^ (at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24);
    crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
          table[4][low >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
          table[0][at[7]];
  }
  for (; bytes != 0; --bytes, ++at) crc = table[0][(crc ^ *at) & 0xff] ^ (crc >> 8);
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
  std::error_code ignored;
  auto now = std::filesystem::file_time_type::clock::now();
  auto written = std::filesystem::last_write_time(path, ignored);
  if (!ignored && now - written > kDay) std::filesystem::last_write_time(path, now, ignored);
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

void KeepNewest(const std::filesystem::path& folder, const std::string& prefix, size_t count) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    if (at->path().filename().string().rfind(prefix, 0) != 0) continue;
    std::error_code gone;  // another process may tidy up, too
    fs::file_time_type written = at->last_write_time(gone);
    if (!gone) files.emplace_back(written, at->path());
  }
  if (files.size() <= count) return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size() - count; ++i) fs::remove(files[i].second, ignored);
}

}  // namespace vulkan
}  // namespace tvm_vision
