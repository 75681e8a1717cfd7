/*!
 * \file device_features.h
 * \brief The optional features as Vulkan's chain of structures: read from a device, then asked for.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_FEATURES_H_
#define TVM_VISION_VULKAN_DEVICE_FEATURES_H_

#include "device_plan.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief The structures, linked; not to be copied, as they point at each other. */
struct FeatureChain {
  VkPhysicalDeviceFeatures2 head{};
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceSubgroupSizeControlFeatures size_control{};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};

  /*! \brief Link what a device of this version with these extensions knows. */
  FeatureChain(uint32_t api_version, bool with_size_control, bool with_dot, bool with_matrix) {
    head.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
    matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    void** tail = &head.pNext;
    auto link = [&tail](bool wanted, auto* structure) {
      if (!wanted) return;
      *tail = structure;
      tail = &structure->pNext;
    };
    bool core12 = api_version >= VK_API_VERSION_1_2;
    link(core12, &v11);
    link(core12, &v12);
    link(with_size_control, &size_control);
    link(with_dot, &dot);
    link(with_matrix, &matrix);
  }
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;

  /*! \brief Call visit(VkBool32& of Vulkan's, bool& of ours) for each feature. */
  template <typename Visit>
  void Each(DeviceFeatures* f, Visit visit) {
    visit(head.features.shaderInt16, f->shader_int16);
    visit(head.features.shaderInt64, f->shader_int64);
    visit(head.features.shaderFloat64, f->shader_float64);
    visit(v11.storageBuffer16BitAccess, f->storage_buffer_16bit);
    visit(v11.uniformAndStorageBuffer16BitAccess, f->uniform_buffer_16bit);
    visit(v11.storagePushConstant16, f->push_constant_16bit);
    visit(v12.shaderFloat16, f->shader_float16);
    visit(v12.shaderInt8, f->shader_int8);
    visit(v12.storageBuffer8BitAccess, f->storage_buffer_8bit);
    visit(v12.uniformAndStorageBuffer8BitAccess, f->uniform_buffer_8bit);
    visit(v12.storagePushConstant8, f->push_constant_8bit);
    visit(v12.vulkanMemoryModel, f->vulkan_memory_model);
    visit(v12.vulkanMemoryModelDeviceScope, f->vulkan_memory_model_device_scope);
    visit(v12.shaderSubgroupExtendedTypes, f->subgroup_extended_types);
    visit(v12.timelineSemaphore, f->timeline_semaphore);
    visit(size_control.subgroupSizeControl, f->subgroup_size_control);
    visit(size_control.computeFullSubgroups, f->compute_full_subgroups);
    visit(dot.shaderIntegerDotProduct, f->integer_dot_product);
    visit(matrix.cooperativeMatrix, f->cooperative_matrix);
  }
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_FEATURES_H_
