/*!
 * \file faulty_loader.cc
 * \brief A Vulkan loader that passes everything on to the real one, and lets chosen calls fail.
 *
 * TVM_VISION_VULKAN_LOADER names it. Every function that gives a VkResult can fail. A call that
 * fails does nothing else, but for three cases that the specification describes:
 *
 * - A device that was lost stays lost: each later call on it that may say so does. Who waits for a
 *   lost device has waited: the real one is waited for before the answer is given.
 * - Submitting to a device that is lost may have begun the work all the same (kLostAfter).
 * - VK_INCOMPLETE gives one element less than there is, VK_TIMEOUT and VK_NOT_READY give nothing.
 *
 * A device that hangs (kHang) takes all work from then on and does none of it; who waits without
 * an end waits for good. FAULTY_LOADER_REAL names the library behind (default libvulkan.so.1),
 * FAULTY_LOADER_FAULT is "function,first,count,result" from the start on.
 */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <unistd.h>
#include <vulkan/vulkan_core.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

// clang-format off
#define FUNCTIONS(F) \
  F(vkCreateInstance) F(vkEnumerateInstanceVersion) F(vkEnumerateInstanceLayerProperties) \
  F(vkEnumeratePhysicalDevices) F(vkEnumerateDeviceExtensionProperties) \
  F(vkGetPhysicalDeviceCalibrateableTimeDomainsEXT) F(vkCreateDevice) F(vkDeviceWaitIdle) \
  F(vkQueueSubmit) F(vkAllocateMemory) F(vkMapMemory) F(vkCreateBuffer) F(vkBindBufferMemory) \
  F(vkCreateCommandPool) F(vkResetCommandPool) F(vkAllocateCommandBuffers) \
  F(vkBeginCommandBuffer) F(vkEndCommandBuffer) F(vkCreateQueryPool) F(vkGetQueryPoolResults) \
  F(vkCreateSemaphore) F(vkWaitSemaphores) F(vkGetSemaphoreCounterValue) F(vkCreateShaderModule) \
  F(vkCreateDescriptorSetLayout) F(vkCreatePipelineLayout) F(vkCreateComputePipelines) \
  F(vkCreatePipelineCache) F(vkGetPipelineCacheData) F(vkCreateDescriptorPool) \
  F(vkAllocateDescriptorSets) F(vkGetCalibratedTimestampsEXT) F(vkCreateDebugUtilsMessengerEXT)
// clang-format on

namespace {

/*! \brief Beside the values of VkResult: lost, with the work begun all the same; hanging. */
constexpr int kLostAfter = -1004, kHang = 1000;

/*! \brief Which calls fail: those of `name` ("*": of any) from the `first` on, `count` of them. */
struct Fault {
  std::string name;
  long first = 0;
  long count = 0;
  int result = VK_SUCCESS;
  long seen = 0;
  long failed = 0;
  std::string failed_name;
};

std::recursive_mutex lock;
Fault fault;
std::map<std::string, long> calls;
std::map<VkQueue, VkDevice> queues;
std::set<VkDevice> alive, lost, hanging;
/*! \brief What is done wrong, so that the validation layer has something to find; see Planted. */
std::string planted;

bool Planted(const char* fault) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  return planted == fault;
}

/*! \brief VK_SUCCESS for a call that is to be passed on. */
int Meet(const char* name) {
  ++calls[name];
  if (fault.name != "*" && fault.name != name) return VK_SUCCESS;
  long number = ++fault.seen;
  if (number < fault.first || number >= fault.first + fault.count) return VK_SUCCESS;
  if (fault.failed++ == 0) fault.failed_name = name;
  return fault.result;
}

bool IsAny(const char* name, std::initializer_list<const char*> names) {
  for (const char* other : names) {
    if (std::strcmp(name, other) == 0) return true;
  }
  return false;
}

bool MayBeLost(const char* name) {
  return IsAny(name, {"vkQueueSubmit", "vkDeviceWaitIdle", "vkWaitSemaphores",
                      "vkGetSemaphoreCounterValue", "vkGetQueryPoolResults"});
}

/*! \brief What comes back in finite time from a lost device, with its work done or given up. */
bool WaitsForDevice(const char* name) {
  return IsAny(name, {"vkDeviceWaitIdle", "vkWaitSemaphores", "vkGetQueryPoolResults"});
}

