#include "container.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tvm_vision/tvm_vision.hpp>

#include "file_kinds.h"
#include "text.h"

namespace tvm_vision {

namespace {

constexpr const char* kMembers[] = {kInfoName, kParamsName, kLibraryName};
constexpr size_t kBlock = 512;  // of a tar
constexpr uint64_t kMostText = uint64_t{64} << 20;
constexpr size_t kMostNameShown = 60;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // of one read
constexpr size_t kHugePage = size_t{2} << 20;

[[noreturn]] void Refuse(const std::string& reason) {
  throw Error("PackageError", "it cannot be read: " + reason + ": " + kCopyAgain);
}

/*! \brief The number of an octal field, which spaces and zeros surround. */
uint64_t Octal(std::string_view field, const char* what) {
  constexpr std::string_view kAround("\0 ", 2);
  size_t begin = field.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return 0;
  field = field.substr(begin, field.find_last_not_of(kAround) - begin + 1);
  if (field.find_first_not_of("01234567") != std::string_view::npos) {
    Refuse(std::string("a ") + what + " in a header is no octal number");
  }
  uint64_t value = 0;
  for (char digit : field) value = value * 8 + static_cast<uint64_t>(digit - '0');
  return value;
}

/*! \brief What compressed it, told by the first bytes. */
std::string Compressed(std::string_view header) {
  constexpr std::pair<std::string_view, const char*> kKnown[] = {
      {"\x1f\x8b", "gzip"}, {"\xfd\x37", "xz"}, {"BZ", "bzip2"}, {"PK", "zip"}, {"(\xb5", "zstd"}};
  for (auto [magic, name] : kKnown) {
    if (header.substr(0, 2) == magic) {
      return std::string(" (it looks like ") + name + ": decompress it first)";
    }
  }
  return "";
}

/*! \brief What an entry is that is no plain file; "" for one that is. */
std::string KindOf(char flag) {
  constexpr std::pair<char, const char*> kKinds[] = {
      {'1', "a hard link"},        {'2', "a symbolic link"},
      {'3', "a character device"}, {'4', "a block device"},
      {'5', "a folder"},           {'6', "a pipe"},
      {'7', "a contiguous file"},  {'x', "an extended header"},
      {'L', "a long name"},        {'g', "a global extended header"},
      {'S', "a sparse file"},      {'K', "a long link name"}};
  if (flag == '0' || flag == '\0') return "";
  for (auto [known, words] : kKinds) {
    if (flag == known) return words;
  }
  // As Python writes bytes.
  std::string shown(1, flag);
  char text[8];
  if (flag == '\\' || flag == '\t' || flag == '\n' || flag == '\r') {
    shown = flag == '\\' ? "\\\\" : flag == '\t' ? "\\t" : flag == '\n' ? "\\n" : "\\r";
  } else if (flag < 0x20 || flag > 0x7E) {
    std::snprintf(text, sizeof(text), "\\x%02x", static_cast<uint8_t>(flag));
    shown = text;
  }
  const char* quote = flag == '\'' ? "\"" : "'";
  return std::string("an entry of type b") + quote + shown + quote;
}

std::string UntilZero(std::string_view field) { return ToUtf8(field.substr(0, field.find('\0'))); }

/*! \brief What a header (POSIX.1-1988 ustar) says of the member that it begins. */
struct Header {
  std::string name;
  std::string kind;
  uint64_t size = 0;
};

Header ReadHeader(std::string_view header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? uint8_t{' '} : static_cast<uint8_t>(header[i]);
  }
  if (header.substr(257, 5) != "ustar" || sum != Octal(header.substr(148, 8), "checksum")) {
    Refuse("it is no tar, or a header is damaged" + Compressed(header));
  }
  std::string name = UntilZero(header.substr(0, 100));
  std::string_view prefix = header.substr(345, 155);
  bool prefixed = prefix.find_first_not_of('\0') != std::string_view::npos;
  if (prefixed && header.substr(263, 2) == "00") name = UntilZero(prefix) + "/" + name;
  if (name.rfind("./", 0) == 0) name.erase(0, 2);
  while (!name.empty() && name.back() == '/') name.pop_back();
  return {name, KindOf(header[156]), Octal(header.substr(124, 12), "size")};
}

}  // namespace

Bytes::Bytes(uint64_t size, const char* name) : size_(static_cast<size_t>(size)) {
  // In large pages: handing out 4 KiB at a time took half as long as reading a package.
  bool huge = size >= kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePage : alignof(std::max_align_t),
                     std::max<size_t>(size_, 1)) == 0) {
    memory_.reset(static_cast<char*>(memory));
    // Only whole ones; a system without them refuses, and all stays as it is.
    if (huge) madvise(memory, size_ / kHugePage * kHugePage, MADV_HUGEPAGE);
    return;
  }
  throw Error("PackageError", std::to_string(size) + " bytes of memory are needed for '" + name +
                                  "', and there are not so many (" + std::strerror(ENOMEM) +
                                  "): stop other programs");
}

