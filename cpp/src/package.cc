#include "package.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <set>
#include <tvm_vision/tvm_vision.hpp>
#include <utility>

#include "processor.h"
#include "sha256.h"

namespace tvm_vision {

namespace {

constexpr const char* kInfo = "mod.json";
constexpr const char* kParams = "mod.params";
constexpr const char* kLibrary = "mod.so";
// Who made it, where that was signed: checked by tvm-vision alone.
constexpr const char* kSignature = "mod.sig";
constexpr const char* kRemedy = ": copy the package again, or compile the model again";
constexpr size_t kBlock = 512;  // of a tar
constexpr uint64_t kLargest = uint64_t{1} << 40;
// TVM's SaveParams; tvm_vision/package/params.py has the whole layout.
constexpr uint64_t kListMagic = 0xF7E58D4F05049CB7;
constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;
constexpr int32_t kCpu = 1;
constexpr size_t kMaxNameBytes = 4096;
constexpr int32_t kMaxRank = 64;

[[noreturn]] void Refuse(const std::string& why) { throw Error("PackageError", why + kRemedy); }

std::string Reason() { return std::strerror(errno); }

uint64_t Octal(std::string_view field) {
  uint64_t value = 0;
  for (char digit : field) {
    if (digit == ' ' || digit == '\0') continue;
    if (digit < '0' || digit > '7' || value > kLargest) Refuse("a header of the tar is damaged");
    value = value * 8 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

/*! \brief Name and size of the member that a header (POSIX.1-1988 ustar) begins. */
std::pair<std::string, uint64_t> ReadHeader(std::string_view header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? uint8_t{' '} : static_cast<uint8_t>(header[i]);
  }
  if (header.substr(257, 5) != "ustar" || sum != Octal(header.substr(148, 8))) {
    Refuse("a header of the tar is damaged");
  }
  std::string name(header.substr(0, 100).substr(0, header.substr(0, 100).find('\0')));
  if (name.rfind("./", 0) == 0) name.erase(0, 2);
  if (header[156] != '0' && header[156] != '\0') {
    Refuse("'" + name + "' in it is no plain file");
  }
  return {name, Octal(header.substr(124, 12))};
}

/*! \brief Bytes from the front of what is left of mod.params. */
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}
  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, Bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view Bytes(uint64_t count) {
    if (count > left_.size()) Refuse("mod.params cannot be read: it ends in the middle");
    std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  size_t left() const { return left_.size(); }

 private:
  std::string_view left_;
};

StoredTensor ReadTensor(Cursor* at, std::string name) {
  StoredTensor tensor;
  tensor.name = std::move(name);
  bool known = at->Take<uint64_t>() == kTensorMagic;
  at->Take<uint64_t>();
  known &= at->Take<int32_t>() == kCpu;
  at->Take<int32_t>();
  int32_t rank = at->Take<int32_t>();
  tensor.type_code = at->Take<uint8_t>();
  tensor.type_bits = at->Take<uint8_t>();
  known &= at->Take<uint16_t>() == 1 && rank >= 0 && rank <= kMaxRank;
  if (!known) Refuse("mod.params cannot be read: weight '" + tensor.name + "' has a wrong header");
  uint64_t bytes = tensor.type_bits / 8;
  for (int32_t i = 0; i < rank; ++i) {
    int64_t side = at->Take<int64_t>();
    bool fits = side >= 0 && (side == 0 || bytes <= kLargest / static_cast<uint64_t>(side));
    if (!fits) Refuse("mod.params cannot be read: weight '" + tensor.name + "' has a wrong shape");
    bytes *= static_cast<uint64_t>(side);
    tensor.shape.push_back(side);
  }
  if (at->Take<uint64_t>() != bytes) {
    Refuse("mod.params cannot be read: weight '" + tensor.name + "' has a wrong size");
  }
  tensor.bytes = at->Bytes(bytes);
  return tensor;
}

// Scratch folders are called as in tvm_vision/whole_files.py, which removes what was left, too.
constexpr std::string_view kScratchBegin = ".tvm_vision-";
constexpr std::string_view kScratchEnd = ".part";
constexpr size_t kScratchLetters = 8;

/*! \brief A new folder for temporary files, of this user alone; "" where there can be none. */
std::string MakeScratch(const std::string& parent) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  while (true) {
    std::string path = parent + "/" + std::string(kScratchBegin);
    for (size_t i = 0; i < kScratchLetters; ++i) path += kLetters[random() % kLetters.size()];
    path += kScratchEnd;
    if (mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return "";
  }
}

/*! \brief Remove scratch folders of killed processes that hold a library and nothing else. */
void RemoveLeftovers(const std::string& parent) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    std::string name = at->path().filename().string();
    bool scratch = name.rfind(kScratchBegin, 0) == 0 &&
                   name.size() == kScratchBegin.size() + kScratchLetters + kScratchEnd.size();
    if (!scratch) continue;
    int folder = open(at->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) continue;
    struct stat status{};
    bool own = fstat(folder, &status) == 0 && status.st_uid == geteuid();
    std::error_code other;
    auto entries = std::distance(fs::directory_iterator(at->path(), other), {});
    bool alone = entries == 0 || (entries == 1 && fs::exists(at->path() / kLibrary, other));
    // Who uses one holds a lock on it.
    if (own && !other && alone && flock(folder, LOCK_EX | LOCK_NB) == 0) {
      fs::remove(at->path() / kLibrary, other);
      fs::remove(at->path(), other);
    }
    close(folder);
  }
}