VkDevice DeviceOf(VkDevice device) { return device; }
VkDevice DeviceOf(VkQueue queue) {
  auto found = queues.find(queue);
  return found == queues.end() ? VK_NULL_HANDLE : found->second;
}
template <typename Other>
VkDevice DeviceOf(Other) {
  return VK_NULL_HANDLE;
}

/*! \brief One element less than there is, of a list of which the caller gave room for all. */
template <typename... Args>
bool OneLess(Args... args) {
  bool less = false;
  auto look = [&](auto argument) {
    using Type = decltype(argument);
    if constexpr (std::is_same_v<Type, uint32_t*> || std::is_same_v<Type, size_t*>) {
      if (*argument > 0) less = true, --*argument;
    }
  };
  (look(args), ...);
  return less;
}

template <typename Tag, typename Function>
struct Wrapper;

template <typename Tag, typename First, typename... Args>
struct Wrapper<Tag, VkResult(VKAPI_PTR*)(First, Args...)> {
  static inline VkResult(VKAPI_PTR* real)(First, Args...) = nullptr;

  static VkResult VKAPI_CALL Call(First first, Args... args) {
    int met;
    {
      std::lock_guard<std::recursive_mutex> guard(lock);
      met = Meet(Tag::name);
      VkDevice device = DeviceOf(first);
      if (met == VK_ERROR_DEVICE_LOST || met == kLostAfter) lost.insert(device);
      if (met == kHang && device != VK_NULL_HANDLE) hanging.insert(device);
      if (hanging.count(device) != 0) {
        if (IsAny(Tag::name, {"vkQueueSubmit"})) return VK_SUCCESS;
        met = IsAny(Tag::name, {"vkDeviceWaitIdle"}) ? kHang : VK_SUCCESS;
      } else if (device != VK_NULL_HANDLE && lost.count(device) != 0 && MayBeLost(Tag::name) &&
                 met != kLostAfter) {
        met = VK_ERROR_DEVICE_LOST;
      }
    }
    while (met == kHang) pause();
    if (met == kLostAfter) real(first, args...);
    if (met == kLostAfter) return VK_ERROR_DEVICE_LOST;
    if (met == VK_ERROR_DEVICE_LOST && WaitsForDevice(Tag::name)) real(first, args...);
    if (met == VK_INCOMPLETE) {
      if (OneLess(first, args...)) {
        VkResult result = real(first, args...);
        return result == VK_SUCCESS ? VK_INCOMPLETE : result;
      }
      return real(first, args...);
    }
    return met == VK_SUCCESS ? real(first, args...) : static_cast<VkResult>(met);
  }
};

#define TAG(function)                              \
  struct Tag_##function {                          \
    static constexpr const char* name = #function; \
  };                                               \
  using Wrapper_##function = Wrapper<Tag_##function, PFN_##function>;
FUNCTIONS(TAG)

PFN_vkCreateDevice create_device = nullptr;
PFN_vkDestroyDevice destroy_device = nullptr;
PFN_vkGetDeviceQueue get_queue = nullptr;
PFN_vkGetDeviceProcAddr get_device = nullptr;

VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                 const VkAllocationCallbacks* allocator, VkDevice* device) {
  Wrapper_vkCreateDevice::real = create_device;
  VkResult result = Wrapper_vkCreateDevice::Call(physical, info, allocator, device);
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (result != VK_SUCCESS) return result;
  alive.insert(*device);
  lost.erase(*device);
  hanging.erase(*device);
  return result;
}

void VKAPI_CALL DestroyDevice(VkDevice device, const VkAllocationCallbacks* allocator) {
  {
    std::lock_guard<std::recursive_mutex> guard(lock);
    alive.erase(device);
  }
  destroy_device(device, allocator);
}

void VKAPI_CALL GetQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
  get_queue(device, family, index, queue);
  std::lock_guard<std::recursive_mutex> guard(lock);
  queues[*queue] = device;
}

PFN_vkCmdPipelineBarrier barrier = nullptr;
PFN_vkDestroyBuffer destroy_buffer = nullptr;
PFN_vkUpdateDescriptorSets update_sets = nullptr;

void VKAPI_CALL Barrier(VkCommandBuffer cmd, VkPipelineStageFlags from, VkPipelineStageFlags to,
                        VkDependencyFlags flags, uint32_t memories, const VkMemoryBarrier* memory,
                        uint32_t buffers, const VkBufferMemoryBarrier* buffer, uint32_t images,
                        const VkImageMemoryBarrier* image) {
  if (Planted("no barriers")) return;
  barrier(cmd, from, to, flags, memories, memory, buffers, buffer, images, image);
}

