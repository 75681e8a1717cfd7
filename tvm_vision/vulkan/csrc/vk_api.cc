#include "vk_api.h"

#include <dlfcn.h>

#include <mutex>

namespace tvm_vision {
namespace vulkan {

std::string CannotBeLoaded(const std::string& path) {
  const char* told = dlerror();
  std::string why = told == nullptr ? "no reason given" : told;
  // It begins with the library that is at fault: this one, or one that it needs.
  std::string own = path + ": ";
  if (why.compare(0, own.size(), own) != 0) return "cannot be loaded (" + why + ")";
  why = why.substr(own.size());
  bool missing = why.find("No such file") != std::string::npos;
  return missing ? kNotThere : "cannot be loaded (" + why + ")";
}

namespace {

constexpr const char* kUsualLoader = "libvulkan.so.1";

/*! \brief Why a library is not the loader, with what to do. */
std::string Unusable(const std::string& path, const std::string& why) {
  if (path == kUsualLoader) {
    return "the Vulkan loader " + path + " " + why +
           "; install the package libvulkan1 and a driver (mesa-vulkan-drivers for Intel, AMD and "
           "the CPU)";
  }
  return "TVM_VISION_VULKAN_LOADER names " + path + ", which " + why +
         "; name a Vulkan loader, or unset it for " + kUsualLoader;
}

std::string VersionName(uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
         std::to_string(VK_API_VERSION_MINOR(version));
}

/*! \brief Fill the table from a library; the reason in one line where it is no loader. */
std::string OpenLoader(const std::string& path, GlobalFunctions* table) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::string why = CannotBeLoaded(path);
    bool usual = path == kUsualLoader && why == kNotThere;
    return Unusable(path, usual ? "is not installed" : why);
  }
  // The handle is never closed: drivers keep threads and exit handlers of their own.
  table->vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (table->vkGetInstanceProcAddr == nullptr) {
    return Unusable(path, "is no Vulkan loader (it has no vkGetInstanceProcAddr)");
  }
#define TVM_VISION_VK_LOAD(name) \
  table->name = reinterpret_cast<PFN_##name>(table->vkGetInstanceProcAddr(nullptr, #name));
  TVM_VISION_VK_GLOBAL_FUNCTIONS(TVM_VISION_VK_LOAD)
#undef TVM_VISION_VK_LOAD
  if (table->vkCreateInstance == nullptr) {
    return Unusable(path, "is no Vulkan loader (it has no vkCreateInstance)");
  }
  // Vulkan 1.0 has no such function.
  if (table->vkEnumerateInstanceVersion != nullptr) {
    VkResult result = table->vkEnumerateInstanceVersion(&table->version);
    if (result != VK_SUCCESS) {
      return "asking the Vulkan loader " + path + " for its version: vkEnumerateInstanceVersion " +
             "gave " + ResultName(result) + ResultRemedy(result);
    }
  }
  if (table->version < VK_API_VERSION_1_2) {
    return "the Vulkan loader " + path + " speaks Vulkan " + VersionName(table->version) +
           ", 1.2 is needed; upgrade the package libvulkan1";
  }
  return "";
}

}  // namespace

const GlobalFunctions* LoadVulkan(const std::string& path, std::string* error) {
  static std::mutex mutex;
  static GlobalFunctions functions;
  static bool loaded = false;
  std::lock_guard<std::mutex> guard(mutex);
  if (loaded) return &functions;
  GlobalFunctions found;
  *error = OpenLoader(path, &found);
  if (!error->empty()) return nullptr;
  functions = found;
  loaded = true;
  return &functions;
}

void InstanceFunctions::Load(const GlobalFunctions& global, VkInstance instance) {
#define TVM_VISION_VK_LOAD(name) \
  name = reinterpret_cast<PFN_##name>(global.vkGetInstanceProcAddr(instance, #name));
  TVM_VISION_VK_INSTANCE_FUNCTIONS(TVM_VISION_VK_LOAD)
#undef TVM_VISION_VK_LOAD
  if (vkGetPhysicalDeviceCalibrateableTimeDomainsEXT == nullptr) {
    vkGetPhysicalDeviceCalibrateableTimeDomainsEXT =
        reinterpret_cast<PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT>(
            global.vkGetInstanceProcAddr(instance,
                                         "vkGetPhysicalDeviceCalibrateableTimeDomainsKHR"));
  }
}

void DeviceFunctions::Load(const InstanceFunctions& instance, VkDevice device) {
#define TVM_VISION_VK_LOAD(name) \
  name = reinterpret_cast<PFN_##name>(instance.vkGetDeviceProcAddr(device, #name));
  TVM_VISION_VK_DEVICE_FUNCTIONS(TVM_VISION_VK_LOAD)
#undef TVM_VISION_VK_LOAD
  if (vkGetCalibratedTimestampsEXT == nullptr) {
    vkGetCalibratedTimestampsEXT = reinterpret_cast<PFN_vkGetCalibratedTimestampsEXT>(
        instance.vkGetDeviceProcAddr(device, "vkGetCalibratedTimestampsKHR"));
  }
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
    TVM_VISION_VK_NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
    TVM_VISION_VK_NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
    TVM_VISION_VK_NAME(VK_ERROR_INVALID_SHADER_NV)
    TVM_VISION_VK_NAME(VK_PIPELINE_COMPILE_REQUIRED)
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
      return "; free tensors or use a smaller batch";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "; end what else needs memory, raise the limit of the process (ulimit -v, that of its "
             "container), or use a smaller batch";
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "; check the driver with tvm-vision doctor";
    default:
      return "";
  }
}

void CheckResult(VkResult result, const char* function, const std::string& doing) {
  if (result == VK_SUCCESS) return;
  Message text;
  text << doing << ": " << function << " gave " << ResultName(result) << ResultRemedy(result);
  if (result == VK_ERROR_DEVICE_LOST) TVM_VISION_THROW(DeviceLostError) << text.str();
  TVM_VISION_THROW(DeviceError) << text.str();
}

}  // namespace vulkan
}  // namespace tvm_vision