std::optional<PlainFile> PlainFile::TryOpen(const std::string& path, int* why) {
  // Not blocking: a pipe is refused below instead of waited for.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  *why = errno;
  if (file < 0) return std::nullopt;
  PlainFile opened(file, 0);
  struct stat status{};
  *why = fstat(file, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (*why == EISDIR || !S_ISREG(status.st_mode)) return std::nullopt;
  opened.size_ = static_cast<uint64_t>(status.st_size);
  return opened;
}

PlainFile PlainFile::Open(const std::string& path) {
  int why = 0;
  if (auto file = TryOpen(path, &why)) return std::move(*file);
  if (why == EINVAL || why == EISDIR) {
    throw Error("PackageError",
                "a package is a tar or a folder, and '" + path + "' is neither: check the path");
  }
  throw Error("PackageError", "a package is needed, and '" + path + "' cannot be opened (" +
                                  std::strerror(why) + "): check the path");
}

PlainFile PlainFile::OpenMember(const std::string& folder, const char* name) {
  std::string path = folder + "/" + name;
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) {
    throw Error("PackageError", std::string("a package needs ") + name + ", and '" + folder +
                                    "' has none that can be read (" + SystemReason() +
                                    "): " + kCompileAgain);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error("PackageError", "'" + path +
                                    "' must be a plain file, and is a link or device: copy the "
                                    "package with its files");
  }
  return Open(path);
}

PlainFile::PlainFile(PlainFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), size_(other.size_) {}

PlainFile::~PlainFile() {
  if (file_ >= 0) close(file_);
}

size_t PlainFile::Read(uint64_t offset, char* memory, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    ssize_t count = pread(file_, memory + done, std::min(bytes - done, kMostAtOnce),
                          static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Refuse("reading it failed (" + SystemReason() + ")");
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

Members Members::Open(const std::string& path) {
  Members members;
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    auto add = [&](const char* name) {
      members.files_.push_back(PlainFile::OpenMember(path, name));
      members.places_[name] = {members.files_.size() - 1, {0, members.files_.back().size()}};
    };
    for (const char* name : kMembers) add(name);
    struct stat there{};
    if (lstat((path + "/" + kSignatureName).c_str(), &there) == 0) add(kSignatureName);
    return members;
  }
  members.files_.push_back(PlainFile::Open(path));
  try {
    members.ListTar();
  } catch (const Error& error) {
    std::string kind = KindOfFile(members.files_[0]);
    throw Error(error.kind(), kind.empty() ? "'" + path + "': " + error.what()
                                           : "a package is needed, and '" + path + "' is " + kind);
  }
  return members;
}

void Members::ListTar() {
  const PlainFile& file = files_[0];
  uint64_t total = file.size();
  char block[kBlock];
  for (uint64_t offset = 0;;) {
    if (file.Read(offset, block, kBlock) < kBlock) {
      Refuse(total != 0 ? "it ends in the middle" : "it is empty");
    }
    if (std::all_of(block, block + kBlock, [](char byte) { return byte == 0; })) break;
    auto [name, kind, size] = ReadHeader({block, kBlock});
    offset += kBlock;
    uint64_t left = total - std::min(offset, total);
    if (size > left) {
      Refuse("'" + name + "' has " + std::to_string(size) + " bytes, and " + std::to_string(left) +
             " are left: it is cut");
    }
    if (!(kind == "a folder" && (name.empty() || name == "."))) {
      std::string shown = Shortened(name, kMostNameShown);
      if (!kind.empty())
        Refuse("'" + shown + "' is " + kind + ", and only plain files are allowed");
      bool known = name == kSignatureName ||
                   std::find(std::begin(kMembers), std::end(kMembers), name) != std::end(kMembers);
      if (!known) {
        Refuse("'" + shown +
               "' is in it, and only mod.json, mod.params, mod.so and mod.sig are allowed");
      }
      if (Has(name.c_str())) Refuse("'" + name + "' is in it twice");
      places_[name] = {0, {offset, size}};
    }
    offset += (size + kBlock - 1) / kBlock * kBlock;
  }
  std::string missing;
  for (const char* name : kMembers) {
    if (!Has(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (!missing.empty()) Refuse(missing + " missing");
}

Bytes Members::Text(const char* name) const {
  uint64_t size = places_.at(name).second.second;
  if (size > kMostText) {
    Refuse(std::string("'") + name + "' has " + std::to_string(size) + " bytes, and " +
           std::to_string(kMostText) + " are allowed");
  }
  return Load(name);
}

Bytes Members::Load(const char* name) const {
  return Load(name, {{0, places_.at(name).second.second}}, name);
}

Bytes Members::Load(const char* name, const std::vector<Piece>& pieces, const char* called) const {
  auto [number, place] = places_.at(name);
  uint64_t total = 0;
  for (auto [offset, size] : pieces) {
    if (offset + size > place.second) {
      throw Error("PackageError",
                  std::string(name) + " must have " + std::to_string(offset + size) +
                      " bytes, found " + std::to_string(place.second) +
                      ": it was changed or damaged; compile the model again, or use the "
                      "tvm_vision that made the package");
    }
    total += size;
  }
  Bytes whole(total, called);
  size_t at = 0;
  for (auto [offset, size] : pieces) {
    if (files_[number].Read(place.first + offset, whole.data() + at, size) < size) {
      Refuse("it became shorter while it was read");
    }
    at += size;
  }
  return whole;
}

Bytes Members::Need(const char* name) const {
  return Need(name, {{0, places_.at(name).second.second}}, name);
}

Bytes Members::Need(const char* name, const std::vector<Piece>& pieces, const char* called) const {
  Bytes found = Load(name, pieces, called);
  if (found.view().empty()) Refuse(std::string("'") + called + "' is empty");
  return found;
}

}  // namespace tvm_vision