/*! \brief What stands in mod.json but for its checksum, which is its first key in sorted order. */
std::string WithoutChecksum(std::string_view info, const std::string& checksum) {
  std::string first = "{\"checksum\": \"" + checksum + "\", ";
  if (info.substr(0, first.size()) != first) return "";
  std::string rest = "{" + std::string(info.substr(first.size()));
  while (!rest.empty() && rest.back() == '\n') rest.pop_back();
  return rest;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    throw Error("PackageError", "a package is needed, and '" + path + "' cannot be opened (" +
                                    Reason() + "): check the path");
  }
  struct stat status{};
  bool plain = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  size_t size = plain ? static_cast<size_t>(status.st_size) : 0;
  void* memory = size != 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) Refuse("'" + path + "' is empty, or no plain file that can be read");
  bytes_ = {static_cast<const char*>(memory), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

Package Package::Read(const std::string& path) {
  Package package;
  package.path_ = path;
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    for (auto [name, member] : {std::pair{kInfo, &package.info_},
                                {kParams, &package.params_},
                                {kLibrary, &package.library_}}) {
      package.files_.emplace_back(path + "/" + name);
      *member = package.files_.back().bytes();
    }
    return package;
  }
  package.files_.emplace_back(path);
  try {
    package.ReadTar(package.files_[0].bytes());
  } catch (const Error& error) {
    throw Error(error.kind(), "'" + path + "': " + error.what());
  }
  return package;
}

void Package::ReadTar(std::string_view tar) {
  if (tar.size() < kBlock || tar.substr(257, 5) != "ustar") {
    Refuse("it is no package: no tar, or one that is cut");
  }
  size_t at = 0;
  while (true) {
    if (tar.size() - at < kBlock) Refuse("the tar ends in the middle");
    std::string_view header = tar.substr(at, kBlock);
    if (header.find_first_not_of('\0') == std::string_view::npos) break;
    auto [name, size] = ReadHeader(header);
    at += kBlock;
    if (size > tar.size() - at) Refuse("'" + name + "' in the tar is cut");
    std::string_view signature;
    std::string_view* member = name == kInfo        ? &info_
                               : name == kParams    ? &params_
                               : name == kLibrary   ? &library_
                               : name == kSignature ? &signature
                                                    : nullptr;
    if (member == nullptr || !member->empty()) {
      Refuse("'" + name +
             "' is in the tar, and a package has mod.json, mod.params and mod.so, "
             "once each");
    }
    *member = tar.substr(at, size);
    at += std::min((size + kBlock - 1) / kBlock * kBlock, uint64_t{tar.size() - at});
  }
  if (info_.empty() || params_.empty() || library_.empty()) {
    Refuse("mod.json, mod.params and mod.so are needed, and one of them is missing");
  }
}

void Package::Select(const Variant& variant) {
  info_ = PutTogether(params_, variant.info, kParams);
  params_ = PutTogether(params_, variant.params, kParams);
  library_ = PutTogether(library_, {variant.library}, kLibrary);
}

