#include "vk_api.h"

#include <dlfcn.h>

namespace tvm_vision {
namespace vulkan {

const GlobalFunctions* LoadVulkan(const std::string& path, std::string* error) {
  static std::string load_error;
  static const GlobalFunctions* functions = [&]() -> const GlobalFunctions* {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      load_error = "the Vulkan loader " + path +
                   " is not installed; install the package libvulkan1 and a driver "
                   "(mesa-vulkan-drivers for Intel, AMD and the CPU)";
      return nullptr;
    }
    // The handle is never closed: drivers keep threads and exit handlers of their own.
    static GlobalFunctions table;
    table.vkGetInstanceProcAddr =
        reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
    if (table.vkGetInstanceProcAddr == nullptr) {
      load_error = path + " has no vkGetInstanceProcAddr; reinstall the package libvulkan1";
      return nullptr;
    }
#define TVM_VISION_VK_LOAD(name) \
  table.name = reinterpret_cast<PFN_##name>(table.vkGetInstanceProcAddr(nullptr, #name));
    TVM_VISION_VK_GLOBAL_FUNCTIONS(TVM_VISION_VK_LOAD)
#undef TVM_VISION_VK_LOAD
    if (table.vkEnumerateInstanceVersion == nullptr) {
      load_error = "the Vulkan loader speaks Vulkan 1.0 only, 1.2 is needed; upgrade libvulkan1";
      return nullptr;
    }
    return &table;
  }();
  if (functions == nullptr && error != nullptr) *error = load_error;
  return functions;
}

void InstanceFunctions::Load(const GlobalFunctions& global, VkInstance instance) {
#define TVM_VISION_VK_LOAD(name) \
  name = reinterpret_cast<PFN_##name>(global.vkGetInstanceProcAddr(instance, #name));
  TVM_VISION_VK_INSTANCE_FUNCTIONS(TVM_VISION_VK_LOAD)
#undef TVM_VISION_VK_LOAD
}

void DeviceFunctions::Load(const InstanceFunctions& instance, VkDevice device) {
#define TVM_VISION_VK_LOAD(name) \
  name = reinterpret_cast<PFN_##name>(instance.vkGetDeviceProcAddr(device, #name));
  TVM_VISION_VK_DEVICE_FUNCTIONS(TVM_VISION_VK_LOAD)
#undef TVM_VISION_VK_LOAD
}

const char* ResultName(VkResult result) {
  switch (result) {
#define TVM_VISION_VK_NAME(value) \
  case value:                     \
    return #value;
    TVM_VISION_VK_NAME(VK_SUCCESS)
    TVM_VISION_VK_NAME(VK_NOT_READY)
    TVM_VISION_VK_NAME(VK_TIMEOUT)
    TVM_VISION_VK_NAME(VK_INCOMPLETE)
    TVM_VISION_VK_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    TVM_VISION_VK_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    TVM_VISION_VK_NAME(VK_ERROR_INITIALIZATION_FAILED)
    TVM_VISION_VK_NAME(VK_ERROR_DEVICE_LOST)
    TVM_VISION_VK_NAME(VK_ERROR_MEMORY_MAP_FAILED)
    TVM_VISION_VK_NAME(VK_ERROR_LAYER_NOT_PRESENT)
    TVM_VISION_VK_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    TVM_VISION_VK_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    TVM_VISION_VK_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    TVM_VISION_VK_NAME(VK_ERROR_TOO_MANY_OBJECTS)
    TVM_VISION_VK_NAME(VK_ERROR_FRAGMENTED_POOL)
    TVM_VISION_VK_NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
    TVM_VISION_VK_NAME(VK_ERROR_FRAGMENTATION)
    TVM_VISION_VK_NAME(VK_ERROR_UNKNOWN)
#undef TVM_VISION_VK_NAME
    default:
      return "an unnamed VkResult";
  }
}

const char* ResultRemedy(VkResult result) {
  switch (result) {
    case VK_ERROR_DEVICE_LOST:
      return "; the GPU was reset or a kernel ran too long: load the network again or restart the "
             "process, and see the kernel log for the driver's reason";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "; free tensors or use a smaller batch";
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "; check the driver with vulkaninfo --summary";
    default:
      return "";
  }
}

void CheckResult(VkResult result, const char* function, const std::string& doing) {
  if (result == VK_SUCCESS) return;
  TVM_VISION_THROW(DeviceError) << doing << ": " << function << " gave " << ResultName(result)
                                << ResultRemedy(result);
}

}  // namespace vulkan
}  // namespace tvm_vision
