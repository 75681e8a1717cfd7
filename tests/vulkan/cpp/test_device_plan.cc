// Device choice and memory plan, on descriptions of real kinds of machines; no GPU.
#include "check.h"
#include "device_plan.h"

using namespace tvm_vision::vulkan;

namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kMapped =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr uint64_t kGiB = uint64_t{1} << 30;

DeviceSnapshot Base(const char* name, VkPhysicalDeviceType type, uint32_t vendor) {
  DeviceSnapshot s;
  s.name = name;
  s.type = type;
  s.vendor_id = vendor;
  s.api_version = VK_API_VERSION_1_3;
  s.features.timeline_semaphore = true;
  VkQueueFamilyProperties family{};
  family.queueFlags = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  family.queueCount = 1;
  family.timestampValidBits = 64;
  s.queue_families = {family};
  s.max_allocation_size = 4 * kGiB;
  return s;
}

/*! \brief A discrete card with a small window of mappable memory, as before resizable BAR. */
DeviceSnapshot Discrete() {
  DeviceSnapshot s = Base("NVIDIA Test 1", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 0x10de);
  s.memory_heaps = {{8 * kGiB, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {16 * kGiB, 0}, {kGiB / 4, 1}};
  s.memory_types = {
      {0, 1}, {kLocal, 0}, {kMapped, 1}, {kMapped | kCached, 1}, {kLocal | kMapped, 2}};
  return s;
}

/*! \brief Integrated graphics of Intel: one heap, mapped and cached. */
DeviceSnapshot Intel() {
  DeviceSnapshot s = Base("Intel(R) Test Graphics", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 0x8086);
  s.memory_heaps = {{12 * kGiB, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  s.memory_types = {{kLocal, 0}, {kLocal | kMapped, 0}, {kLocal | kMapped | kCached, 0}};
  return s;
}

/*! \brief An AMD APU whose carve-out is small and whose mapped local memory is not cached. */
DeviceSnapshot Apu() {
  DeviceSnapshot s = Base("AMD Test APU", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 0x1002);
  s.memory_heaps = {{6 * kGiB, 0}, {kGiB / 2, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  s.memory_types = {{kLocal, 1}, {kMapped, 0}, {kLocal | kMapped, 1}, {kMapped | kCached, 0}};
  return s;
}

DeviceSnapshot Lavapipe() {
  DeviceSnapshot s = Base("llvmpipe", VK_PHYSICAL_DEVICE_TYPE_CPU, 0x10005);
  s.memory_heaps = {{2 * kGiB, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  s.memory_types = {{kLocal | kMapped | kCached, 0}};
  return s;
}

std::vector<std::string> Names(const std::vector<DeviceSnapshot>& s, const std::string& selector,
                               std::string* error) {
  std::vector<std::string> names;
  for (size_t i : SelectDevices(s, OrderDevices(s), selector, error)) names.push_back(s[i].name);
  return names;
}

}  // namespace

TEST(OrderIsByKindWhateverTheEnumeration) {
  std::vector<DeviceSnapshot> a = {Lavapipe(), Intel(), Discrete()};
  std::vector<DeviceSnapshot> b = {Discrete(), Lavapipe(), Intel()};
  std::string error;
  std::vector<std::string> expected = {"NVIDIA Test 1", "Intel(R) Test Graphics", "llvmpipe"};
  CHECK(Names(a, "", &error) == expected);
  CHECK(Names(b, "", &error) == expected);
}

TEST(TwinsAreOrderedByUuid) {
  std::vector<DeviceSnapshot> s = {Discrete(), Discrete()};
  s[0].device_uuid[0] = 9;
  s[1].device_uuid[0] = 3;
  CHECK((OrderDevices(s) == std::vector<size_t>{1, 0}));
}

TEST(SelectorTakesNumbersAndPartsOfNames) {
  std::vector<DeviceSnapshot> s = {Lavapipe(), Intel(), Discrete()};
  std::string error;
  using V = std::vector<std::string>;
  CHECK((Names(s, "1", &error) == V{"Intel(R) Test Graphics"}));
  CHECK((Names(s, " intel ", &error) == V{"Intel(R) Test Graphics"}));
  CHECK((Names(s, "llvm,0", &error) == V{"llvmpipe", "NVIDIA Test 1"}));
  CHECK((Names(s, "test,nvidia", &error) == V{"NVIDIA Test 1", "Intel(R) Test Graphics"}));
  CHECK(Names(s, " , ", &error).size() == 3);
  CHECK(error.empty());
}

TEST(SelectorThatMatchesNothingNamesWhatIsThere) {
  std::vector<DeviceSnapshot> s = {Intel()};
  std::string error;
  CHECK(Names(s, "radeon", &error).empty());
  CHECK(error.find("\"radeon\"") != std::string::npos);
  CHECK(error.find("0: Intel(R) Test Graphics") != std::string::npos);
  CHECK(Names(s, "7", &error).empty());
  CHECK(Names(s, "99999999999999999999", &error).empty());
}

TEST(DiscreteStagesItsCopies) {
  DevicePlan plan = PlanDevice(Discrete());
  CHECK(plan.refusal.empty());
  CHECK(!plan.unified);
  CHECK((plan.tensor_memory == std::vector<uint32_t>{1, 4}));
  CHECK((plan.input_memory == std::vector<uint32_t>{4}));
  CHECK(plan.upload_memory == 2);
  CHECK(plan.readback_memory == 3);
  CHECK(plan.timestamp_bits == 64);
}

TEST(IntegratedIsMappedAndCached) {
  DevicePlan plan = PlanDevice(Intel());
  CHECK(plan.unified && plan.unified_cached);
  CHECK(plan.tensor_memory.front() == 2);
  CHECK(plan.input_memory.empty());  // tensors are mapped anyway
}

TEST(ApuWritesInPlaceAndOverflowsIntoSystemMemory) {
  DevicePlan plan = PlanDevice(Apu());
  CHECK(plan.unified && !plan.unified_cached);
  CHECK((plan.tensor_memory == std::vector<uint32_t>{2, 1, 3}));
  CHECK(plan.readback_memory == 3);
}

TEST(SharedMemoryIsTreatedAsACardsWhereAsked) {
  DevicePlan plan = PlanDevice(Lavapipe(), true);
  CHECK(plan.refusal.empty());
  CHECK(!plan.unified && !plan.unified_cached);
  CHECK(plan.tensor_memory.size() == 1 && plan.input_memory == plan.tensor_memory);
}

TEST(LavapipeIsUnified) {
  DevicePlan plan = PlanDevice(Lavapipe());
  CHECK(plan.unified && plan.unified_cached);
  CHECK(plan.block_size == 64u << 20);
}

TEST(RefusalsSayWhy) {
  DeviceSnapshot old = Intel();
  old.api_version = VK_API_VERSION_1_1;
  CHECK(PlanDevice(old).refusal.find("Vulkan 1.1, 1.2 is needed") != std::string::npos);
  DeviceSnapshot no_queue = Intel();
  no_queue.queue_families[0].queueFlags = VK_QUEUE_GRAPHICS_BIT;
  CHECK(PlanDevice(no_queue).refusal.find("no queue that computes") != std::string::npos);
  DeviceSnapshot no_memory = Intel();
  no_memory.memory_types = {{kLocal, 0}};
  CHECK(PlanDevice(no_memory).refusal.find("no memory") != std::string::npos);
}

TEST(ExtensionsOnlyWhereNotCore) {
  DeviceSnapshot s = Intel();
  s.features.subgroup_size_control = true;
  s.extensions = {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME};
  CHECK((PlanDevice(s).enabled_extensions ==
         std::vector<std::string>{VK_EXT_MEMORY_BUDGET_EXTENSION_NAME}));
  s.api_version = VK_API_VERSION_1_2;
  CHECK(PlanDevice(s).enabled_extensions.size() == 2);
}

int main() { return check::Run(); }
