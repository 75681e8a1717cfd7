#include "device_snapshot.h"

#include <algorithm>
#include <cstring>

#include "device_features.h"

namespace tvm_vision {
namespace vulkan {

namespace {

/*! \brief Links structures into a pNext chain, in any number, without naming each link. */
class Chain {
 public:
  explicit Chain(void** head) : tail_(head) {}
  template <typename T>
  void Add(T* structure) {
    *tail_ = structure;
    tail_ = &structure->pNext;
  }

 private:
  void** tail_;
};

template <typename T>
T Tagged(VkStructureType type) {
  T structure;
  std::memset(&structure, 0, sizeof(structure));
  structure.sType = type;
  return structure;
}

std::vector<std::string> ReadExtensions(const InstanceFunctions& fn, VkPhysicalDevice physical) {
  uint32_t count = 0;
  VK_CHECK("listing extensions", fn, vkEnumerateDeviceExtensionProperties, physical, nullptr,
           &count, nullptr);
  std::vector<VkExtensionProperties> properties(count);
  VK_CHECK("listing extensions", fn, vkEnumerateDeviceExtensionProperties, physical, nullptr,
           &count, properties.data());
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.emplace_back(properties[i].extensionName);
  return names;
}

void ReadLimits(const VkPhysicalDeviceLimits& limits, DeviceSnapshot* s) {
  s->max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  std::copy_n(limits.maxComputeWorkGroupSize, 3, s->max_workgroup_size.begin());
  std::copy_n(limits.maxComputeWorkGroupCount, 3, s->max_workgroup_count.begin());
  s->max_shared_memory = limits.maxComputeSharedMemorySize;
  s->max_push_constants = limits.maxPushConstantsSize;
  s->max_uniform_buffer_range = limits.maxUniformBufferRange;
  s->max_storage_buffer_range = limits.maxStorageBufferRange;
  s->max_storage_buffers_per_stage = limits.maxPerStageDescriptorStorageBuffers;
  s->max_allocation_count = limits.maxMemoryAllocationCount;
  s->min_storage_buffer_alignment = limits.minStorageBufferOffsetAlignment;
  s->min_uniform_buffer_alignment = limits.minUniformBufferOffsetAlignment;
  s->non_coherent_atom_size = limits.nonCoherentAtomSize;
  s->timestamp_period = limits.timestampPeriod;
}

bool HasDotProduct(const DeviceSnapshot& s) {
  return s.api_version >= VK_API_VERSION_1_3 ||
         s.HasExtension(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
}

void ReadProperties(const InstanceFunctions& fn, VkPhysicalDevice physical, DeviceSnapshot* s) {
  auto head = Tagged<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  Chain chain(&head.pNext);
  auto id = Tagged<VkPhysicalDeviceIDProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  auto subgroup = Tagged<VkPhysicalDeviceSubgroupProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  auto maintenance3 = Tagged<VkPhysicalDeviceMaintenance3Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  auto driver =
      Tagged<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  auto size_control = Tagged<VkPhysicalDeviceSubgroupSizeControlProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  auto nvidia = Tagged<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  auto amd = Tagged<VkPhysicalDeviceShaderCorePropertiesAMD>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
  auto amd2 = Tagged<VkPhysicalDeviceShaderCoreProperties2AMD>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD);
  auto arm = Tagged<VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM);
  auto dot_product = Tagged<VkPhysicalDeviceShaderIntegerDotProductProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
  chain.Add(&id);
  chain.Add(&subgroup);
  chain.Add(&maintenance3);
  bool core12 = s->api_version >= VK_API_VERSION_1_2;
  bool has_size_control = s->api_version >= VK_API_VERSION_1_3 ||
                          s->HasExtension(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (core12) chain.Add(&driver);
  if (has_size_control) chain.Add(&size_control);
  if (HasDotProduct(*s)) chain.Add(&dot_product);
  if (s->HasExtension(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) chain.Add(&nvidia);
  if (s->HasExtension(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) chain.Add(&amd);
  if (s->HasExtension(VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME)) chain.Add(&amd2);
  if (s->HasExtension(VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME)) chain.Add(&arm);
  fn.vkGetPhysicalDeviceProperties2(physical, &head);

  std::copy_n(id.deviceUUID, VK_UUID_SIZE, s->device_uuid.begin());
  s->subgroup_size = std::max(1u, subgroup.subgroupSize);
  s->subgroup_operations = subgroup.supportedOperations;
  s->subgroup_in_compute = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  s->max_allocation_size = maintenance3.maxMemoryAllocationSize;
  s->driver_name = OneLine(driver.driverName);
  s->driver_info = OneLine(driver.driverInfo);
  s->min_subgroup_size = has_size_control ? size_control.minSubgroupSize : s->subgroup_size;
  s->max_subgroup_size = has_size_control ? size_control.maxSubgroupSize : s->subgroup_size;
  bool compute_size_control = has_size_control && (size_control.requiredSubgroupSizeStages &
                                                   VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  s->features.subgroup_size_control = compute_size_control;
  s->fast_dot_product = dot_product.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
  // At most one of them is there.
  uint32_t amd_units =
      amd2.activeComputeUnitCount != 0
          ? amd2.activeComputeUnitCount
          : amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
  s->compute_units = nvidia.shaderSMCount + amd_units + arm.shaderCoreCount;
  s->unit_schedulers = amd.simdPerComputeUnit;
  s->unit_registers = amd.simdPerComputeUnit * amd.vgprsPerSimd * amd.wavefrontSize;
  s->unit_threads = amd.simdPerComputeUnit * amd.wavefrontsPerSimd * amd.wavefrontSize +
                    (nvidia.shaderWarpsPerSM + arm.shaderWarpsPerCore) * s->subgroup_size;
}

void ReadFeatures(const InstanceFunctions& fn, VkPhysicalDevice physical, DeviceSnapshot* s) {
  bool core13 = s->api_version >= VK_API_VERSION_1_3;
  FeatureChain chain(s->api_version,
                     core13 || s->HasExtension(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME),
                     HasDotProduct(*s), s->HasExtension(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME));
  fn.vkGetPhysicalDeviceFeatures2(physical, &chain.head);
  DeviceFeatures* f = &s->features;
  bool size_of_compute = f->subgroup_size_control;
  chain.Each(f, [](VkBool32& reported, bool& has) { has = reported == VK_TRUE; });
  f->subgroup_size_control = f->subgroup_size_control && size_of_compute;
  f->cooperative_matrix = f->cooperative_matrix && f->vulkan_memory_model;
}

void ReadMemory(const InstanceFunctions& fn, VkPhysicalDevice physical, DeviceSnapshot* s) {
  VkPhysicalDeviceMemoryProperties memory;
  fn.vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  s->memory_types.assign(memory.memoryTypes, memory.memoryTypes + memory.memoryTypeCount);
  s->memory_heaps.assign(memory.memoryHeaps, memory.memoryHeaps + memory.memoryHeapCount);
}

void ReadQueues(const InstanceFunctions& fn, VkPhysicalDevice physical, DeviceSnapshot* s) {
  uint32_t count = 0;
  fn.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  s->queue_families.resize(count);
  fn.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, s->queue_families.data());
}

/*! \brief The extension that reads the device's clock together with the host's, if it can. */
std::string ReadClockExtension(const InstanceFunctions& fn, VkPhysicalDevice physical,
                               const DeviceSnapshot& s) {
  if (fn.vkGetPhysicalDeviceCalibrateableTimeDomainsEXT == nullptr) return "";
  for (const char* name : {VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME, kCalibratedTimestampsKhr}) {
    if (!s.HasExtension(name)) continue;
    uint32_t count = 0;
    auto read = fn.vkGetPhysicalDeviceCalibrateableTimeDomainsEXT;
    // Who does not tell has none: traces are then less exact, and all else is as it was.
    if (read(physical, &count, nullptr) != VK_SUCCESS) continue;
    std::vector<VkTimeDomainEXT> domains(count);
    if (read(physical, &count, domains.data()) < VK_SUCCESS) continue;
    domains.resize(count);
    auto has = [&](VkTimeDomainEXT domain) {
      return std::find(domains.begin(), domains.end(), domain) != domains.end();
    };
    if (has(VK_TIME_DOMAIN_DEVICE_EXT) && has(VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT)) return name;
  }
  return "";
}

void ReadMatrixShapes(const InstanceFunctions& fn, VkPhysicalDevice physical, DeviceSnapshot* s) {
  uint32_t count = 0;
  VK_CHECK("asking " + s->name, fn, vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, physical,
           &count, nullptr);
  std::vector<VkCooperativeMatrixPropertiesKHR> shapes(
      count, Tagged<VkCooperativeMatrixPropertiesKHR>(
                 VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR));
  VK_CHECK("asking " + s->name, fn, vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, physical,
           &count, shapes.data());
  for (const VkCooperativeMatrixPropertiesKHR& p : shapes) {
    if (p.scope != VK_SCOPE_SUBGROUP_KHR) continue;
    s->cooperative_matrix_shapes.push_back(
        {p.MSize, p.NSize, p.KSize, static_cast<uint32_t>(p.AType), static_cast<uint32_t>(p.BType),
         static_cast<uint32_t>(p.CType), static_cast<uint32_t>(p.ResultType)});
  }
}

}  // namespace

DeviceSnapshot TakeSnapshot(const InstanceFunctions& fn, VkPhysicalDevice physical) {
  DeviceSnapshot s;
  VkPhysicalDeviceProperties basic;
  fn.vkGetPhysicalDeviceProperties(physical, &basic);
  s.name = OneLine(basic.deviceName);
  s.type = basic.deviceType;
  s.vendor_id = basic.vendorID;
  s.device_id = basic.deviceID;
  s.api_version = basic.apiVersion;
  s.driver_version = basic.driverVersion;
  std::copy_n(basic.pipelineCacheUUID, VK_UUID_SIZE, s.pipeline_cache_uuid.begin());
  ReadLimits(basic.limits, &s);
  s.extensions = ReadExtensions(fn, physical);
  ReadProperties(fn, physical, &s);
  ReadFeatures(fn, physical, &s);
  ReadMemory(fn, physical, &s);
  ReadQueues(fn, physical, &s);
  s.clock_extension = ReadClockExtension(fn, physical, s);
  if (s.features.cooperative_matrix &&
      fn.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR != nullptr) {
    ReadMatrixShapes(fn, physical, &s);
  }
  return s;
}

}  // namespace vulkan
}  // namespace tvm_vision
