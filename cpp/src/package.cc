#include "package.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <tvm_vision/tvm_vision.hpp>
#include <vector>

#include "processor.h"
#include "sha256.h"
#include "text.h"
#include "vulkan/csrc/folder_names.h"

namespace tvm_vision {

namespace {

// TVM's SaveParams; tvm_vision/package/params.py has the whole layout.
constexpr uint64_t kListMagic = 0xF7E58D4F05049CB7;
constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;
constexpr int32_t kCpu = 1;
constexpr size_t kMaxNameBytes = 4096;
constexpr int32_t kMaxRank = 64;
constexpr size_t kShownOfADigest = 12;

[[noreturn]] void RefuseParams(const std::string& why) {
  throw Error("PackageError", "mod.params cannot be read: " + why + ": " + kCompileAgain);
}

std::string Digest(std::string_view bytes) { return Sha256(bytes.data(), bytes.size()); }

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
    if (count > left_.size()) RefuseParams("it ends in the middle");
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
  if (!known) RefuseParams("weight '" + tensor.name + "' has a wrong header");
  uint64_t bytes = tensor.type_bits / 8;
  for (int32_t i = 0; i < rank; ++i) {
    int64_t side = at->Take<int64_t>();
    bool fits = side >= 0 && (side == 0 || bytes <= static_cast<uint64_t>(kLargest) /
                                                        static_cast<uint64_t>(side));
    if (!fits) RefuseParams("weight '" + tensor.name + "' has a wrong shape");
    bytes *= static_cast<uint64_t>(side);
    tensor.shape.push_back(side);
  }
  if (at->Take<uint64_t>() != bytes) {
    RefuseParams("weight '" + tensor.name + "' has a wrong size");
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
  for (const std::string& name : vulkan::FolderNames(parent)) {
    bool scratch = name.rfind(kScratchBegin, 0) == 0 &&
                   name.size() == kScratchBegin.size() + kScratchLetters + kScratchEnd.size();
    if (!scratch) continue;
    const fs::path path = fs::path(parent) / name, library = path / kLibraryName;
    const std::vector<std::string> entries = vulkan::FolderNames(path.string());
    bool alone = entries.empty() || (entries.size() == 1 && entries[0] == kLibraryName);
    int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) continue;
    struct stat status{};
    bool own = fstat(folder, &status) == 0 && status.st_uid == geteuid();
    // Who uses one holds a lock on it. A folder that has more in it, or cannot be read, stays.
    if (own && alone && flock(folder, LOCK_EX | LOCK_NB) == 0) {
      std::error_code other;
      fs::remove(library, other);
      fs::remove(path, other);
    }
    close(folder);
  }
}

/*! \brief `check_written` of tvm_vision/package/info.py: throws PackageError unless a mod.json is
 * to the byte as it was written, by its checksum, which is its first field. */
void CheckWritten(std::string_view text) {
  constexpr std::string_view kBegin = "{\"checksum\": \"", kBehind = "\", ";
  constexpr size_t kDigits = 64;
  constexpr const char* kChanged =
      "it was changed or damaged; compile the model again, or, where it was edited on purpose, use "
      "'tvm-vision package repack'";
  std::string_view found = text.substr(std::min(kBegin.size(), text.size()), kDigits);
  size_t rest = kBegin.size() + kDigits;
  bool begins = text.size() >= rest + kBehind.size() && text.substr(0, kBegin.size()) == kBegin &&
                found.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
                text.substr(rest, kBehind.size()) == kBehind;
  if (!begins) {
    throw Error("PackageError",
                std::string("mod.json must begin with its checksum, and does not: ") + kChanged);
  }
  std::string content = "{" + std::string(text.substr(rest + kBehind.size()));
  while (content.back() == '\n') content.pop_back();
  std::string needed = Digest(content);
  if (needed == found) return;
  throw Error("PackageError", "mod.json must have the checksum " +
                                  needed.substr(0, kShownOfADigest) + "..., found " +
                                  std::string(found.substr(0, kShownOfADigest)) +
                                  "...: " + kChanged);
}

}  // namespace

Package Package::Read(const std::string& path, const PublicKeys* trusted) {
  Package package(path, Members::Open(path));
  Naming(path, [&] {
    const Members& members = package.members_;
    package.info_ = members.Text(kInfoName);
    if (trusted != nullptr) {
      bool there = members.Has(kSignatureName);
      Bytes signature = there ? members.Text(kSignatureName) : Bytes();
      package.signed_ =
          trusted->Check(there ? std::optional(signature.view()) : std::nullopt, package.info());
    }
    CheckWritten(package.info());
  });
  return package;
}

void Package::Select(const Variant& variant) {
  Naming(path_, [&] {
    info_ = members_.Need(kParamsName, variant.info, kInfoName);
    if (signed_.has_value()) signed_->CheckVariant(variant.name, info());
    CheckWritten(info());
  });
  variant_ = variant;
}

void Package::Check(const Fields& fields) {
  Naming(path_, [&] {
    if (variant_.has_value()) {
      params_ = members_.Need(kParamsName, variant_->params, kParamsName);
      library_ = members_.Load(kLibraryName, {variant_->library}, kLibraryName);
    } else {
      params_ = members_.Need(kParamsName);
      library_ = members_.Load(kLibraryName);
    }
    Fields members = fields.Object("members");
    for (auto [name, bytes] :
         {std::pair{kParamsName, params_.view()}, std::pair{kLibraryName, library_.view()}}) {
      std::string needed = members.Text(name), found = Digest(bytes);
      if (needed == found) continue;
      throw Error("PackageError", std::string(name) + " must have the SHA-256 " +
                                      needed.substr(0, kShownOfADigest) +
                                      "... of mod.json, found " + found.substr(0, kShownOfADigest) +
                                      "...: it was changed or damaged; " + kCompileAgain);
    }
  });
  CheckProcessor(library(),
                 fields.Has("processor") ? fields.Texts("processor") : std::vector<std::string>());
}

std::vector<StoredTensor> Package::Params() const {
  Cursor at(params_.view());
  uint64_t magic = at.Take<uint64_t>();
  at.Take<uint64_t>();
  uint64_t count = at.Take<uint64_t>();
  // Eight bytes a name are the least.
  if (magic != kListMagic || count > params_.view().size() / 8) {
    RefuseParams("it does not begin as TVM's parameters do");
  }
  std::vector<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = at.Take<uint64_t>();
    if (length > kMaxNameBytes) RefuseParams("a name is too long");
    names.emplace_back(at.Bytes(length));
  }
  bool sound = at.Take<uint64_t>() == count &&
               std::set<std::string>(names.begin(), names.end()).size() == names.size();
  if (!sound) RefuseParams("its names do not fit its tensors");
  std::vector<StoredTensor> tensors;
  for (std::string& name : names) tensors.push_back(ReadTensor(&at, std::move(name)));
  if (at.left() != 0) RefuseParams("bytes follow the last weight");
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
                                    SystemReason() +
                                    "): free some, or name another folder in TMPDIR");
  }
  path_ = folder_ + "/" + kLibraryName;
  int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = file >= 0;
  for (size_t at = 0; written && at < content.size();) {
    ssize_t count = write(file, content.data() + at, content.size() - at);
    written = count > 0 || (count < 0 && errno == EINTR);
    if (count > 0) at += static_cast<size_t>(count);
  }
  std::string reason = SystemReason();
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
