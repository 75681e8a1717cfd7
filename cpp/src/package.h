/*!
 * \file package.h
 * \brief A package on disk, checked: mod.json, mod.params and mod.so of a tar or a folder.
 */
#ifndef TVM_VISION_CPP_PACKAGE_H_
#define TVM_VISION_CPP_PACKAGE_H_

#include <optional>
#include <string>
#include <string_view>
#include <tvm_vision/tvm_vision.hpp>
#include <utility>
#include <vector>

#include "container.h"
#include "fields.h"
#include "fleet.h"
#include "signature.h"

namespace tvm_vision {

/*! \brief What the call says of a package begins with its path. */
template <typename Call>
auto Naming(const std::string& path, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.kind() != "PackageError") throw;
    throw Error(error.kind(), "'" + path + "': " + error.what());
  }
}

/*! \brief A weight in mod.params. */
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  uint8_t type_code = 0;
  uint8_t type_bits = 0;
  std::string_view bytes;
};

/*! \brief The three members; of a package for several devices those of one, once it is selected.
 * Each is read once, into memory of its own: what was checked is what is loaded. Nothing of it has
 * been executed. */
class Package {
 public:
  /*! \brief Read mod.json, which is to the byte as it was written; `Check` has to follow. trusted:
   * keys, one of which has to have signed it, or nothing. Throws PackageError for what is no
   * package, changed, or not signed so. */
  static Package Read(const std::string& path, const PublicKeys* trusted);
  Package(Package&&) noexcept = default;
  Package& operator=(Package&&) noexcept = default;

  /*! \brief Put the mod.json of a variant in the place of that of all. Throws PackageError for
   * one that lies beyond its member, or is not as it was signed. */
  void Select(const Variant& variant);
  /*! \brief Read the other members. Throws PackageError unless every member is as mod.json says, by
   * SHA-256, and mod.so is for this kind of processor. info: mod.json. */
  void Check(const Fields& info);
  std::string_view info() const { return info_.view(); }
  /*! \brief The weights. Throws PackageError where a size does not fit. */
  std::vector<StoredTensor> Params() const;
  /*! \brief Write mod.so to a file of its own, which goes with the object that is returned. */
  class Library {
   public:
    explicit Library(std::string_view content);
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    ~Library();
    const std::string& path() const { return path_; }

   private:
    void Remove();

    std::string folder_;
    std::string path_;
    int lock_ = -1;  // of the folder, open and locked for as long as it is in use
  };
  std::string_view library() const { return library_.view(); }

 private:
  Package(const std::string& path, Members members) : path_(path), members_(std::move(members)) {}
  std::string path_;
  Members members_;
  std::optional<Statement> signed_;
  // Of a package for several devices: which of them, and where its members lie.
  std::optional<Variant> variant_;
  Bytes info_;
  Bytes params_;
  Bytes library_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_PACKAGE_H_
