/*!
 * \file vk_api.h
 * \brief The Vulkan loader, opened at run time, and the one error check of this library.
 *
 * The loader is opened with dlopen, never linked: a machine without Vulkan still imports the
 * package and is told which Debian package is missing.
 */
#ifndef TVM_VISION_VULKAN_VK_API_H_
#define TVM_VISION_VULKAN_VK_API_H_

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include <string>

#include "error.h"

// VK_KHR_cooperative_matrix came with headers 1.3.255; Debian 12 and Ubuntu 22.04 carry older ones.
// The values below are those of the registered extension.
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_cooperative_matrix 1
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR \
  static_cast<VkStructureType>(1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR static_cast<VkStructureType>(1000506001)
typedef enum VkComponentTypeKHR {
  VK_COMPONENT_TYPE_FLOAT16_KHR = 0,
  VK_COMPONENT_TYPE_FLOAT32_KHR = 1,
  VK_COMPONENT_TYPE_FLOAT64_KHR = 2,
  VK_COMPONENT_TYPE_SINT8_KHR = 3,
  VK_COMPONENT_TYPE_SINT16_KHR = 4,
  VK_COMPONENT_TYPE_SINT32_KHR = 5,
  VK_COMPONENT_TYPE_SINT64_KHR = 6,
  VK_COMPONENT_TYPE_UINT8_KHR = 7,
  VK_COMPONENT_TYPE_UINT16_KHR = 8,
  VK_COMPONENT_TYPE_UINT32_KHR = 9,
  VK_COMPONENT_TYPE_UINT64_KHR = 10,
  VK_COMPONENT_TYPE_MAX_ENUM_KHR = 0x7FFFFFFF
} VkComponentTypeKHR;
typedef enum VkScopeKHR {
  VK_SCOPE_SUBGROUP_KHR = 3,
  VK_SCOPE_MAX_ENUM_KHR = 0x7FFFFFFF
} VkScopeKHR;
typedef struct VkCooperativeMatrixPropertiesKHR {
  VkStructureType sType;
  void* pNext;
  uint32_t MSize;
  uint32_t NSize;
  uint32_t KSize;
  VkComponentTypeKHR AType;
  VkComponentTypeKHR BType;
  VkComponentTypeKHR CType;
  VkComponentTypeKHR ResultType;
  VkBool32 saturatingAccumulation;
  VkScopeKHR scope;
} VkCooperativeMatrixPropertiesKHR;
typedef struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
typedef VkResult(VKAPI_PTR* PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(
    VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*);
#endif

// The later name of VK_EXT_calibrated_timestamps, which is otherwise the same.
constexpr const char* kCalibratedTimestampsKhr = "VK_KHR_calibrated_timestamps";

// clang-format off
#define TVM_VISION_VK_GLOBAL_FUNCTIONS(F) \
  F(vkCreateInstance) \
  F(vkEnumerateInstanceLayerProperties) F(vkEnumerateInstanceVersion)

#define TVM_VISION_VK_INSTANCE_FUNCTIONS(F) \
  F(vkDestroyInstance) F(vkEnumeratePhysicalDevices) F(vkEnumerateDeviceExtensionProperties) \
  F(vkGetPhysicalDeviceProperties) F(vkGetPhysicalDeviceProperties2) \
  F(vkGetPhysicalDeviceFeatures2) F(vkGetPhysicalDeviceMemoryProperties) \
  F(vkGetPhysicalDeviceMemoryProperties2) F(vkGetPhysicalDeviceQueueFamilyProperties) \
  F(vkCreateDevice) F(vkGetDeviceProcAddr) F(vkGetPhysicalDeviceCalibrateableTimeDomainsEXT) \
  F(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR) F(vkCreateDebugUtilsMessengerEXT) \
  F(vkDestroyDebugUtilsMessengerEXT)

#define TVM_VISION_VK_DEVICE_FUNCTIONS(F) \
  F(vkDestroyDevice) F(vkGetDeviceQueue) F(vkDeviceWaitIdle) F(vkQueueSubmit) \
  F(vkAllocateMemory) F(vkFreeMemory) F(vkMapMemory) F(vkCreateBuffer) F(vkDestroyBuffer) F(vkBindBufferMemory) \
  F(vkGetBufferMemoryRequirements) F(vkCreateCommandPool) F(vkDestroyCommandPool) \
  F(vkResetCommandPool) F(vkAllocateCommandBuffers) F(vkBeginCommandBuffer) F(vkEndCommandBuffer) \
  F(vkCmdPipelineBarrier) F(vkCmdCopyBuffer) F(vkCmdBindPipeline) F(vkCmdBindDescriptorSets) \
  F(vkCmdPushConstants) F(vkCmdDispatch) F(vkCmdResetQueryPool) F(vkCmdWriteTimestamp) \
  F(vkCreateQueryPool) F(vkDestroyQueryPool) F(vkGetQueryPoolResults) F(vkCreateSemaphore) \
  F(vkDestroySemaphore) F(vkWaitSemaphores) F(vkGetSemaphoreCounterValue) \
  F(vkCreateShaderModule) F(vkDestroyShaderModule) F(vkCreateDescriptorSetLayout) \
  F(vkDestroyDescriptorSetLayout) F(vkCreatePipelineLayout) F(vkDestroyPipelineLayout) \
  F(vkCreateComputePipelines) F(vkDestroyPipeline) F(vkCreatePipelineCache) \
  F(vkDestroyPipelineCache) F(vkGetPipelineCacheData) F(vkCreateDescriptorPool) \
  F(vkDestroyDescriptorPool) F(vkResetDescriptorPool) F(vkAllocateDescriptorSets) \
  F(vkUpdateDescriptorSets) F(vkGetCalibratedTimestampsEXT)
// clang-format on

namespace tvm_vision {
namespace vulkan {

#define TVM_VISION_VK_DECLARE(name) PFN_##name name = nullptr;

/*! \brief Entry points that need no instance; loaded once, kept for the life of the process. */
struct GlobalFunctions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  /*! \brief The newest Vulkan that the loader speaks. */
  uint32_t version = VK_API_VERSION_1_0;
  TVM_VISION_VK_GLOBAL_FUNCTIONS(TVM_VISION_VK_DECLARE)
};

/*! \brief Entry points of one VkInstance. */
struct InstanceFunctions {
  TVM_VISION_VK_INSTANCE_FUNCTIONS(TVM_VISION_VK_DECLARE)
  void Load(const GlobalFunctions& global, VkInstance instance);
};

/*! \brief Entry points of one VkDevice, free of the loader's dispatch. */
struct DeviceFunctions {
  TVM_VISION_VK_DEVICE_FUNCTIONS(TVM_VISION_VK_DECLARE)
  void Load(const InstanceFunctions& instance, VkDevice device);
};

#undef TVM_VISION_VK_DECLARE

/*! \brief Of a file that was named. */
constexpr const char* kNotThere = "is not there";

/*! \brief What dlopen said of a library last: kNotThere, or "cannot be loaded (…)". */
std::string CannotBeLoaded(const std::string& path);

/*!
 * \brief Open the Vulkan loader, once: later calls give what the first that went well has found.
 * \param path The library.
 * \param error Receives one line (what is missing, which package brings it) when nullptr comes
 * back.
 * \return The entry points, owned by the process, or nullptr.
 */
const GlobalFunctions* LoadVulkan(const std::string& path, std::string* error);

/*! \brief Name of a VkResult as the specification spells it. */
const char* ResultName(VkResult result);

/*! \brief What a user can do about a failed call; empty where nothing general can be said. */
const char* ResultRemedy(VkResult result);

/*! \brief Raise DeviceError, or DeviceLostError, saying what was being done, the function and its
 * result, unless that is success. */
void CheckResult(VkResult result, const char* function, const std::string& doing);

}  // namespace vulkan
}  // namespace tvm_vision

/*!
 * \brief Call a Vulkan function of a table of entry points; raise DeviceError on failure.
 * \param doing Text that says what is being done, and for what, for example "opening llvmpipe".
 */
#define VK_CHECK(doing, table, function, ...)                                \
  do {                                                                       \
    VkResult vk_check_result_ = (table).function(__VA_ARGS__);               \
    if (vk_check_result_ != VK_SUCCESS) {                                    \
      ::tvm_vision::vulkan::CheckResult(vk_check_result_, #function, doing); \
    }                                                                        \
  } while (0)

#endif  // TVM_VISION_VULKAN_VK_API_H_
