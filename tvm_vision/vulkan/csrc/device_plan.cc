#include "device_plan.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <tuple>

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kMapped =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

int TypeRank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 4;
    default:
      return 3;
  }
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/*! \brief Memory types that have all of `wanted`, largest heap first; order of the driver
 * otherwise. */
std::vector<uint32_t> TypesWith(const DeviceSnapshot& s, VkMemoryPropertyFlags wanted,
                                VkMemoryPropertyFlags unwanted) {
  // Types that only some memory operations may use would fault on ordinary buffers.
  unwanted |= VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
              VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < s.memory_types.size(); ++i) {
    VkMemoryPropertyFlags flags = s.memory_types[i].propertyFlags;
    if ((flags & wanted) == wanted && (flags & unwanted) == 0) found.push_back(i);
  }
  std::stable_sort(found.begin(), found.end(), [&](uint32_t a, uint32_t b) {
    return s.memory_heaps[s.memory_types[a].heapIndex].size >
           s.memory_heaps[s.memory_types[b].heapIndex].size;
  });
  return found;
}

void AppendNew(std::vector<uint32_t>* to, const std::vector<uint32_t>& from) {
  for (uint32_t value : from) {
    if (std::find(to->begin(), to->end(), value) == to->end()) to->push_back(value);
  }
}

