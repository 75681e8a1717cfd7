/*!
 * \file container.h
 * \brief The members of a package, of a tar or a folder that is opened once; the rules and words
 * of tvm_vision/package/container.py.
 */
#ifndef TVM_VISION_CPP_CONTAINER_H_
#define TVM_VISION_CPP_CONTAINER_H_

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tvm_vision {

constexpr const char* kInfoName = "mod.json";
constexpr const char* kParamsName = "mod.params";
constexpr const char* kLibraryName = "mod.so";
// Of a package that was signed, beside the others.
constexpr const char* kSignatureName = "mod.sig";

// What to do about a package that is damaged or incomplete.
constexpr const char* kCopyAgain = "copy the package again, or compile the model again";
constexpr const char* kCompileAgain = "compile the model again, or copy the package again";

/*! \brief An offset and a size in bytes. */
using Piece = std::pair<uint64_t, uint64_t>;

/*! \brief Bytes in memory of our own: what becomes of the file they were read from is not seen. */
class Bytes {
 public:
  Bytes() = default;
  /*! \brief So many, of any value. Throws PackageError, with the member's name, where there is not
   * so much memory. */
  Bytes(uint64_t size, const char* name);
  char* data() { return memory_.get(); }
  std::string_view view() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory_;
  size_t size_ = 0;
};

/*! \brief A plain file, open to read. Every byte is read once, and never mapped: who writes into
 * it meanwhile changes nothing that was checked, and who cuts it ends no process. */
class PlainFile {
 public:
  /*! \brief Throws PackageError where it cannot be opened or is no plain file; waits for nobody.
   * A member of a folder must be no link either. */
  static PlainFile Open(const std::string& path);
  /*! \brief Nothing, and why, where there is no plain file that can be opened. */
  static std::optional<PlainFile> TryOpen(const std::string& path, int* why);
  static PlainFile OpenMember(const std::string& folder, const char* name);
  PlainFile(PlainFile&& other) noexcept;
  PlainFile& operator=(PlainFile&&) = delete;
  ~PlainFile();
  uint64_t size() const { return size_; }
  /*! \brief Fill memory from an offset on; fewer bytes where the file ends. */
  size_t Read(uint64_t offset, char* memory, size_t bytes) const;

 private:
  PlainFile(int file, uint64_t size) : file_(file), size_(size) {}
  int file_ = -1;
  uint64_t size_ = 0;
};

/*! \brief Where each member lies, and the files that they lie in. */
class Members {
 public:
  /*! \brief Throws PackageError, which names the path, for what is no package. */
  static Members Open(const std::string& path);
  bool Has(const char* name) const { return places_.count(name) != 0; }
  /*! \brief mod.json and mod.sig, whose size is bounded. */
  Bytes Text(const char* name) const;
  /*! \brief A member, all of it or pieces of it one after the other; called: what that is called in
   * messages. Throws PackageError for one that lies beyond its end. */
  Bytes Load(const char* name) const;
  Bytes Load(const char* name, const std::vector<Piece>& pieces, const char* called) const;
  /*! \brief The same, which must have content. */
  Bytes Need(const char* name) const;
  Bytes Need(const char* name, const std::vector<Piece>& pieces, const char* called) const;

 private:
  void ListTar();
  std::vector<PlainFile> files_;
  std::map<std::string, std::pair<size_t, Piece>> places_;  // number of the file, and where
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_CONTAINER_H_