void VKAPI_CALL DestroyBuffer(VkDevice device, VkBuffer buffer,
                              const VkAllocationCallbacks* allocator) {
  if (!Planted("buffers stay")) destroy_buffer(device, buffer, allocator);
}

/*! \brief Kernels see the first four bytes of their buffers, and read on. */
void VKAPI_CALL UpdateSets(VkDevice device, uint32_t writes, const VkWriteDescriptorSet* write,
                           uint32_t copies, const VkCopyDescriptorSet* copy) {
  std::vector<VkWriteDescriptorSet> changed(write, write + writes);
  std::vector<VkDescriptorBufferInfo> infos(writes);
  for (uint32_t i = 0; Planted("short buffers") && i < writes; ++i) {
    infos[i] = *changed[i].pBufferInfo;
    infos[i].range = 4;
    changed[i].pBufferInfo = &infos[i];
  }
  update_sets(device, writes, changed.data(), copies, copy);
}

PFN_vkVoidFunction VKAPI_CALL GetDevice(VkDevice device, const char* name);

template <typename Function, typename Own>
PFN_vkVoidFunction Instead(Function* real, PFN_vkVoidFunction found, Own own) {
  *real = reinterpret_cast<Function>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(own);
}

PFN_vkVoidFunction Wrap(const char* name, PFN_vkVoidFunction real) {
  if (real == nullptr) return nullptr;
  if (IsAny(name, {"vkCreateDevice"})) return Instead(&create_device, real, &CreateDevice);
  if (IsAny(name, {"vkDestroyDevice"})) return Instead(&destroy_device, real, &DestroyDevice);
  if (IsAny(name, {"vkGetDeviceQueue"})) return Instead(&get_queue, real, &GetQueue);
  if (IsAny(name, {"vkCmdPipelineBarrier"})) return Instead(&barrier, real, &Barrier);
  if (IsAny(name, {"vkDestroyBuffer"})) return Instead(&destroy_buffer, real, &DestroyBuffer);
  if (IsAny(name, {"vkUpdateDescriptorSets"})) return Instead(&update_sets, real, &UpdateSets);
  if (IsAny(name, {"vkGetDeviceProcAddr"})) return Instead(&get_device, real, &GetDevice);
#define CHOOSE(function)        \
  if (IsAny(name, {#function})) \
    return Instead(&Wrapper_##function::real, real, &Wrapper_##function::Call);
  FUNCTIONS(CHOOSE)
  return real;
}

PFN_vkVoidFunction VKAPI_CALL GetDevice(VkDevice device, const char* name) {
  return Wrap(name, get_device(device, name));
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

/*! \brief The fault of the environment, for processes that nobody else can tell. */
void ReadFault() {
  const char* text = std::getenv("FAULTY_LOADER_FAULT");
  if (text == nullptr) return;
  char name[128];
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (std::sscanf(text, "%127[^,],%ld,%ld,%d", name, &fault.first, &fault.count, &fault.result) ==
      4) {
    fault.name = name;
  }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  static bool read = (ReadFault(), true);
  if (!read || RealGet() == nullptr) return nullptr;
  return Wrap(name, RealGet()(instance, name));
}

/*! \brief From now on the first-th call of a function, and count - 1 after it, give `result`. */
EXPORT void faulty_arm(const char* name, long first, long count, int result) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  fault = Fault();
  fault.name = name;
  fault.first = first;
  fault.count = count;
  fault.result = result;
}

/*! \brief From now on something is done wrong: "no barriers", "buffers stay", "short buffers". */
EXPORT void faulty_plant(const char* what) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  planted = what;
}

/*! \brief Calls of a function since the process began. */
EXPORT long faulty_calls(const char* name) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  return calls[name];
}

/*! \brief How many calls failed since it was armed. */
EXPORT long faulty_failed() {
  std::lock_guard<std::recursive_mutex> guard(lock);
  return fault.failed;
}

/*! \brief Devices that were made and not destroyed. */
EXPORT long faulty_devices() {
  std::lock_guard<std::recursive_mutex> guard(lock);
  return static_cast<long>(alive.size());
}

/*! \brief All functions that can fail, each with a space after it. */
EXPORT const char* faulty_functions() {
#define NAME(function) #function " "
  return FUNCTIONS(NAME);
}
