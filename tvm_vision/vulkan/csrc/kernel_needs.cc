#include "kernel_needs.h"

#include <algorithm>
#include <set>

#include "error.h"

namespace tvm_vision {
namespace vulkan {

namespace {

using S = const DeviceSnapshot&;
using K = const KernelCode&;

/*! \brief A number that a kernel needs at most, and the limit of the device that it is held to. */
struct NumberRow {
  const char* unit;
  /*! \brief As the Vulkan specification names it. */
  const char* limit;
  uint64_t (*needed)(K);
  uint64_t (*found)(S);
};

const NumberRow kNumbers[] = {
    {"invocations in axis x of a workgroup", "maxComputeWorkGroupSize",
     [](K k) -> uint64_t { return k.interface.local_size[0]; },
     [](S s) -> uint64_t { return s.max_workgroup_size[0]; }},
    {"invocations in axis y of a workgroup", "maxComputeWorkGroupSize",
     [](K k) -> uint64_t { return k.interface.local_size[1]; },
     [](S s) -> uint64_t { return s.max_workgroup_size[1]; }},
    {"invocations in axis z of a workgroup", "maxComputeWorkGroupSize",
     [](K k) -> uint64_t { return k.interface.local_size[2]; },
     [](S s) -> uint64_t { return s.max_workgroup_size[2]; }},
    {"invocations in a workgroup", "maxComputeWorkGroupInvocations",
     [](K k) -> uint64_t {
       const std::array<uint32_t, 3>& size = k.interface.local_size;
       // Each axis is below 2^32: in two steps, so that a damaged shader's product is no small one.
       uint64_t plane = uint64_t{size[0]} * size[1];
       return size[2] != 0 && plane > UINT64_MAX / size[2] ? UINT64_MAX : plane * size[2];
     },
     [](S s) -> uint64_t { return s.max_workgroup_invocations; }},
    {"bytes of shared memory", "maxComputeSharedMemorySize",
     [](K k) { return k.interface.shared_bytes; },
     [](S s) -> uint64_t { return s.max_shared_memory; }},
    {"storage buffers", "maxPerStageDescriptorStorageBuffers",
     [](K k) -> uint64_t { return k.num_buffers; },
     [](S s) -> uint64_t { return s.max_storage_buffers_per_stage; }},
    {"bytes of push constants", "maxPushConstantsSize",
     [](K k) -> uint64_t { return k.scalars_in_uniform_buffer ? 0 : k.scalar_bytes; },
     [](S s) -> uint64_t { return s.max_push_constants; }},
    {"bytes in a uniform buffer", "maxUniformBufferRange",
     [](K k) -> uint64_t { return k.scalars_in_uniform_buffer ? k.scalar_bytes : 0; },
     [](S s) -> uint64_t { return s.max_uniform_buffer_range; }},
};

/*! \brief A capability of SPIR-V, and the feature of the device that allows it. */
struct CapabilityRow {
  uint32_t capability;
  /*! \brief As the Vulkan specification names it. */
  const char* feature;
  bool (*found)(S);
};

template <VkSubgroupFeatureFlags operation>
bool Subgroup(S s) {
  return s.subgroup_in_compute && (s.subgroup_operations & operation) == operation;
}

bool Always(S) { return true; }
bool DotProduct(S s) { return s.features.integer_dot_product; }

constexpr const char* kDotProduct = "shaderIntegerDotProduct";

const CapabilityRow kCapabilities[] = {
    {0, "Matrix", Always},
    {1, "Shader", Always},
    {50, "ImageQuery", Always},  // core, uses nothing optional without images
    {9, "shaderFloat16", [](S s) { return s.features.shader_float16; }},
    {10, "shaderFloat64", [](S s) { return s.features.shader_float64; }},
    {11, "shaderInt64", [](S s) { return s.features.shader_int64; }},
    {22, "shaderInt16", [](S s) { return s.features.shader_int16; }},
    {39, "shaderInt8", [](S s) { return s.features.shader_int8; }},
    {61, "subgroup basic operations", Subgroup<VK_SUBGROUP_FEATURE_BASIC_BIT>},
    {62, "subgroup vote operations", Subgroup<VK_SUBGROUP_FEATURE_VOTE_BIT>},
    {63, "subgroup arithmetic operations", Subgroup<VK_SUBGROUP_FEATURE_ARITHMETIC_BIT>},
    {64, "subgroup ballot operations", Subgroup<VK_SUBGROUP_FEATURE_BALLOT_BIT>},
    {65, "subgroup shuffle operations", Subgroup<VK_SUBGROUP_FEATURE_SHUFFLE_BIT>},
    {66, "subgroup relative shuffle operations",
     Subgroup<VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT>},
    {67, "subgroup clustered operations", Subgroup<VK_SUBGROUP_FEATURE_CLUSTERED_BIT>},
    {68, "subgroup quad operations", Subgroup<VK_SUBGROUP_FEATURE_QUAD_BIT>},
    {4433, "storageBuffer16BitAccess", [](S s) { return s.features.storage_buffer_16bit; }},
    {4434, "uniformAndStorageBuffer16BitAccess",
     [](S s) { return s.features.uniform_buffer_16bit; }},
    {4435, "storagePushConstant16", [](S s) { return s.features.push_constant_16bit; }},
    {4448, "storageBuffer8BitAccess", [](S s) { return s.features.storage_buffer_8bit; }},
    {4449, "uniformAndStorageBuffer8BitAccess", [](S s) { return s.features.uniform_buffer_8bit; }},
    {4450, "storagePushConstant8", [](S s) { return s.features.push_constant_8bit; }},
    {5345, "vulkanMemoryModel", [](S s) { return s.features.vulkan_memory_model; }},
    {5346, "vulkanMemoryModelDeviceScope",
     [](S s) { return s.features.vulkan_memory_model_device_scope; }},
    {6016, kDotProduct, DotProduct},
    {6017, kDotProduct, DotProduct},
    {6018, kDotProduct, DotProduct},
    {6019, kDotProduct, DotProduct},
    {6022, "cooperativeMatrix (VK_KHR_cooperative_matrix)",
     [](S s) { return s.features.cooperative_matrix; }},
};

/*! \brief "1.5" of 0x10500. */
std::string SpirvVersion(uint32_t version) {
  return std::to_string(version >> 16 & 0xff) + "." + std::to_string(version >> 8 & 0xff);
}

std::string ProductName(uint32_t m, uint32_t n, uint32_t k, const std::string& a,
                        const std::string& b, const std::string& c, const std::string& result) {
  std::string factors = a == b ? a : a + " and " + b;
  std::string sums = c == result ? c : c + " into " + result;
  return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " of " + factors +
         " added up in " + sums;
}

std::string ProductName(const MatrixProduct& p) {
  return ProductName(p.m, p.n, p.k, p.a.Name(), p.b.Name(), p.c.Name(), p.result.Name());
}

std::string ProductName(const CooperativeMatrixShape& s) {
  return ProductName(s.m, s.n, s.k, ComponentTypeName(s.a_type), ComponentTypeName(s.b_type),
                     ComponentTypeName(s.c_type), ComponentTypeName(s.result_type));
}

void CompareMatrices(S s, K code, std::vector<UnmetNeed>* unmet) {
  // Told again for what saturates; without the feature its capability says so.
  std::set<std::string> here;
  for (const CooperativeMatrixShape& shape : s.cooperative_matrix_shapes) {
    here.insert(ProductName(shape));
  }
  if (!s.features.cooperative_matrix) return;
  std::string list;
  for (const std::string& name : here) list += (list.empty() ? "" : ", ") + name;
  for (const MatrixProduct& product : code.interface.products) {
    std::string name = ProductName(product);
    if (here.count(name) != 0) continue;
    unmet->push_back({"cooperative matrices of " + name, list.empty() ? "none" : list});
  }
}

void CompareSubgroup(S s, K code, std::vector<UnmetNeed>* unmet) {
  const std::string& type = code.interface.extended_subgroup_type;
  if (!type.empty() && !s.features.subgroup_extended_types) {
    unmet->push_back({"subgroup operations on " + type + " (shaderSubgroupExtendedTypes)", "none"});
  }
  uint32_t size = code.subgroup_size;
  if (size == 0 || size == s.subgroup_size || code.subgroup_preferred) return;
  if (CanRequireSubgroupSize(s, size)) return;
  bool choice = s.features.subgroup_size_control && s.min_subgroup_size != s.max_subgroup_size;
  std::string found =
      choice ? std::to_string(s.min_subgroup_size) + " to " + std::to_string(s.max_subgroup_size)
             : std::to_string(s.subgroup_size);
  unmet->push_back({"subgroups of " + std::to_string(size) + " lanes", found});
}

/*! \brief Refuse what no device could run. */
void CheckSound(K code) {
  const char* again = "; compile the network again";
  for (int axis = 0; axis < 3; ++axis) {
    if (code.interface.local_size[axis] != 0) continue;
    TVM_VISION_THROW(DeviceError) << "the shader of kernel " << code.name
                                  << " has no invocation in axis " << axis << again;
  }
  for (const auto& [binding, access] : code.interface.bindings) {
    if (binding < code.num_buffers + (code.scalars_in_uniform_buffer ? 1 : 0)) continue;
    TVM_VISION_THROW(DeviceError) << "the shader of kernel " << code.name << " uses binding "
                                  << binding << ", but the kernel has " << code.num_buffers
                                  << " buffers" << again;
  }
}

}  // namespace

std::string MissingForCapability(S s, uint32_t capability) {
  for (const CapabilityRow& row : kCapabilities) {
    if (row.capability == capability) return row.found(s) ? "" : row.feature;
  }
  return "SPIR-V capability " + std::to_string(capability);
}

bool CanRequireSubgroupSize(S s, uint32_t lanes) {
  return s.features.subgroup_size_control && lanes >= s.min_subgroup_size &&
         lanes <= s.max_subgroup_size;
}

std::vector<UnmetNeed> UnmetNeeds(S s, K code) {
  std::vector<UnmetNeed> unmet;
  for (const NumberRow& row : kNumbers) {
    uint64_t needed = row.needed(code), found = row.found(s);
    if (needed <= found) continue;
    unmet.push_back(
        {std::to_string(needed) + " " + row.unit, std::to_string(found) + " (" + row.limit + ")"});
  }
  std::set<std::string> missing;  // one feature may allow several capabilities
  for (uint32_t capability : code.interface.capabilities) {
    std::string feature = MissingForCapability(s, capability);
    if (!feature.empty() && missing.insert(feature).second) unmet.push_back({feature, "none"});
  }
  if (code.interface.version > MaxSpirvVersion(s)) {
    unmet.push_back(
        {"SPIR-V " + SpirvVersion(code.interface.version), SpirvVersion(MaxSpirvVersion(s))});
  }
  CompareSubgroup(s, code, &unmet);
  CompareMatrices(s, code, &unmet);
  return unmet;
}

void CheckRunnable(S s, const std::vector<const KernelCode*>& kernels) {
  std::string first;
  size_t others = 0;
  for (const KernelCode* code : kernels) {
    CheckSound(*code);
    std::vector<UnmetNeed> unmet = UnmetNeeds(s, *code);
    if (unmet.empty()) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    first = "kernel " + code->name + " cannot run on " + s.name + " (" + s.driver_name + "): ";
    for (const UnmetNeed& need : unmet) {
      first += "needed " + need.needed + ", found " + need.found + "; ";
    }
  }
  if (first.empty()) return;
  if (others != 0) {
    first += "nor can " + std::to_string(others) + (others == 1 ? " other; " : " others; ");
  }
  TVM_VISION_THROW(DeviceError)
      << first
      << "compile the network for this device: with --target vulkan here, or elsewhere with "
         "--target robot.json, which 'tvm-vision devices --export robot.json' writes here";
}

}  // namespace vulkan
}  // namespace tvm_vision
