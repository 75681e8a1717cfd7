/*!
 * \file device_plan.h
 * \brief What a physical device reports, as plain data, and what is decided from it.
 *
 * Pure functions: nothing here calls Vulkan, all of it is tested without a GPU.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_PLAN_H_
#define TVM_VISION_VULKAN_DEVICE_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "vk_api.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief One shape that the matrix units multiply: C[m,n] += A[m,k] * B[k,n], per subgroup. */
struct CooperativeMatrixShape {
  uint32_t m, n, k;
  /*! \brief Component types as VkComponentTypeKHR. */
  uint32_t a_type, b_type, c_type, result_type;
};

/*! \brief Optional device features; each is enabled on the VkDevice exactly when it is true here.
 */
struct DeviceFeatures {
  bool shader_int16 = false;
  bool shader_int64 = false;
  bool shader_float64 = false;
  bool shader_float16 = false;
  bool shader_int8 = false;
  bool storage_buffer_8bit = false;
  bool storage_buffer_16bit = false;
  bool uniform_buffer_8bit = false;
  bool uniform_buffer_16bit = false;
  bool push_constant_8bit = false;
  bool push_constant_16bit = false;
  bool vulkan_memory_model = false;
  bool vulkan_memory_model_device_scope = false;
  bool subgroup_extended_types = false;
  bool subgroup_size_control = false;
  bool compute_full_subgroups = false;
  bool integer_dot_product = false;
  bool cooperative_matrix = false;
  bool timeline_semaphore = false;
};

/*! \brief A physical device as it describes itself; every size in bytes unless the name says more.
 */
struct DeviceSnapshot {
  std::string name;
  std::string driver_name;
  std::string driver_info;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t api_version = 0;
  uint32_t driver_version = 0;
  std::array<uint8_t, VK_UUID_SIZE> device_uuid{};
  std::array<uint8_t, VK_UUID_SIZE> pipeline_cache_uuid{};

  uint32_t max_workgroup_invocations = 128;
  std::array<uint32_t, 3> max_workgroup_size{{128, 128, 64}};
  std::array<uint32_t, 3> max_workgroup_count{{65535, 65535, 65535}};
  uint32_t max_shared_memory = 16384;
  uint32_t max_push_constants = 128;
  uint32_t max_uniform_buffer_range = 16384;
  uint32_t max_storage_buffer_range = 1u << 27;
  uint32_t max_storage_buffers_per_stage = 4;
  uint32_t max_allocation_count = 4096;
  uint64_t max_allocation_size = 1u << 30;
  uint64_t min_storage_buffer_alignment = 256;
  uint64_t min_uniform_buffer_alignment = 256;
  uint64_t non_coherent_atom_size = 256;
  /*! \brief Nanoseconds a timestamp tick. */
  float timestamp_period = 1.0f;
  /*! \brief The extension that reads its clock and the host's monotonic one at one moment; empty
   * where there is none. */
  std::string clock_extension;

  uint32_t subgroup_size = 1;
  uint32_t min_subgroup_size = 1;
  uint32_t max_subgroup_size = 1;
  VkSubgroupFeatureFlags subgroup_operations = 0;
  bool subgroup_in_compute = false;
  /*! \brief Cores, compute units or multiprocessors where the driver tells; 0 where it does not. */
  uint32_t compute_units = 0;
  /*! \brief Of such a unit, likewise: parts that issue instructions, threads at once, and registers
   * of 32 bits. */
  uint32_t unit_schedulers = 0;
  uint32_t unit_threads = 0;
  uint32_t unit_registers = 0;
  /*! \brief Whether dot products of four signed bytes in a word are one instruction: every driver
   * takes them (features.integer_dot_product), and writes them out where the hardware has none. */
  bool fast_dot_product = false;

  DeviceFeatures features;
  std::vector<CooperativeMatrixShape> cooperative_matrix_shapes;
  std::vector<std::string> extensions;
  std::vector<VkQueueFamilyProperties> queue_families;
  std::vector<VkMemoryType> memory_types;
  std::vector<VkMemoryHeap> memory_heaps;

  bool HasExtension(const std::string& extension) const;
};

/*! \brief What will be done with a device. */
struct DevicePlan {
  /*! \brief Why the device cannot be used, one line; empty when it can. */
  std::string refusal;
  uint32_t queue_family = 0;
  /*! \brief Valid bits of a timestamp on that queue; 0 means the device has no timer. */
  uint32_t timestamp_bits = 0;
  /*! \brief Memory types for tensors, best first. */
  std::vector<uint32_t> tensor_memory;
  /*! \brief Device memory that the host can write, for inputs of networks; empty where tensors are
   * mapped anyway, or where the host sees none of the card's memory. */
  std::vector<uint32_t> input_memory;
  /*! \brief Memory type the host writes and the device reads: staging and uniform buffers. */
  uint32_t upload_memory = 0;
  /*! \brief Memory type the device writes and the host reads, cached on the host where there is
   * one. */
  uint32_t readback_memory = 0;
  /*! \brief Tensors are mapped: the host writes them in place and no staging copy is made. */
  bool unified = false;
  /*! \brief The mapped tensor memory is cached on the host, so that reading it in place is fast
   * too. */
  bool unified_cached = false;
  /*! \brief Every suballocation starts at a multiple of this. */
  uint64_t alignment = 256;
  /*! \brief Size of a block of device memory that small tensors share. */
  uint64_t block_size = 0;
  std::vector<std::string> enabled_extensions;
};

/*! \brief "discrete", "integrated", "virtual", "cpu" or "other". */
const char* DeviceTypeName(VkPhysicalDeviceType type);

/*! \brief "float16", "int8", … of a VkComponentTypeKHR; "other" for one without a name here. */
const char* ComponentTypeName(uint32_t type);

/*! \brief Newest version of SPIR-V that a device takes, as 0x10500 for 1.5. */
uint32_t MaxSpirvVersion(const DeviceSnapshot& snapshot);

/*!
 * \brief Order in which devices get their numbers: discrete, integrated, virtual, other, CPU; then
 * by vendor, device and UUID, so that it does not depend on the order of enumeration.
 * \return Indices into snapshots.
 */
std::vector<size_t> OrderDevices(const std::vector<DeviceSnapshot>& snapshots);

/*!
 * \brief Apply TVM_VISION_VULKAN_DEVICE to the ordered devices.
 * \param selector Comma-separated; each part is a number in the full order or a part of a device's
 *        name (letter case ignored). Empty selects all.
 * \param error One line when a part selects nothing.
 * \return Indices into snapshots in the order asked for, without repeats.
 */
std::vector<size_t> SelectDevices(const std::vector<DeviceSnapshot>& snapshots,
                                  const std::vector<size_t>& order, const std::string& selector,
                                  std::string* error);

/*!
 * \brief Decide queue, memory types and extensions for one device.
 * \param separate_memory Treat its memory as a card's also where it is the host's.
 */
DevicePlan PlanDevice(const DeviceSnapshot& snapshot, bool separate_memory = false);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_PLAN_H_
