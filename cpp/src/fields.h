/*!
 * \file fields.h
 * \brief Values out of mod.json by name and type; whatever does not fit is a PackageError.
 */
#ifndef TVM_VISION_CPP_FIELDS_H_
#define TVM_VISION_CPP_FIELDS_H_

#include <tvm/ffi/extra/json.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tvm_vision {

/*! \brief Sizes and numbers of a package beyond this are wrong. */
constexpr int64_t kLargest = int64_t{1} << 40;

/*! \brief An object of JSON, and where it stands, for messages. */
class Fields {
 public:
  Fields(const tvm::ffi::Any& value, std::string where);

  /*! \brief Whether there is something of this name that is not null. */
  bool Has(const char* name) const;
  Fields Object(const char* name) const;
  std::string Text(const char* name) const;
  int64_t Integer(const char* name, int64_t low, int64_t high) const;
  double Number(const char* name) const;
  bool Flag(const char* name) const;
  /*! \brief The same, or `usual` where it is not there: fields that came after others. */
  double NumberOr(const char* name, double usual) const;
  bool FlagOr(const char* name, bool usual) const;
  std::vector<std::string> Texts(const char* name) const;
  std::vector<double> Numbers(const char* name) const;
  std::vector<int64_t> Integers(const char* name, int64_t low, int64_t high) const;
  /*! \brief An object of numbers, each with its name; none where it is not there. */
  std::vector<std::pair<std::string, double>> NumbersByName(const char* name) const;
  std::vector<Fields> Objects(const char* name) const;
  /*! \brief Lists of numbers, such as anchors. */
  std::vector<std::vector<double>> NumberLists(const char* name) const;
  /*! \brief Throw the PackageError that says of a field what was needed. */
  [[noreturn]] void Refuse(const std::string& name, const std::string& needed) const;

 private:
  tvm::ffi::Any Get(const char* name) const;
  tvm::ffi::json::Array List(const char* name) const;
  tvm::ffi::json::Object object_;
  std::string where_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_FIELDS_H_
