#include "device_handle.h"

#include "device_features.h"

namespace tvm_vision {
namespace vulkan {

DeviceHandle::DeviceHandle(std::shared_ptr<Instance> owner, size_t index, DevicePlan made,
                           DeviceOptions given)
    : instance(std::move(owner)),
      physical_index(index),
      plan(std::move(made)),
      options(std::move(given)) {
  const DeviceSnapshot& s = snapshot();
  DeviceFeatures f = s.features;
  FeatureChain chain(s.api_version, f.subgroup_size_control, f.integer_dot_product,
                     f.cooperative_matrix);
  chain.Each(&f, [](VkBool32& asked, bool& has) { asked = has; });

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
  info.pNext = &chain.head;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VK_CHECK("opening " + s.name, instance->fn(), vkCreateDevice, instance->physical(physical_index),
           &info, nullptr, &vk);
  fn.Load(instance->fn(), vk);
}

DeviceHandle::~DeviceHandle() {
  if (vk != VK_NULL_HANDLE) fn.vkDestroyDevice(vk, nullptr);
}

}  // namespace vulkan
}  // namespace tvm_vision
