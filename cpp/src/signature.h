/*!
 * \file signature.h
 * \brief Who made a package: mod.sig, an Ed25519 signature (RFC 8032); the rules and words of
 * tvm_vision/package/signature.py.
 */
#ifndef TVM_VISION_CPP_SIGNATURE_H_
#define TVM_VISION_CPP_SIGNATURE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tvm_vision {

/*! \brief What is signed. info: SHA-256 of mod.json, in hex. variants: of the mod.json of each
 * variant, by its name. key: fingerprint of who signed. */
struct Statement {
  std::string info;
  std::map<std::string, std::string> variants;
  std::string key;

  /*! \brief Throws PackageError unless this is the mod.json of that variant. */
  void CheckVariant(const std::string& name, std::string_view text) const;
};

/*! \brief Keys of who is trusted, out of a file. */
class PublicKeys {
 public:
  /*! \brief A PEM file with public Ed25519 keys, one after the other: any of them may have signed.
   * Throws InputError where there is none that can be read, and where this library was built
   * without OpenSSL. */
  static PublicKeys Read(const std::string& path);
  PublicKeys(PublicKeys&&) noexcept;
  ~PublicKeys();

  /*! \brief What one of the keys has signed. signature: mod.sig, or nothing where there is none.
   * info: the text of mod.json. Throws PackageError unless it is a signature by one of them, and
   * of this mod.json. */
  Statement Check(std::optional<std::string_view> signature, std::string_view info) const;

 private:
  PublicKeys();
  std::string Describe() const;
  struct Key;
  std::string name_;  // of the file, without its folder
  std::vector<std::unique_ptr<Key>> keys_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_SIGNATURE_H_
