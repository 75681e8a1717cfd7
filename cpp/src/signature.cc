#include "signature.h"

#ifdef TVM_VISION_WITH_OPENSSL
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tvm_vision/tvm_vision.hpp>

#include "container.h"
#include "sha256.h"
#include "text.h"

namespace tvm_vision {

namespace {

constexpr const char* kTakeAgain = "take the package again from who signed it";
constexpr size_t kShownOfAKey = 12;

std::string Sha256Of(std::string_view text) { return Sha256(text.data(), text.size()); }

/*! \brief A text as JSON, the way that Python writes it without escaping what is not ASCII. */
std::string Quoted(std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (char one : text) {
    size_t at = kEscaped.find(one);
    if (at != std::string_view::npos) {
      quoted += {'\\', kLetters[at]};
    } else if (static_cast<uint8_t>(one) < 0x20) {
      quoted += std::string("\\u00") + kDigits[one >> 4] + kDigits[one & 15];
    } else {
      quoted += one;
    }
  }
  return quoted + "\"";
}

/*! \brief The members of mod.sig from "format" on: what is signed has these alone. */
std::string SignedFields(const Statement& statement) {
  std::string variants;
  for (const auto& [name, digest] : statement.variants) {
    variants += (variants.empty() ? "" : ", ") + Quoted(name) + ": " + Quoted(digest);
  }
  return "\"format\": \"tvm_vision signature\", \"format_version\": 1, \"info\": " +
         Quoted(statement.info) + ", \"key\": " + Quoted(statement.key) + ", \"variants\": {" +
         variants + "}}";
}

/*! \brief A mod.sig, as `sign` writes it and not otherwise, so that no byte of it may change: read
 * from the front, written again, and compared. */
class SignatureText {
 public:
  explicit SignatureText(std::string_view text) : left_(text) {
    Skip("{\"ed25519\": ");
    signature_ = Hex(128);
    Skip(", \"format\": \"tvm_vision signature\", \"format_version\": 1, \"info\": ");
    statement_.info = Hex(64);
    Skip(", \"key\": ");
    statement_.key = Hex(64);
    Skip(", \"variants\": {");
    while (sound_ && !left_.empty() && left_.front() == '"') {
      std::string name = Text();
      Skip(": ");
      statement_.variants[name] = Hex(64);
      if (!left_.empty() && left_.front() == ',') Skip(", ");
    }
    Skip("}}\n");
    std::string again = "{\"ed25519\": \"" + signature_ + "\", " + SignedFields(statement_) + "\n";
    if (sound_ && left_.empty() && again == text && IsUtf8(text)) return;
    throw Error("PackageError",
                "mod.sig cannot be read: it must be as 'tvm-vision sign' writes it, and is not: "
                "sign the package again");
  }
  const Statement& statement() const { return statement_; }
  /*! \brief The bytes of the signature itself. */
  std::string signature() const {
    std::string bytes;
    for (size_t i = 0; i < signature_.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(signature_.substr(i, 2), nullptr, 16));
    }
    return bytes;
  }

 private:
  void Skip(std::string_view needed) {
    sound_ = sound_ && left_.substr(0, needed.size()) == needed;
    if (sound_) left_.remove_prefix(needed.size());
  }
  std::string Text() {
    std::string text;
    Skip("\"");
    while (sound_ && !left_.empty() && left_.front() != '"') {
      if (left_.front() == '\\') {
        text += Escaped();
      } else {
        text += left_.front();
        left_.remove_prefix(1);
      }
    }
    Skip("\"");
    return text;
  }
  /*! \brief What stands behind a backslash; of \u only what `Quoted` writes so. */
  char Escaped() {
    constexpr std::string_view kLetters = "\"\\nrtbf", kMeant = "\"\\\n\r\t\b\f";
    std::string_view head = left_.substr(0, 6);
    size_t at = head.size() > 1 ? kLetters.find(head[1]) : std::string_view::npos;
    if (at != std::string_view::npos) {
      left_.remove_prefix(2);
      return kMeant[at];
    }
    bool control = head.size() == 6 && head.substr(0, 4) == "\\u00" &&
                   head.substr(4).find_first_not_of("0123456789abcdef") == std::string_view::npos;
    sound_ = sound_ && control;
    if (!sound_) return '\0';
    left_.remove_prefix(6);
    return static_cast<char>(std::stoi(std::string(head.substr(4)), nullptr, 16));
  }
  std::string Hex(size_t digits) {
    std::string text = Text();
    sound_ = sound_ && text.size() == digits &&
             text.find_first_not_of("0123456789abcdef") == std::string::npos;
    return text;
  }

  std::string_view left_;
  bool sound_ = true;
  Statement statement_;
  std::string signature_;
};

#ifdef TVM_VISION_WITH_OPENSSL

constexpr uint64_t kMostKeyBytes = 1 << 16;

[[noreturn]] void NoKey(const std::string& path) {
  throw Error("InputError",
              "a public Ed25519 key in PEM is needed, and '" + path +
                  "' is none: openssl genpkey -algorithm ed25519 -out sign.pem, and openssl pkey "
                  "-in sign.pem -pubout make one");
}

/*! \brief The content of a file of keys. */
std::string ReadKeyFile(const std::string& path) {
  auto refuse = [&](const std::string& why) {
    throw Error("InputError", "a public key is needed, and '" + path + "' cannot be read (" + why +
                                  "): check the path");
  };
  int why = 0;
  auto file = PlainFile::TryOpen(path, &why);
  if (!file.has_value()) {
    refuse(why == EISDIR   ? "it is a folder"
           : why == EINVAL ? "it is no plain file"
                           : std::strerror(why));
  }
  if (file->size() > kMostKeyBytes) {
    refuse("it has " + std::to_string(file->size()) + " bytes, and " +
           std::to_string(kMostKeyBytes) + " are allowed");
  }
  std::string content(file->size(), '\0');
  content.resize(file->Read(0, content.data(), content.size()));
  return content;
}

#endif

}  // namespace

