/*!
 * \file faulty_loader.cc
 * \brief A Vulkan loader that passes everything on to the real one, and lets chosen calls fail.
 *
 * TVM_VISION_VULKAN_LOADER names it. Only functions that give a VkResult can fail; a call that
 * fails does nothing else. FAULTY_LOADER_REAL names the library behind it (default libvulkan.so.1).
 */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

// clang-format off
#define FUNCTIONS(F) \
  F(vkCreateInstance) F(vkEnumeratePhysicalDevices) F(vkEnumerateDeviceExtensionProperties) \
  F(vkCreateDevice) F(vkDeviceWaitIdle) F(vkQueueSubmit) F(vkAllocateMemory) F(vkMapMemory) \
  F(vkCreateBuffer) F(vkBindBufferMemory) F(vkCreateCommandPool) F(vkResetCommandPool) \
  F(vkAllocateCommandBuffers) F(vkBeginCommandBuffer) F(vkEndCommandBuffer) F(vkCreateQueryPool) \
  F(vkGetQueryPoolResults) F(vkCreateSemaphore) F(vkWaitSemaphores) F(vkGetSemaphoreCounterValue) \
  F(vkCreateShaderModule) F(vkCreateDescriptorSetLayout) F(vkCreatePipelineLayout) \
  F(vkCreateComputePipelines) F(vkCreatePipelineCache) F(vkGetPipelineCacheData) \
  F(vkCreateDescriptorPool) F(vkAllocateDescriptorSets)
// clang-format on

namespace {

/*! \brief Which calls fail: those of `name` ("*": of any) from the `first` on, `count` of them. */
struct Fault {
  std::string name;
  long first = 0;
  long count = 0;
  VkResult result = VK_SUCCESS;
  long seen = 0;
  long failed = 0;
  std::string failed_name;
};

std::mutex lock;
Fault fault;

/*! \brief VK_SUCCESS for a call that is to be passed on. */
VkResult Meet(const char* name) {
  std::lock_guard<std::mutex> guard(lock);
  if (fault.name != "*" && fault.name != name) return VK_SUCCESS;
  long number = ++fault.seen;
  if (number < fault.first || number >= fault.first + fault.count) return VK_SUCCESS;
  if (fault.failed++ == 0) fault.failed_name = name;
  return fault.result;
}

template <typename Tag, typename Function>
struct Wrapper;

template <typename Tag, typename... Args>
struct Wrapper<Tag, VkResult(VKAPI_PTR*)(Args...)> {
  static inline VkResult(VKAPI_PTR* real)(Args...) = nullptr;
  static VkResult VKAPI_CALL Call(Args... args) {
    VkResult result = Meet(Tag::name);
    return result == VK_SUCCESS ? real(args...) : result;
  }
};

#define TAG(function)                              \
  struct Tag_##function {                          \
    static constexpr const char* name = #function; \
  };                                               \
  using Wrapper_##function = Wrapper<Tag_##function, PFN_##function>;
FUNCTIONS(TAG)

PFN_vkVoidFunction Wrap(const char* name, PFN_vkVoidFunction real) {
#define CHOOSE(function)                                                    \
  if (real != nullptr && std::strcmp(name, #function) == 0) {               \
    Wrapper_##function::real = reinterpret_cast<PFN_##function>(real);      \
    return reinterpret_cast<PFN_vkVoidFunction>(&Wrapper_##function::Call); \
  }
  FUNCTIONS(CHOOSE)
  return real;
}

PFN_vkGetInstanceProcAddr RealGet() {
  static PFN_vkGetInstanceProcAddr get = [] {
    const char* path = std::getenv("FAULTY_LOADER_REAL");
    void* library = dlopen(path != nullptr ? path : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void* found = library != nullptr ? dlsym(library, "vkGetInstanceProcAddr") : nullptr;
    return reinterpret_cast<PFN_vkGetInstanceProcAddr>(found);
  }();
  return get;
}

PFN_vkGetDeviceProcAddr real_get_device = nullptr;

PFN_vkVoidFunction VKAPI_CALL GetDevice(VkDevice device, const char* name) {
  return Wrap(name, real_get_device(device, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (RealGet() == nullptr) return nullptr;
  PFN_vkVoidFunction real = RealGet()(instance, name);
  if (real != nullptr && std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    real_get_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&GetDevice);
  }
  return Wrap(name, real);
}

/*! \brief From now on the first-th call of a function, and count - 1 after it, give `result`. */
__attribute__((visibility("default"))) void faulty_arm(const char* name, long first, long count,
                                                       int result) {
  std::lock_guard<std::mutex> guard(lock);
  fault = Fault();
  fault.name = name;
  fault.first = first;
  fault.count = count;
  fault.result = static_cast<VkResult>(result);
}

/*! \brief Calls of the function since it was armed. */
__attribute__((visibility("default"))) long faulty_seen() {
  std::lock_guard<std::mutex> guard(lock);
  return fault.seen;
}

/*! \brief How many of them failed. */
__attribute__((visibility("default"))) long faulty_failed() {
  std::lock_guard<std::mutex> guard(lock);
  return fault.failed;
}

/*! \brief Name of the first that failed; empty where none did. */
__attribute__((visibility("default"))) const char* faulty_failed_name() {
  static thread_local std::string name;
  std::lock_guard<std::mutex> guard(lock);
  name = fault.failed_name;
  return name.c_str();
}

}  // extern "C"
