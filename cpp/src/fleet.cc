#include "fleet.h"

#include <tvm/ffi/container/array.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

namespace tvm_vision {

namespace ffi = tvm::ffi;

namespace {

constexpr int64_t kLargest = int64_t{1} << 40;
#if defined(__x86_64__)
constexpr const char* kMachine = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kMachine = "aarch64";
#else
#error "packages are made for x86_64 and aarch64"
#endif
// What a variant may use as much of as its device had.
constexpr std::array<const char*, 5> kLimits = {
    "max_threads_per_block", "max_shared_memory_per_block", "max_push_constants_size",
    "max_per_stage_descriptor_storage_buffer", "max_storage_buffer_range"};
constexpr std::array<const char*, 8> kFeatures = {
    "supports_float16",      "supports_float64",
    "supports_int8",         "supports_int16",
    "supports_int64",        "supports_8bit_buffer",
    "supports_16bit_buffer", "supports_integer_dot_product"};

Piece ReadPiece(const Fields& fields, const std::vector<double>& numbers) {
  bool sound = numbers.size() == 2;
  for (double number : numbers) {
    sound &= number >= 0 && number <= static_cast<double>(kLargest) &&
             number == static_cast<double>(static_cast<uint64_t>(number));
  }
  if (!sound) fields.Refuse("pieces", "an offset and a size each");
  return {static_cast<uint64_t>(numbers[0]), static_cast<uint64_t>(numbers[1])};
}

std::vector<Piece> ReadPieces(const Fields& fields, const char* name) {
  std::vector<Piece> pieces;
  for (const std::vector<double>& numbers : fields.NumberLists(name)) {
    pieces.push_back(ReadPiece(fields, numbers));
  }
  return pieces;
}

Variant ReadVariant(const Fields& fields) {
  std::string device = fields.Has("device") ? fields.Object("device").Text("name") : "";
  return {fields.Text("name"),
          fields.Text("host"),
          std::move(device),
          fields.Object("target"),
          ReadPieces(fields, "info"),
          ReadPieces(fields, "params"),
          ReadPiece(fields, fields.Numbers("library"))};
}

bool IsVulkan(const Variant& variant) { return variant.target.Text("kind") == "vulkan"; }

int64_t Number(const DeviceProperties& device, const char* name) {
  return device.at(ffi::String(name)).cast<int64_t>();
}

std::string Text(const DeviceProperties& device, const char* name) {
  return std::string(device.at(ffi::String(name)).cast<ffi::String>());
}

/*! \brief The shapes of cooperative matrices that a device has, as keys of targets. */
std::set<std::string> MatrixKeys(const DeviceProperties& device) {
  std::set<std::string> keys;
  // Intel's driver writes those out that its narrow subgroups have (vulkan/device_keys.py).
  if (Number(device, "vendor_id") == 0x8086 && Number(device, "min_subgroup_size") < 16) return {};
  auto shapes = device.at(ffi::String("cooperative_matrix_shapes")).cast<ffi::Array<ffi::Any>>();
  for (const ffi::Any& each : shapes) {
    auto shape = each.cast<ffi::Array<ffi::Any>>();
    std::string types;
    for (int i = 3; i < 7; ++i) types += std::string(shape[i].cast<ffi::String>()) + " ";
    bool int8 = types == "int8 int8 int32 int32 ";
    if (!int8 && types != "float16 float16 float32 float32 ") continue;
    std::string key = std::string("cooperative_matrix_") + (int8 ? "int8_" : "");
    for (int i = 0; i < 3; ++i) {
      key += (i == 0 ? "" : "x") + std::to_string(shape[i].cast<int64_t>());
    }
    keys.insert(key);
  }
  return keys;
}

/*! \brief Whether a device has all that a target was made with: `lacking` of
 * tvm_vision/devices/difference.py. */
bool HasAllOf(const Fields& target, const DeviceProperties& device) {
  for (const char* limit : kLimits) {
    if (Number(device, limit) < target.NumberOr(limit, 0)) return false;
  }
  for (const char* feature : kFeatures) {
    bool here = device.at(ffi::String(feature)).cast<bool>();
    if (target.FlagOr(feature, false) && !here) return false;
  }
  if (!target.Has("keys")) return true;
  std::set<std::string> matrices = MatrixKeys(device);
  std::vector<std::string> keys = target.Texts("keys");
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return key.rfind("cooperative_matrix_", 0) != 0 || matrices.count(key) != 0;
  });
}

/*! \brief How far a variant is from what is here; nothing for one that does not run. */
std::optional<int> Rank(const Variant& variant, Device wanted,
                        const std::optional<DeviceProperties>& device) {
  if (variant.host != kMachine) return std::nullopt;
  if (!IsVulkan(variant)) return wanted == Device::kVulkan ? std::nullopt : std::optional(3);
  if (wanted == Device::kCpu || !device.has_value()) return std::nullopt;
  if (variant.device == Text(*device, "name")) return 0;
  if (!HasAllOf(variant.target, *device)) return std::nullopt;
  if (Text(*device, "type") == "cpu") return 4;
  double lanes = variant.target.NumberOr("thread_warp_size", 0);
  return lanes == static_cast<double>(Number(*device, "thread_warp_size")) ? 1 : 2;
}

std::string Describe(const std::vector<Variant>& variants) {
  std::string text;
  for (const Variant& variant : variants) {
    std::string place = variant.device.empty() ? "a processor" : variant.device;
    text += (text.empty() ? "" : ", ") + variant.name + " (" + place + ", " + variant.host + ")";
  }
  return text;
}

}  // namespace

bool IsFleet(const Fields& fields) { return fields.Has("variants"); }

Variant ChooseVariant(const Fields& fields, Device wanted, const std::string& name,
                      const std::function<VulkanHere()>& vulkan) {
  std::vector<Variant> variants;
  for (const Fields& each : fields.Objects("variants")) variants.push_back(ReadVariant(each));
  if (!name.empty()) {
    auto named = [&](const Variant& variant) { return variant.name == name; };
    auto found = std::find_if(variants.begin(), variants.end(), named);
    if (found != variants.end()) return *found;
    throw Error("PackageError", "a target of the package is needed, found '" + name +
                                    "', and it has " + Describe(variants) + ": name one of these");
  }
  VulkanHere here;
  bool on_vulkan = std::any_of(variants.begin(), variants.end(), IsVulkan);
  if (wanted != Device::kCpu && on_vulkan) here = vulkan();
  const Variant* best = nullptr;
  int least = 0;
  for (const Variant& variant : variants) {
    std::optional<int> rank = Rank(variant, wanted, here.device);
    if (rank.has_value() && (best == nullptr || *rank < least)) {
      best = &variant;
      least = *rank;
    }
  }
  if (best != nullptr) return *best;
  std::string device = here.device.has_value() ? Text(*here.device, "name") : here.why;
  throw Error("DeviceError", std::string("a variant for this machine (") + kMachine +
                                 (device.empty() ? "" : "; " + device) +
                                 ") is needed, and the package has " + Describe(variants) +
                                 ": compile one more, or name one with --target");
}

}  // namespace tvm_vision