std::string_view Package::PutTogether(std::string_view member, const std::vector<Piece>& pieces,
                                      const char* name) {
  for (auto [offset, size] : pieces) {
    if (offset > member.size() || size > member.size() - offset) {
      Refuse("'" + path_ + "': " + name + " was changed or damaged: it is too short");
    }
  }
  if (pieces.size() == 1) return member.substr(pieces[0].first, pieces[0].second);
  auto whole = std::make_unique<std::string>();
  for (auto [offset, size] : pieces) whole->append(member.substr(offset, size));
  put_together_.push_back(std::move(whole));
  return *put_together_.back();
}

void Package::CheckInfo(const Fields& fields) const {
  std::string checksum = fields.Text("checksum");
  std::string content = WithoutChecksum(info_, checksum);
  if (Sha256(content.data(), content.size()) != checksum) {
    Refuse("'" + path_ +
           "': mod.json was changed or damaged: its checksum does not fit (after an "
           "edit on purpose use 'tvm-vision package repack')");
  }
}

void Package::Check(const Fields& fields) const {
  CheckInfo(fields);
  Fields members = fields.Object("members");
  for (auto [name, bytes] : {std::pair{kParams, params_}, {kLibrary, library_}}) {
    if (members.Text(name) != Sha256(bytes.data(), bytes.size())) {
      Refuse("'" + path_ + "': " + name + " was changed or damaged: its SHA-256 does not fit");
    }
  }
  CheckProcessor(library_,
                 fields.Has("processor") ? fields.Texts("processor") : std::vector<std::string>());
}

std::vector<StoredTensor> Package::Params() const {
  Cursor at(params_);
  uint64_t magic = at.Take<uint64_t>();
  at.Take<uint64_t>();
  uint64_t count = at.Take<uint64_t>();
  // Eight bytes a name are the least.
  if (magic != kListMagic || count > params_.size() / 8) {
    Refuse("mod.params cannot be read: it does not begin as TVM's parameters do");
  }
  std::vector<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = at.Take<uint64_t>();
    if (length > kMaxNameBytes) Refuse("mod.params cannot be read: a name is too long");
    names.emplace_back(at.Bytes(length));
  }
  bool sound = at.Take<uint64_t>() == count &&
               std::set<std::string>(names.begin(), names.end()).size() == names.size();
  if (!sound) Refuse("mod.params cannot be read: its names do not fit its tensors");
  std::vector<StoredTensor> tensors;
  for (std::string& name : names) tensors.push_back(ReadTensor(&at, std::move(name)));
  if (at.left() != 0) Refuse("mod.params cannot be read: bytes follow the last weight");
  return tensors;
}

Package::Library::Library(std::string_view content) {
  const char* parent = std::getenv("TMPDIR");
  std::string where = parent != nullptr && *parent != '\0' ? parent : "/tmp";
  RemoveLeftovers(where);
  bool in_use = false;
  // Until it is locked, another process may take it for a leftover: then it is made anew.
  while (!in_use && !(folder_ = MakeScratch(where)).empty()) {
    lock_ = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked = lock_ >= 0 && (flock(lock_, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    in_use = locked && access(folder_.c_str(), F_OK) == 0;
    if (!in_use && lock_ >= 0) close(lock_);
  }
  if (!in_use) {
    throw Error("PackageError", "room for temporary files is needed, and there is none (" +
                                    Reason() + "): free some, or name another folder in TMPDIR");
  }
  path_ = folder_ + "/" + kLibrary;
  int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = file >= 0;
  for (size_t at = 0; written && at < content.size();) {
    ssize_t count = write(file, content.data() + at, content.size() - at);
    written = count > 0 || (count < 0 && errno == EINTR);
    if (count > 0) at += static_cast<size_t>(count);
  }
  std::string reason = Reason();
  if (file >= 0) close(file);
  if (!written) {
    Remove();
    throw Error("PackageError", "room for temporary files is needed in '" + folder_ +
                                    "', and there is none (" + reason +
                                    "): free some, or name another folder in TMPDIR");
  }
}

Package::Library::~Library() { Remove(); }

void Package::Library::Remove() {
  unlink(path_.c_str());
  rmdir(folder_.c_str());
  close(lock_);
}

}  // namespace tvm_vision
