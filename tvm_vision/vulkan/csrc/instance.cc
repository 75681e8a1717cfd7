#include "instance.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "device_snapshot.h"

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr uint32_t kFirstVersionWithCooperativeMatrix = VK_MAKE_API_VERSION(0, 1, 3, 255);
/*! \brief Since then layers look at what shaders read and write only where they are asked to. */
constexpr uint32_t kFirstVersionWithSettings = VK_MAKE_API_VERSION(0, 1, 3, 296);

/*! \brief VK_EXT_layer_settings, which Vulkan's headers have since 1.3.272, in their layout. */
constexpr const char* kLayerSettings = "VK_EXT_layer_settings";
constexpr auto kLayerSettingsInfo = static_cast<VkStructureType>(1000496000);
struct LayerSetting {
  const char* layer;
  const char* setting;
  uint32_t type;  // 0: VkBool32
  uint32_t count;
  const void* values;
};
struct LayerSettingsInfo {
  VkStructureType sType;
  const void* pNext;
  uint32_t count;
  const LayerSetting* settings;
};

VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                         VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  try {
    Instance::validation_log().Add(data->pMessage);
  } catch (const std::bad_alloc&) {
    // The driver's C calls this.
  }
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT MessengerInfo() {
  VkDebugUtilsMessengerCreateInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                     VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = OnMessage;
  return info;
}

/*! \brief Vulkan version that a layer was written for; 0 when the layer is not installed. */
uint32_t LayerVersion(const GlobalFunctions& global, const char* name) {
  uint32_t count = 0;
  VK_CHECK("listing layers", global, vkEnumerateInstanceLayerProperties, &count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  VK_CHECK("listing layers", global, vkEnumerateInstanceLayerProperties, &count, layers.data());
  for (const VkLayerProperties& layer : layers) {
    if (std::strcmp(layer.layerName, name) == 0) return layer.specVersion;
  }
  return 0;
}

}  // namespace

void ValidationLog::Add(std::string message) {
  std::lock_guard<std::mutex> lock(mutex_);
  messages_.push_back(std::move(message));
}

std::vector<std::string> ValidationLog::Take() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::move(messages_);
}

ValidationLog& Instance::validation_log() {
  // Never destroyed: the layer may speak while the process exits.
  alignas(ValidationLog) static unsigned char memory[sizeof(ValidationLog)];
  static ValidationLog* log = new (memory) ValidationLog();
  return *log;
}

Instance::Instance(const GlobalFunctions& global, const DeviceOptions& options) : Instance() {
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "tvm_vision";
  application.pEngineName = "tvm_vision";
  application.apiVersion = VK_API_VERSION_1_3;
  if (global.version < VK_API_VERSION_1_3) application.apiVersion = global.version;

  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  // The layer implements these extensions itself, so they are there whenever it is, the last one in
  // newer ones.
  const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                              VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, kLayerSettings};
  VkValidationFeatureEnableEXT enabled[] = {
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  VkValidationFeaturesEXT features{};
  features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = enabled;
  VkDebugUtilsMessengerCreateInfoEXT messenger = MessengerInfo();
  features.pNext = &messenger;
  const VkBool32 yes = VK_TRUE;
  const LayerSetting look{kValidationLayer, "syncval_shader_accesses_heuristic", 0, 1, &yes};
  const LayerSettingsInfo settings{kLayerSettingsInfo, nullptr, 1, &look};
  bool validate = options.validation;
  uint32_t layer_version = validate ? LayerVersion(global, kValidationLayer) : 0;
  if (validate && layer_version == 0) {
    TVM_VISION_THROW(DeviceError)
        << "TVM_VISION_VULKAN_VALIDATION is set, but the layer " << kValidationLayer
        << " is not installed; install the package vulkan-validationlayers "
           "(Ubuntu 24.04 and Debian 12) or unset the variable";
  }
  if (validate) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    bool has_settings = layer_version >= kFirstVersionWithSettings;
    if (has_settings) messenger.pNext = &settings;
    info.enabledExtensionCount = has_settings ? 3 : 2;
    info.ppEnabledExtensionNames = extensions;
    info.pNext = &features;
  }
  VkResult created = global.vkCreateInstance(&info, nullptr, &instance_);
  // So answers a loader without any driver, and others give an instance without devices: both mean
  // that there are none.
  if (created == VK_ERROR_INCOMPATIBLE_DRIVER) return;
  CheckResult(created, "vkCreateInstance", "starting Vulkan");
  fn_.Load(global, instance_);
  if (validate) CreateMessenger();
  uint32_t count = 0;
  VkResult result = fn_.vkEnumeratePhysicalDevices(instance_, &count, nullptr);
  // The answer of a loader whose drivers have no device.
  if (result == VK_ERROR_INITIALIZATION_FAILED) return;
  CheckResult(result, "vkEnumeratePhysicalDevices", "listing devices");
  if (count == 0) return;
  physical_.resize(count);
  VK_CHECK("listing devices", fn_, vkEnumeratePhysicalDevices, instance_, &count, physical_.data());
  for (VkPhysicalDevice physical : physical_) {
    snapshots_.push_back(TakeSnapshot(fn_, physical));
    if (validate && layer_version < kFirstVersionWithCooperativeMatrix) {
      // An older layer takes the extension's structures for errors.
      snapshots_.back().features.cooperative_matrix = false;
      snapshots_.back().cooperative_matrix_shapes.clear();
    }
  }
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) {
    fn_.vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) fn_.vkDestroyInstance(instance_, nullptr);
}

void Instance::CreateMessenger() {
  VkDebugUtilsMessengerCreateInfoEXT info = MessengerInfo();
  VK_CHECK("starting the validation layer", fn_, vkCreateDebugUtilsMessengerEXT, instance_, &info,
           nullptr, &messenger_);
}

uint64_t Instance::AvailableMemory(size_t i) const {
  if (!snapshots_[i].HasExtension(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) return 0;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = &budget;
  fn_.vkGetPhysicalDeviceMemoryProperties2(physical_[i], &properties);
  uint64_t available = 0;
  for (uint32_t heap = 0; heap < properties.memoryProperties.memoryHeapCount; ++heap) {
    if ((properties.memoryProperties.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) ==
        0) {
      continue;
    }
    uint64_t used = std::min(budget.heapUsage[heap], budget.heapBudget[heap]);
    available += budget.heapBudget[heap] - used;
  }
  return available;
}

}  // namespace vulkan
}  // namespace tvm_vision
