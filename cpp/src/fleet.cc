#include "fleet.h"

#include <tvm/ffi/container/array.h>

#include <algorithm>
#include <array>
#include <set>

namespace tvm_vision {

namespace ffi = tvm::ffi;

namespace {

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
          fields.Text("precision"),
          ReadPieces(fields, "info"),
          ReadPieces(fields, "params"),
          ReadPiece(fields, fields.Numbers("library")),
          fields.Has("processor") ? fields.Texts("processor") : std::vector<std::string>()};
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
std::optional<int> Rank(const Variant& variant, Device wanted, const Machine& here) {
  if (variant.host != here.processor) return std::nullopt;
  if (!Lacking(variant.processor, here.features).empty()) return std::nullopt;
  if (!IsVulkan(variant)) return wanted == Device::kVulkan ? std::nullopt : std::optional(3);
  const std::optional<DeviceProperties>& device = here.vulkan.device;
  if (wanted == Device::kCpu || !device.has_value()) return std::nullopt;
  if (variant.device == Text(*device, "name")) return 0;
  if (!HasAllOf(variant.target, *device)) return std::nullopt;
  if (Text(*device, "type") == "cpu") return 4;
  double lanes = variant.target.NumberOr("thread_warp_size", 0);
  return lanes == static_cast<double>(Number(*device, "thread_warp_size")) ? 1 : 2;
}

/*! \brief A few words for people, as those of Python. */
std::string Describe(const Variant& variant, const Machine& here) {
  std::string place = variant.device;
  if (place.empty())
    place = variant.target.Has("mcpu") ? variant.target.Text("mcpu") : "a processor";
  std::string lacks =
      variant.host == here.processor ? Lacking(variant.processor, here.features) : "";
  return variant.name + " (" + place + ", " + variant.host + ", " + variant.precision + ")" +
         (lacks.empty() ? "" : ", for processors with " + lacks);
}

template <typename Words>
std::string Listed(const std::vector<Variant>& variants, Words words) {
  std::string text;
  for (const Variant& variant : variants) text += (text.empty() ? "" : ", ") + words(variant);
  return text;
}

}  // namespace

bool IsFleet(const Fields& fields) { return fields.Has("variants"); }

std::vector<Variant> ReadVariants(const Fields& fields) {
  std::vector<Variant> variants;
  for (const Fields& each : fields.Objects("variants")) variants.push_back(ReadVariant(each));
  return variants;
}

Variant PlanVariant(const std::vector<Variant>& variants, Device wanted, const Machine& here) {
  const Variant* best = nullptr;
  std::pair<int, int64_t> least;
  for (const Variant& variant : variants) {
    std::optional<int> rank = Rank(variant, wanted, here);
    if (!rank.has_value()) continue;
    // Of those that are alike the one that asks most of a processor that is known, else least.
    auto asks = static_cast<int64_t>(variant.processor.size());
    std::pair<int, int64_t> place = {*rank, here.features.has_value() ? -asks : asks};
    if (best != nullptr && place >= least) continue;
    best = &variant;
    least = place;
  }
  if (best != nullptr) return *best;
  const std::string& words = here.vulkan.words;
  throw Error("DeviceError",
              "a variant for this machine (" + here.processor + "; " +
                  (words.empty() ? "no Vulkan device" : words) +
                  ") is needed, and the package has " +
                  Listed(variants, [&](const Variant& one) { return Describe(one, here); }) +
                  ": compile one more, or name one with --target");
}

Variant ChooseVariant(const Fields& fields, Device wanted, const std::string& name,
                      const std::function<VulkanHere()>& vulkan) {
  std::vector<Variant> variants = ReadVariants(fields);
  if (!name.empty()) {
    auto named = [&](const Variant& variant) { return variant.name == name; };
    auto found = std::find_if(variants.begin(), variants.end(), named);
    if (found != variants.end()) return *found;
    throw Error("PackageError", "a target of " +
                                    Listed(variants, [](const Variant& one) { return one.name; }) +
                                    " is needed, found '" + name + "': name it");
  }
  Machine here = {ProcessorName(), FeaturesHere(), {}};
  bool on_vulkan = std::any_of(variants.begin(), variants.end(), IsVulkan);
  if (wanted != Device::kCpu && on_vulkan) here.vulkan = vulkan();
  return PlanVariant(variants, wanted, here);
}

}  // namespace tvm_vision