void Statement::CheckVariant(const std::string& name, std::string_view text) const {
  auto found = variants.find(name);
  if (found != variants.end() && found->second == Sha256Of(text)) return;
  throw Error("PackageError", "the mod.json of '" + name +
                                  "' is needed as it was signed, and it is another: it was changed "
                                  "or damaged; " +
                                  kTakeAgain);
}

#ifdef TVM_VISION_WITH_OPENSSL

struct PublicKeys::Key {
  explicit Key(EVP_PKEY* taken) : key(taken, EVP_PKEY_free) {}
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key;
  /*! \brief SHA-256 of the key as SubjectPublicKeyInfo, DER. */
  std::string fingerprint;
};

PublicKeys PublicKeys::Read(const std::string& path) {
  constexpr std::string_view kBegin = "-----BEGIN PUBLIC KEY-----",
                             kEnd = "-----END PUBLIC KEY-----";
  constexpr std::string_view kBase64 =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n";
  std::string content = ReadKeyFile(path);
  PublicKeys keys;
  keys.name_ = std::filesystem::path(path).filename();
  std::string_view left = content;
  for (size_t end; (end = left.find(kEnd)) != std::string_view::npos;) {
    size_t begin = left.find(kBegin), inside = begin + kBegin.size();
    // No headers, which libraries read in different ways, and no second beginning.
    bool plain = begin < end && left.substr(inside, end - inside).find_first_not_of(kBase64) ==
                                    std::string_view::npos;
    if (!plain) NoKey(path);
    std::string block = std::string(left.substr(0, end + kEnd.size())) + "\n";
    left.remove_prefix(end + kEnd.size());
    std::unique_ptr<BIO, decltype(&BIO_free)> memory(
        BIO_new_mem_buf(block.data(), static_cast<int>(block.size())), BIO_free);
    // Of an encrypted one nobody is asked for a password.
    auto no_password = [](char*, int, int, void*) { return -1; };
    auto key =
        std::make_unique<Key>(PEM_read_bio_PUBKEY(memory.get(), nullptr, no_password, nullptr));
    if (key->key == nullptr || EVP_PKEY_id(key->key.get()) != EVP_PKEY_ED25519) NoKey(path);
    unsigned char* der = nullptr;
    int size = i2d_PUBKEY(key->key.get(), &der);
    if (size <= 0) NoKey(path);
    key->fingerprint = Sha256(der, static_cast<size_t>(size));
    OPENSSL_free(der);
    bool known = std::any_of(keys.keys_.begin(), keys.keys_.end(), [&](const auto& other) {
      return other->fingerprint == key->fingerprint;
    });
    if (!known) keys.keys_.push_back(std::move(key));
  }
  if (keys.keys_.empty() || left.find("-----") != std::string_view::npos) NoKey(path);
  return keys;
}

Statement PublicKeys::Check(std::optional<std::string_view> signature,
                            std::string_view info) const {
  std::string needed = "a signature by " + Describe() + " is needed";
  auto refuse = [&](const std::string& found) { throw Error("PackageError", needed + found); };
  if (!signature.has_value()) {
    refuse(", and the package has none: 'tvm-vision sign' makes one");
  }
  SignatureText text(*signature);
  const Statement& statement = text.statement();
  auto trusted = std::find_if(keys_.begin(), keys_.end(),
                              [&](const auto& key) { return key->fingerprint == statement.key; });
  if (trusted == keys_.end()) {
    refuse(", and it is signed by " + statement.key.substr(0, kShownOfAKey) + ": " + kTakeAgain);
  }
  std::string bytes = text.signature(), signed_text = "{" + SignedFields(statement);
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free);
  auto pointer = [](const std::string& of) {
    return reinterpret_cast<const unsigned char*>(of.data());
  };
  bool good =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, (*trusted)->key.get()) == 1 &&
      EVP_DigestVerify(context.get(), pointer(bytes), bytes.size(), pointer(signed_text),
                       signed_text.size()) == 1;
  if (!good) {
    refuse(std::string(", and what mod.sig has is none of that key: it was changed; ") +
           kTakeAgain);
  }
  if (statement.info != Sha256Of(info)) {
    refuse(std::string(" of this mod.json, and it is of another: ") + kTakeAgain);
  }
  return statement;
}

std::string PublicKeys::Describe() const {
  std::string listed;
  for (const auto& key : keys_) {
    listed += (listed.empty() ? "" : ", ") + key->fingerprint.substr(0, kShownOfAKey);
  }
  return name_ + " (" + listed + ")";
}

#else

struct PublicKeys::Key {};

PublicKeys PublicKeys::Read(const std::string&) {
  throw Error("InputError",
              "signatures need OpenSSL's libcrypto, which this library was built without: apt "
              "install libssl-dev, and build it again");
}

Statement PublicKeys::Check(std::optional<std::string_view>, std::string_view) const {
  throw Error("InputError", "keys are needed, and there are none");
}

#endif

PublicKeys::PublicKeys() = default;
PublicKeys::PublicKeys(PublicKeys&&) noexcept = default;
PublicKeys::~PublicKeys() = default;

}  // namespace tvm_vision
