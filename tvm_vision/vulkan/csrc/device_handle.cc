#include "device_handle.h"

namespace tvm_vision {
namespace vulkan {

DeviceHandle::DeviceHandle(std::shared_ptr<Instance> owner, size_t index, DevicePlan made)
    : instance(std::move(owner)), physical_index(index), plan(std::move(made)) {
  const DeviceSnapshot& s = snapshot();
  const DeviceFeatures& f = s.features;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.features.shaderInt16 = f.shader_int16;
  features.features.shaderInt64 = f.shader_int64;
  features.features.shaderFloat64 = f.shader_float64;
  VkPhysicalDeviceVulkan11Features v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v11.storageBuffer16BitAccess = f.storage_buffer_16bit;
  v11.uniformAndStorageBuffer16BitAccess = f.uniform_buffer_16bit;
  v11.storagePushConstant16 = f.push_constant_16bit;
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  v12.shaderFloat16 = f.shader_float16;
  v12.shaderInt8 = f.shader_int8;
  v12.storageBuffer8BitAccess = f.storage_buffer_8bit;
  v12.uniformAndStorageBuffer8BitAccess = f.uniform_buffer_8bit;
  v12.storagePushConstant8 = f.push_constant_8bit;
  v12.vulkanMemoryModel = f.vulkan_memory_model;
  v12.vulkanMemoryModelDeviceScope = f.vulkan_memory_model_device_scope;
  v12.shaderSubgroupExtendedTypes = f.subgroup_extended_types;
  v12.timelineSemaphore = VK_TRUE;
  features.pNext = &v11;
  v11.pNext = &v12;
  void** tail = &v12.pNext;

  VkPhysicalDeviceSubgroupSizeControlFeatures size_control{};
  size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  size_control.subgroupSizeControl = f.subgroup_size_control;
  size_control.computeFullSubgroups = f.compute_full_subgroups;
  if (f.subgroup_size_control) {
    *tail = &size_control;
    tail = &size_control.pNext;
  }
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
  dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  dot.shaderIntegerDotProduct = VK_TRUE;
  if (f.integer_dot_product) {
    *tail = &dot;
    tail = &dot.pNext;
  }
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};
  matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  matrix.cooperativeMatrix = VK_TRUE;
  if (f.cooperative_matrix) {
    *tail = &matrix;
    tail = &matrix.pNext;
  }

  float priority = 1.0f;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = plan.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  std::vector<const char*> extensions;
  for (const std::string& name : plan.enabled_extensions) extensions.push_back(name.c_str());
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VK_CHECK(s.name,
           instance->fn().vkCreateDevice(instance->physical(physical_index), &info, nullptr, &vk));
  fn.Load(instance->fn(), vk);
}

DeviceHandle::~DeviceHandle() {
  if (vk != VK_NULL_HANDLE) fn.vkDestroyDevice(vk, nullptr);
}

}  // namespace vulkan
}  // namespace tvm_vision
