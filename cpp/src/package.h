/*!
 * \file package.h
 * \brief A package on disk, checked: mod.json, mod.params and mod.so of a tar or a folder.
 */
#ifndef TVM_VISION_CPP_PACKAGE_H_
#define TVM_VISION_CPP_PACKAGE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fields.h"
#include "fleet.h"

namespace tvm_vision {

/*! \brief A file in memory, as it is on disk. */
class MappedFile {
 public:
  /*! \brief Throws PackageError where it cannot be read or is no plain file. */
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/*! \brief A weight in mod.params. */
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  uint8_t type_code = 0;
  uint8_t type_bits = 0;
  std::string_view bytes;
};

/*! \brief The three members; of a package for several devices those of one, once it is selected.
 * Nothing of it has been executed. */
class Package {
 public:
  /*! \brief Read one; `Check` has to follow. Throws PackageError for what is none. */
  static Package Read(const std::string& path);
  Package(Package&&) noexcept = default;

  /*! \brief Throws PackageError unless mod.json is as it was written. info: mod.json. */
  void CheckInfo(const Fields& info) const;
  /*! \brief Put the members of a variant in the place of those of all. Throws PackageError for
   * one that lies beyond its member. */
  void Select(const Variant& variant);
  /*! \brief Throws PackageError unless every member is as mod.json says, by SHA-256, and mod.so is
   * for this kind of processor. info: mod.json. */
  void Check(const Fields& info) const;
  std::string_view info() const { return info_; }
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
  std::string_view library() const { return library_; }

 private:
  Package() = default;
  void ReadTar(std::string_view tar);
  std::string_view PutTogether(std::string_view member, const std::vector<Piece>& pieces,
                               const char* name);
  std::string path_;
  std::vector<MappedFile> files_;
  std::vector<std::unique_ptr<std::string>> put_together_;
  std::string_view info_;
  std::string_view params_;
  std::string_view library_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_PACKAGE_H_
