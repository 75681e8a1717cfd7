/*!
 * \file smaller_loader.cc
 * \brief A Vulkan loader that passes everything on to the real one, and describes its devices as
 * smaller than they are.
 *
 * TVM_VISION_VULKAN_LOADER names it. What a device then allows is still what it really allows, so
 * that a test sees whether the library compares before it asks.
 */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

namespace {

/*! \brief Most of what there is, by the specification's name: SMALLER_LOADER=name=number,... */
template <typename T>
void Shrink(const std::string& name, T* value) {
  const char* limits = std::getenv("SMALLER_LOADER");
  std::stringstream list(limits == nullptr ? "" : limits);
  for (std::string limit; std::getline(list, limit, ',');) {
    size_t sign = limit.find('=');
    if (limit.substr(0, sign) != name) continue;
    *value = static_cast<T>(std::min<uint64_t>(*value, std::stoull(limit.substr(sign + 1))));
  }
}

#define SHRINK(structure, field) Shrink(#field, &(structure).field)

void ShrinkBasic(VkPhysicalDeviceProperties* p) {
  SHRINK(*p, apiVersion);
  VkPhysicalDeviceLimits& limits = p->limits;
  Shrink("maxComputeWorkGroupSize.x", &limits.maxComputeWorkGroupSize[0]);
  Shrink("maxComputeWorkGroupSize.y", &limits.maxComputeWorkGroupSize[1]);
  Shrink("maxComputeWorkGroupSize.z", &limits.maxComputeWorkGroupSize[2]);
  SHRINK(limits, maxComputeWorkGroupInvocations);
  SHRINK(limits, maxComputeSharedMemorySize);
  SHRINK(limits, maxPerStageDescriptorStorageBuffers);
  SHRINK(limits, maxPushConstantsSize);
  SHRINK(limits, maxUniformBufferRange);
}

/*! \brief The structures of a chain, by their type. */
template <typename T, typename Change>
void ForEach(void* chain, VkStructureType type, Change change) {
  for (auto* at = static_cast<VkBaseOutStructure*>(chain); at != nullptr; at = at->pNext) {
    if (at->sType == type) change(reinterpret_cast<T*>(at));
  }
}

PFN_vkGetPhysicalDeviceProperties real_properties;
PFN_vkGetPhysicalDeviceProperties2 real_properties2;
PFN_vkGetPhysicalDeviceFeatures2 real_features2;
PFN_vkGetPhysicalDeviceQueueFamilyProperties real_queues;
PFN_vkEnumerateInstanceVersion real_version;
PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT real_domains;

void VKAPI_CALL Properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* found) {
  real_properties(device, found);
  ShrinkBasic(found);
}

void VKAPI_CALL Properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* found) {
  real_properties2(device, found);
  ShrinkBasic(&found->properties);
  ForEach<VkPhysicalDeviceSubgroupProperties>(found->pNext,
                                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                              [](VkPhysicalDeviceSubgroupProperties* p) {
                                                SHRINK(*p, subgroupSize);
                                                SHRINK(*p, supportedOperations);
                                              });
  ForEach<VkPhysicalDeviceSubgroupSizeControlProperties>(
      found->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
      [](VkPhysicalDeviceSubgroupSizeControlProperties* p) {
        Shrink("subgroupSize", &p->minSubgroupSize);
        Shrink("subgroupSize", &p->maxSubgroupSize);
      });
}

void VKAPI_CALL Features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* found) {
  real_features2(device, found);
  SHRINK(found->features, shaderInt16);
  SHRINK(found->features, shaderInt64);
  SHRINK(found->features, shaderFloat64);
  ForEach<VkPhysicalDeviceVulkan11Features>(
      found->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
      [](VkPhysicalDeviceVulkan11Features* f) { SHRINK(*f, storageBuffer16BitAccess); });
  ForEach<VkPhysicalDeviceVulkan12Features>(found->pNext,
                                            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            [](VkPhysicalDeviceVulkan12Features* f) {
                                              SHRINK(*f, shaderFloat16);
                                              SHRINK(*f, shaderInt8);
                                              SHRINK(*f, storageBuffer8BitAccess);
                                              SHRINK(*f, shaderSubgroupExtendedTypes);
                                              SHRINK(*f, timelineSemaphore);
                                            });
  ForEach<VkPhysicalDeviceShaderIntegerDotProductFeatures>(
      found->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
      [](VkPhysicalDeviceShaderIntegerDotProductFeatures* f) {
        SHRINK(*f, shaderIntegerDotProduct);
      });
}

void VKAPI_CALL Queues(VkPhysicalDevice device, uint32_t* count, VkQueueFamilyProperties* found) {
  real_queues(device, count, found);
  for (uint32_t i = 0; found != nullptr && i < *count; ++i) SHRINK(found[i], queueFlags);
}

/*! \brief How many clocks can be read beside each other: the device's comes first. */
VkResult VKAPI_CALL TimeDomains(VkPhysicalDevice device, uint32_t* count, VkTimeDomainEXT* found) {
  VkResult result = real_domains(device, count, found);
  Shrink("timeDomains", count);
  return result == VK_INCOMPLETE ? VK_SUCCESS : result;
}

VkResult VKAPI_CALL Version(uint32_t* found) {
  VkResult result = real_version(found);
  Shrink("instanceVersion", found);
  return result;
}

/*! \brief `ours` for the function of that name, behind which `real` lies. */
template <typename F>
PFN_vkVoidFunction Between(F* real, PFN_vkVoidFunction found, F ours) {
  *real = reinterpret_cast<F>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(ours);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  static auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(
      dlsym(dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL), "vkGetInstanceProcAddr"));
  PFN_vkVoidFunction found = get(instance, name);
  std::string wanted = found == nullptr ? "" : name;
  if (wanted == "vkGetPhysicalDeviceProperties") {
    return Between(&real_properties, found, &Properties);
  }
  if (wanted == "vkGetPhysicalDeviceProperties2") {
    return Between(&real_properties2, found, &Properties2);
  }
  if (wanted == "vkGetPhysicalDeviceFeatures2") return Between(&real_features2, found, &Features2);
  if (wanted == "vkGetPhysicalDeviceQueueFamilyProperties") {
    return Between(&real_queues, found, &Queues);
  }
  if (wanted == "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT") {
    return Between(&real_domains, found, &TimeDomains);
  }
  if (wanted == "vkEnumerateInstanceVersion") return Between(&real_version, found, &Version);
  return found;
}
}  // extern "C"
