#include "cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "folder_names.h"

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr char kMagic[8] = {'T', 'V', 'V', 'C', 'A', 'C', 'H', '1'};

/*! \brief In the name of a file that is being written, before a number of its process. */
constexpr const char* kUnfinished = ".tmp";
constexpr std::chrono::hours kDay{24};
/*! \brief Of one file; the pipelines of large networks take some ten MB. */
constexpr uint64_t kMostBytes = 256u << 20;

struct Header {
  char magic[8];
  uint32_t crc;
  uint32_t reserved;
  uint64_t bytes;
};

/*! \brief An open file, closed at its end. */
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (opened()) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool opened() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  /*! \brief Read so many bytes; false where there are not as many. */
  bool Read(void* data, size_t bytes) {
    return All(bytes,
               [&](size_t at) { return read(fd_, static_cast<char*>(data) + at, bytes - at); });
  }
  bool Write(const void* data, size_t bytes) {
    return All(bytes, [&](size_t at) {
      return write(fd_, static_cast<const char*>(data) + at, bytes - at);
    });
  }

 private:
  template <typename Step>
  static bool All(size_t bytes, Step step) {
    for (size_t done = 0; done < bytes;) {
      ssize_t count = step(done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      done += static_cast<size_t>(count);
    }
    return true;
  }

  int fd_;
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

std::vector<uint8_t> ReadCacheFile(const std::string& path) {
  // Not blocking: a pipe is passed over instead of waited for.
  File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file.opened() || fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  Header header;
  uint64_t size = static_cast<uint64_t>(status.st_size);
  if (size < sizeof(header) || size - sizeof(header) > kMostBytes) return {};
  if (!file.Read(&header, sizeof(header))) return {};
  uint64_t rest = size - sizeof(header);
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.bytes != rest) return {};
  std::vector<uint8_t> payload(rest);
  if (!file.Read(payload.data(), rest)) return {};
  if (Crc32(payload.data(), payload.size()) != header.crc) return {};
  auto written = std::chrono::system_clock::from_time_t(status.st_mtime);
  // Of a time to come, too: the clock was wrong when it was written.
  if (std::chrono::abs(std::chrono::system_clock::now() - written) > kDay) {
    futimens(file.fd(), nullptr);
  }
  return payload;
}

void WriteCacheFile(const std::string& path, const std::vector<uint8_t>& payload) {
  if (payload.size() > kMostBytes) return;
  std::error_code ignored;
  std::filesystem::path target(path);
  std::filesystem::create_directories(target.parent_path(), ignored);
  static std::atomic<unsigned> files{0};
  std::string temporary =
      path + kUnfinished + std::to_string(getpid()) + "-" + std::to_string(files++);
  // Of a process that was killed and had this one's number.
  std::filesystem::remove(temporary, ignored);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.crc = Crc32(payload.data(), payload.size());
  header.bytes = payload.size();
  bool whole = false;
  {
    // Never into what is there already, be it a pipe or a link.
    File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file.opened()) return;
    // So that nobody takes it for a leftover; where that was too late, it is not renamed.
    flock(file.fd(), LOCK_EX | LOCK_NB);
    whole = file.Write(&header, sizeof(header)) && file.Write(payload.data(), payload.size());
  }
  if (whole) std::filesystem::rename(temporary, target, ignored);
  if (!whole || ignored) std::filesystem::remove(temporary, ignored);
}

void RemoveLeftovers(const std::filesystem::path& folder, const std::string& prefix) {
  for (const std::string& name : FolderNames(folder.string())) {
    if (name.rfind(prefix, 0) != 0 || name.find(kUnfinished) == std::string::npos) continue;
    std::filesystem::path path = folder / name;
    File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    bool left = file.opened() && flock(file.fd(), LOCK_EX | LOCK_NB) == 0;
    std::error_code gone;  // another process may tidy up, too
    if (left) std::filesystem::remove(path, gone);
  }
}

void KeepNewest(const std::filesystem::path& folder, const std::string& prefix, size_t count) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  const auto to_come = fs::file_time_type::clock::now() + kDay;
  for (const std::string& name : FolderNames(folder.string())) {
    if (name.rfind(prefix, 0) != 0) continue;
    std::error_code gone;  // another process may tidy up, too
    fs::file_time_type written = fs::last_write_time(folder / name, gone);
    if (written > to_come) written = fs::file_time_type::min();
    if (!gone) files.emplace_back(written, folder / name);
  }
  if (files.size() <= count) return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size() - count; ++i) fs::remove(files[i].second, ignored);
}

}  // namespace vulkan
}  // namespace tvm_vision
