#include "fields.h"

#include <tvm_vision/tvm_vision.hpp>

namespace tvm_vision {

namespace ffi = tvm::ffi;
namespace json = tvm::ffi::json;

namespace {

std::optional<double> AsNumber(const ffi::Any& value) {
  // A flag would pass as a number.
  if (value.try_cast<bool>().has_value() && value.type_index() == ffi::TypeIndex::kTVMFFIBool) {
    return std::nullopt;
  }
  if (auto whole = value.try_cast<int64_t>()) return static_cast<double>(*whole);
  if (auto number = value.try_cast<double>()) return *number;
  return std::nullopt;
}

std::optional<int64_t> AsInteger(const ffi::Any& value, int64_t low, int64_t high) {
  if (value.type_index() != ffi::TypeIndex::kTVMFFIInt) return std::nullopt;
  int64_t whole = value.cast<int64_t>();
  if (whole < low || whole > high) return std::nullopt;
  return whole;
}

std::string Range(int64_t low, int64_t high) {
  return "from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

Fields::Fields(const ffi::Any& value, std::string where) : where_(std::move(where)) {
  auto object = value.try_cast<json::Object>();
  if (!object.has_value()) {
    throw Error("PackageError",
                "mod.json: " + (where_.empty() ? "it" : where_) +
                    " must be an object: compile the model again, or copy the package again");
  }
  object_ = *object;
}

void Fields::Refuse(const std::string& name, const std::string& needed) const {
  throw Error("PackageError", "mod.json: " + (where_.empty() ? name : where_ + "." + name) +
                                  " must be " + needed +
                                  ": compile the model again, or use the tvm_vision that made it");
}

ffi::Any Fields::Get(const char* name) const {
  auto found = object_.find(ffi::String(name));
  if (found == object_.end()) Refuse(name, "there");
  return (*found).second;
}

json::Array Fields::List(const char* name) const {
  auto list = Get(name).try_cast<json::Array>();
  if (!list.has_value()) Refuse(name, "a list");
  return *list;
}

bool Fields::Has(const char* name) const {
  auto found = object_.find(ffi::String(name));
  return found != object_.end() && (*found).second != nullptr;
}

Fields Fields::Object(const char* name) const {
  return Fields(Get(name), where_.empty() ? name : where_ + "." + name);
}

std::string Fields::Text(const char* name) const {
  auto text = Get(name).try_cast<ffi::String>();
  if (!text.has_value()) Refuse(name, "a text");
  return std::string(*text);
}

int64_t Fields::Integer(const char* name, int64_t low, int64_t high) const {
  auto whole = AsInteger(Get(name), low, high);
  if (!whole.has_value()) Refuse(name, "a whole number " + Range(low, high));
  return *whole;
}

double Fields::Number(const char* name) const {
  auto number = AsNumber(Get(name));
  if (!number.has_value()) Refuse(name, "a number");
  return *number;
}

bool Fields::Flag(const char* name) const {
  ffi::Any value = Get(name);
  if (value.type_index() != ffi::TypeIndex::kTVMFFIBool) Refuse(name, "true or false");
  return value.cast<bool>();
}

double Fields::NumberOr(const char* name, double usual) const {
  return Has(name) ? Number(name) : usual;
}

bool Fields::FlagOr(const char* name, bool usual) const { return Has(name) ? Flag(name) : usual; }

std::vector<std::string> Fields::Texts(const char* name) const {
  std::vector<std::string> texts;
  for (const ffi::Any& item : List(name)) {
    auto text = item.try_cast<ffi::String>();
    if (!text.has_value()) Refuse(name, "a list of texts");
    texts.push_back(std::string(*text));
  }
  return texts;
}

std::vector<double> Fields::Numbers(const char* name) const {
  std::vector<double> numbers;
  for (const ffi::Any& item : List(name)) {
    auto number = AsNumber(item);
    if (!number.has_value()) Refuse(name, "a list of numbers");
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int64_t> Fields::Integers(const char* name, int64_t low, int64_t high) const {
  std::vector<int64_t> numbers;
  for (const ffi::Any& item : List(name)) {
    auto whole = AsInteger(item, low, high);
    if (!whole.has_value()) Refuse(name, "a list of whole numbers " + Range(low, high));
    numbers.push_back(*whole);
  }
  return numbers;
}

std::vector<std::pair<std::string, double>> Fields::NumbersByName(const char* name) const {
  std::vector<std::pair<std::string, double>> numbers;
  if (!Has(name)) return numbers;
  Fields inner = Object(name);
  for (const auto& [key, value] : inner.object_) {
    auto text = key.try_cast<ffi::String>();
    auto number = AsNumber(value);
    if (!text.has_value() || !number.has_value()) Refuse(name, "an object of numbers by name");
    numbers.emplace_back(std::string(*text), *number);
  }
  return numbers;
}

std::vector<Fields> Fields::Objects(const char* name) const {
  std::vector<Fields> objects;
  for (const ffi::Any& item : List(name)) {
    objects.emplace_back(item, (where_.empty() ? "" : where_ + ".") + name + "[" +
                                   std::to_string(objects.size()) + "]");
  }
  return objects;
}

std::vector<std::vector<double>> Fields::NumberLists(const char* name) const {
  std::vector<std::vector<double>> lists;
  for (const ffi::Any& item : List(name)) {
    auto list = item.try_cast<json::Array>();
    if (!list.has_value()) Refuse(name, "a list of lists of numbers");
    std::vector<double> numbers;
    for (const ffi::Any& value : *list) {
      auto number = AsNumber(value);
      if (!number.has_value()) Refuse(name, "a list of lists of numbers");
      numbers.push_back(*number);
    }
    lists.push_back(std::move(numbers));
  }
  return lists;
}

}  // namespace tvm_vision