void PlanMemory(const DeviceSnapshot& s, bool separate, DevicePlan* plan) {
  bool shares_memory = !separate && (s.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                                     s.type == VK_PHYSICAL_DEVICE_TYPE_CPU);
  std::vector<uint32_t> mapped_local = TypesWith(s, kLocal | kMapped | kCached, 0);
  plan->unified_cached = shares_memory && !mapped_local.empty();
  AppendNew(&mapped_local, TypesWith(s, kLocal | kMapped, 0));
  plan->unified = shares_memory && !mapped_local.empty();
  if (plan->unified) {
    plan->tensor_memory = mapped_local;
    if (plan->unified_cached) {
      // Reading in place must stay fast whichever type a tensor lands in.
      plan->tensor_memory = TypesWith(s, kLocal | kMapped | kCached, 0);
    }
    // An APU's carve-out can be small; its other host-visible memory is the same DRAM.
    AppendNew(&plan->tensor_memory,
              TypesWith(s, kMapped | (plan->unified_cached ? kCached : 0), kLocal));
  } else {
    plan->tensor_memory = TypesWith(s, kLocal, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    AppendNew(&plan->tensor_memory, TypesWith(s, kLocal, 0));
    plan->input_memory = mapped_local;
  }
  std::vector<uint32_t> upload = TypesWith(s, kMapped, kLocal);
  AppendNew(&upload, TypesWith(s, kMapped, 0));
  std::vector<uint32_t> readback = TypesWith(s, kMapped | kCached, 0);
  AppendNew(&readback, upload);
  if (plan->tensor_memory.empty() || upload.empty()) {
    plan->refusal = "it reports no memory that is device-local, or none that the host can map";
    return;
  }
  plan->upload_memory = upload.front();
  plan->readback_memory = readback.front();
  plan->alignment = std::max<uint64_t>({256, s.min_storage_buffer_alignment,
                                        s.min_uniform_buffer_alignment, s.non_coherent_atom_size});
  uint64_t heap = s.memory_heaps[s.memory_types[plan->tensor_memory.front()].heapIndex].size;
  plan->block_size = std::min<uint64_t>({64u << 20, heap / 16, s.max_allocation_size});
}

void PlanQueue(const DeviceSnapshot& s, DevicePlan* plan) {
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t best = kNone;
  for (uint32_t i = 0; i < s.queue_families.size(); ++i) {
    const VkQueueFamilyProperties& family = s.queue_families[i];
    if ((family.queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || family.queueCount == 0) continue;
    // The family that also draws is the one every driver schedules at full rate; a compute-only
    // family may be given fewer resources while the desktop is drawn.
    bool graphics = (family.queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
    if (best == kNone ||
        (graphics && (s.queue_families[best].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0)) {
      best = i;
    }
  }
  if (best == kNone) {
    plan->refusal =
        "it has no queue that computes, and one is needed; use another device or driver";
    return;
  }
  plan->queue_family = best;
  plan->timestamp_bits = s.queue_families[best].timestampValidBits;
}

}  // namespace

bool DeviceSnapshot::HasExtension(const std::string& extension) const {
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

const char* DeviceTypeName(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "cpu";
    default:
      return "other";
  }
}

const char* ComponentTypeName(uint32_t type) {
  switch (type) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR:
      return "float16";
    case VK_COMPONENT_TYPE_FLOAT32_KHR:
      return "float32";
    case VK_COMPONENT_TYPE_FLOAT64_KHR:
      return "float64";
    case VK_COMPONENT_TYPE_SINT8_KHR:
      return "int8";
    case VK_COMPONENT_TYPE_SINT16_KHR:
      return "int16";
    case VK_COMPONENT_TYPE_SINT32_KHR:
      return "int32";
    case VK_COMPONENT_TYPE_SINT64_KHR:
      return "int64";
    case VK_COMPONENT_TYPE_UINT8_KHR:
      return "uint8";
    case VK_COMPONENT_TYPE_UINT16_KHR:
      return "uint16";
    case VK_COMPONENT_TYPE_UINT32_KHR:
      return "uint32";
    case VK_COMPONENT_TYPE_UINT64_KHR:
      return "uint64";
    default:
      return "other";
  }
}

uint32_t MaxSpirvVersion(const DeviceSnapshot& snapshot) {
  // SPIR-V 1.5 is core in Vulkan 1.2, 1.6 in 1.3.
  return snapshot.api_version >= VK_API_VERSION_1_3 ? 0x10600 : 0x10500;
}

std::vector<size_t> OrderDevices(const std::vector<DeviceSnapshot>& snapshots) {
  std::vector<size_t> order(snapshots.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto key = [&](size_t i) {
    const DeviceSnapshot& s = snapshots[i];
    return std::make_tuple(TypeRank(s.type), s.vendor_id, s.device_id, s.device_uuid, s.name);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

std::vector<size_t> SelectDevices(const std::vector<DeviceSnapshot>& snapshots,
                                  const std::vector<size_t>& order, const std::string& selector,
                                  std::string* error) {
  std::vector<size_t> selected;
  std::stringstream parts(selector);
  std::string part;
  bool any_part = false;
  while (std::getline(parts, part, ',')) {
    size_t first = part.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    part = part.substr(first, part.find_last_not_of(" \t") - first + 1);
    any_part = true;
    bool is_number = part.size() <= 6 && part.find_first_not_of("0123456789") == std::string::npos;
    size_t before = selected.size();
    bool repeats = false;
    for (size_t rank = 0; rank < order.size(); ++rank) {
      bool match = is_number
                       ? rank == std::stoul(part)
                       : Lower(snapshots[order[rank]].name).find(Lower(part)) != std::string::npos;
      if (!match) continue;
      if (std::find(selected.begin(), selected.end(), order[rank]) == selected.end()) {
        selected.push_back(order[rank]);
      } else {
        repeats = true;
      }
    }
    if (selected.size() == before && !repeats) {
      std::ostringstream message;
      message << "TVM_VISION_VULKAN_DEVICE names \"" << part << "\", but this machine has";
      for (size_t rank = 0; rank < order.size(); ++rank) {
        message << (rank == 0 ? " " : ", ") << rank << ": " << snapshots[order[rank]].name;
      }
      message << "; use one of these numbers or a part of a name";
      *error = message.str();
      return {};
    }
  }
  return any_part ? selected : order;
}

DevicePlan PlanDevice(const DeviceSnapshot& snapshot, bool separate_memory) {
  DevicePlan plan;
  if (snapshot.api_version < VK_API_VERSION_1_2) {
    std::ostringstream os;
    os << "it speaks Vulkan " << VK_API_VERSION_MAJOR(snapshot.api_version) << "."
       << VK_API_VERSION_MINOR(snapshot.api_version) << ", 1.2 is needed; update its driver";
    plan.refusal = os.str();
    return plan;
  }
  if (!snapshot.features.timeline_semaphore) {
    plan.refusal = "it lacks the feature timelineSemaphore, which Vulkan 1.2 requires";
    return plan;
  }
  PlanQueue(snapshot, &plan);
  if (plan.refusal.empty()) PlanMemory(snapshot, separate_memory, &plan);
  auto enable = [&](bool wanted, const char* extension) {
    if (wanted && snapshot.HasExtension(extension)) plan.enabled_extensions.push_back(extension);
  };
  bool core13 = snapshot.api_version >= VK_API_VERSION_1_3;
  enable(!core13 && snapshot.features.subgroup_size_control,
         VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  enable(!core13 && snapshot.features.integer_dot_product,
         VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  enable(snapshot.features.cooperative_matrix, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  enable(true, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  enable(plan.timestamp_bits != 0, snapshot.clock_extension.c_str());
  return plan;
}

}  // namespace vulkan
}  // namespace tvm_vision
