/*!
 * \file fuzz_readers.cc
 * \brief For libFuzzer, under ASan and UBSan: what of a package anybody may have written.
 *
 * READER says at compilation which of the functions below takes the inputs. An input is read, or
 * refused by an error of one line; scripts/fuzz_native.sh builds and runs them.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "../src/model_info.h"
#include "../src/package.h"
#include "../src/processor.h"
#include "../src/sha256.h"
#include "../src/text.h"

namespace tvm_vision {

/*! \brief Bytes as a file without a disk. */
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(memfd_create("input", MFD_CLOEXEC)) {
    if (file_ < 0 || write(file_, bytes.data(), bytes.size()) != ssize_t(bytes.size())) {
      std::perror("memfd_create");
      std::exit(1);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(file_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/*! \brief mod.json with the checksum that it needs, which no change would get past. */
std::string Sealed(const std::string& text) {
  return "{\"checksum\": \"" + Sha256(text.data(), text.size()) + "\", " + text.substr(1);
}

/*! \brief A member of a tar, as POSIX.1-1988 has it. */
void AddMember(std::string* tar, const char* name, std::string_view bytes) {
  std::string header(512, '\0');
  header.replace(0, std::strlen(name), name);
  char size[12];
  std::snprintf(size, sizeof(size), "%011zo", bytes.size());
  header.replace(124, sizeof(size), size, sizeof(size));
  header.replace(148, 8, "        ");
  header[156] = '0';
  header.replace(257, 8,
                 std::string_view("ustar\0"
                                  "00",
                                  8));
  unsigned sum = 0;
  for (char each : header) sum += static_cast<uint8_t>(each);
  char text[8];
  std::snprintf(text, sizeof(text), "%06o", sum);
  header.replace(148, 7, text, 7);
  tar->append(header).append(bytes).append((512 - bytes.size() % 512) % 512, '\0');
}

/*! \brief A tar: its members, and what of it is read before mod.json is believed. */
void ReadMembers(std::string_view bytes) {
  MemoryFile file(bytes);
  Members members = Members::Open(file.path());
  for (const char* name : {kInfoName, kParamsName, kLibraryName}) {
    size_t size = members.Load(name).view().size();
    if (size !=
        members.Load(name, {{0, size / 2}, {size / 2, size - size / 2}}, name).view().size()) {
      __builtin_trap();
    }
  }
  Fields info = ParseInfo(Package::Read(file.path(), nullptr).info());
  if (IsFleet(info)) ReadVariants(info);
}

/*! \brief mod.json of a network, or of a package for several devices. */
void ReadInfo(std::string_view bytes) {
  Fields info = ParseInfo(bytes);
  if (!IsFleet(info)) {
    for (const TensorSpec& spec : NetworkInfo::Read(info).inputs) TensorText(spec);
    return;
  }
  for (Device wanted : {Device::kAuto, Device::kCpu}) {
    ChooseVariant(info, wanted, "", [] { return VulkanHere{std::nullopt, "no driver"}; });
  }
}

/*! \brief mod.params in a package that is right otherwise. */
void ReadParams(std::string_view bytes) {
  std::string library(
      "\x7f"
      "ELF\x02\x01",
      6);
  library.resize(64);
  // As ELF has it: of which processor the code is.
  library[18] = ProcessorName() == "x86_64" ? 62 : static_cast<char>(183);
  std::string members = "{\"members\": {\"mod.params\": \"" + Sha256(bytes.data(), bytes.size()) +
                        "\", \"mod.so\": \"" + Sha256(library.data(), library.size()) + "\"}}";
  std::string tar;
  AddMember(&tar, kInfoName, Sealed(members));
  AddMember(&tar, kParamsName, bytes);
  AddMember(&tar, kLibraryName, library);
  tar.append(1024, '\0');
  MemoryFile file(tar);
  Package package = Package::Read(file.path(), nullptr);
  tvm::ffi::String message;
  package.Check(
      Fields(tvm::ffi::json::Parse(tvm::ffi::String(std::string(package.info())), &message), ""));
  for (const StoredTensor& tensor : package.Params()) {
    if (tensor.bytes.data() + tensor.bytes.size() < tensor.bytes.data()) __builtin_trap();
  }
}

/*! \brief mod.sig, beside the key that signed the sample of the corpus. */
void ReadSignature(std::string_view bytes) {
  static const PublicKeys keys =
      PublicKeys::Read(MemoryFile("-----BEGIN PUBLIC KEY-----\n"
                                  "MCowBQYDK2VwAyEAGRKZzQsvOFcd6qUDmxfmF8zn2TU+nQVdU1M+NuNO3mU=\n"
                                  "-----END PUBLIC KEY-----\n")
                           .path());
  keys.Check(bytes, "{}");
}

/*! \brief A file of public keys. */
void ReadKeys(std::string_view bytes) { PublicKeys::Read(MemoryFile(bytes).path()); }

/*! \brief Text of any kind on its way into a message. */
void ReadText(std::string_view bytes) {
  std::string text = ToUtf8(bytes), line = OneLine(text);
  bool sound = IsUtf8(text) && IsUtf8(Shortened(text, 20)) && IsUtf8(line) &&
               line.find_first_of("\r\n") == std::string::npos;
  if (!sound) __builtin_trap();
}

}  // namespace tvm_vision

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tvm_vision::READER(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const tvm_vision::Error& error) {
    // Anything else that is thrown ends the run.
    if (std::strpbrk(error.what(), "\r\n") != nullptr) __builtin_trap();
  }
  return 0;
}
