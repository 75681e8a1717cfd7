#include "device_info.h"

#include <tvm/ffi/container/array.h>

#include <algorithm>
#include <functional>
#include <map>

namespace tvm_vision {
namespace vulkan {

namespace ffi = tvm::ffi;

namespace {

using Property = std::function<ffi::Any(const DeviceSnapshot&)>;

template <typename F>
Property Integer(F read) {
  return [read](const DeviceSnapshot& s) { return ffi::Any(static_cast<int64_t>(read(s))); };
}

template <typename F>
Property Flag(F read) {
  return [read](const DeviceSnapshot& s) { return ffi::Any(static_cast<bool>(read(s))); };
}

template <typename F>
Property Text(F read) {
  return [read](const DeviceSnapshot& s) { return ffi::Any(ffi::String(read(s))); };
}

using S = const DeviceSnapshot&;

const std::map<std::string, Property>& Properties() {
  static const std::map<std::string, Property> table = {
      {"supports_float16", Flag([](S s) { return s.features.shader_float16; })},
      {"supports_float32", Flag([](S) { return true; })},
      {"supports_float64", Flag([](S s) { return s.features.shader_float64; })},
      {"supports_int8", Flag([](S s) { return s.features.shader_int8; })},
      {"supports_int16", Flag([](S s) { return s.features.shader_int16; })},
      {"supports_int32", Flag([](S) { return true; })},
      {"supports_int64", Flag([](S s) { return s.features.shader_int64; })},
      {"supports_8bit_buffer", Flag([](S s) { return s.features.storage_buffer_8bit; })},
      {"supports_16bit_buffer", Flag([](S s) { return s.features.storage_buffer_16bit; })},
      // Core since Vulkan 1.1, and 1.2 is what we ask for.
      {"supports_storage_buffer_storage_class", Flag([](S) { return true; })},
      {"supports_dedicated_allocation", Flag([](S) { return true; })},
      {"supports_push_descriptor",
       Flag([](S s) { return s.HasExtension(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME); })},
      {"supports_integer_dot_product",
       Flag([](S s) { return s.features.integer_dot_product && s.fast_dot_product; })},
      {"supports_cooperative_matrix", Flag([](S s) { return s.features.cooperative_matrix; })},
      {"supported_subgroup_operations",
       Integer([](S s) { return s.subgroup_in_compute ? s.subgroup_operations : 0; })},
      {"max_num_threads", Integer([](S s) { return s.max_workgroup_invocations; })},
      {"max_threads_per_block", Integer([](S s) { return s.max_workgroup_invocations; })},
      {"thread_warp_size", Integer([](S s) { return s.subgroup_size; })},
      {"max_block_size_x", Integer([](S s) { return s.max_workgroup_size[0]; })},
      {"max_block_size_y", Integer([](S s) { return s.max_workgroup_size[1]; })},
      {"max_block_size_z", Integer([](S s) { return s.max_workgroup_size[2]; })},
      {"max_push_constants_size", Integer([](S s) { return s.max_push_constants; })},
      {"max_uniform_buffer_range", Integer([](S s) { return s.max_uniform_buffer_range; })},
      {"max_storage_buffer_range", Integer([](S s) { return s.max_storage_buffer_range; })},
      {"max_per_stage_descriptor_storage_buffer",
       Integer([](S s) { return s.max_storage_buffers_per_stage; })},
      {"max_shared_memory_per_block", Integer([](S s) { return s.max_shared_memory; })},
      {"device_type", Text([](S s) { return std::string(DeviceTypeName(s.type)); })},
      {"device_name", Text([](S s) { return s.name; })},
      {"driver_name", Text([](S s) { return s.driver_name; })},
      {"driver_version", Integer([](S s) { return s.driver_version; })},
      {"vulkan_api_version", Integer([](S s) { return s.api_version; })},
      {"max_spirv_version", Integer(MaxSpirvVersion)},
  };
  return table;
}

}  // namespace

ffi::Any TargetProperty(const DeviceSnapshot& snapshot, const std::string& name) {
  auto found = Properties().find(name);
  return found == Properties().end() ? ffi::Any() : found->second(snapshot);
}

int64_t TensorMemoryBytes(const DeviceSnapshot& snapshot, const DevicePlan& plan) {
  VkDeviceSize largest = 0;
  for (uint32_t type : plan.tensor_memory) {
    largest = std::max(largest, snapshot.memory_heaps[snapshot.memory_types[type].heapIndex].size);
  }
  return static_cast<int64_t>(largest);
}

ffi::Map<ffi::String, ffi::Any> DescribeDevice(const DeviceSnapshot& s, const DevicePlan& plan) {
  ffi::Map<ffi::String, ffi::Any> info;
  for (const auto& [name, read] : Properties()) info.Set(name, read(s));
  auto number = [&](const char* name, uint64_t value) {
    info.Set(name, static_cast<int64_t>(value));
  };
  info.Set("name", ffi::String(s.name));
  info.Set("type", ffi::String(DeviceTypeName(s.type)));
  info.Set("driver_info", ffi::String(s.driver_info));
  number("vendor_id", s.vendor_id);
  number("device_id", s.device_id);
  number("min_subgroup_size", s.min_subgroup_size);
  number("max_subgroup_size", s.max_subgroup_size);
  number("compute_units", s.compute_units);
  number("unit_schedulers", s.unit_schedulers);
  number("unit_threads", s.unit_threads);
  number("unit_registers", s.unit_registers);
  number("max_workgroup_count_x", s.max_workgroup_count[0]);
  number("max_allocation_size", s.max_allocation_size);
  info.Set("memory_bytes", TensorMemoryBytes(s, plan));
  number("timestamp_bits", plan.timestamp_bits);
  info.Set("timestamp_period_ns", static_cast<double>(s.timestamp_period));
  info.Set("subgroup_size_control", s.features.subgroup_size_control);
  info.Set("unified_memory", plan.unified);
  ffi::Array<ffi::Any> shapes;
  for (const CooperativeMatrixShape& shape : s.cooperative_matrix_shapes) {
    shapes.push_back(ffi::Array<ffi::Any>(
        {static_cast<int64_t>(shape.m), static_cast<int64_t>(shape.n),
         static_cast<int64_t>(shape.k), ffi::String(ComponentTypeName(shape.a_type)),
         ffi::String(ComponentTypeName(shape.b_type)), ffi::String(ComponentTypeName(shape.c_type)),
         ffi::String(ComponentTypeName(shape.result_type))}));
  }
  info.Set("cooperative_matrix_shapes", shapes);
  return info;
}

}  // namespace vulkan
}  // namespace tvm_vision
