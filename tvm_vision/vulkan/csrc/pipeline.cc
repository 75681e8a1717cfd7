#include "pipeline.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>

#include "cache_file.h"
#include "kernel_needs.h"

namespace tvm_vision {
namespace vulkan {

namespace {

/*! \brief What the names of cache files begin with, and how many of them are kept. */
constexpr const char* kPrefix = "pipelines-";
constexpr size_t kMostFiles = 64;

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const DeviceHandle> owner, const KernelCode& code,
                   VkPipelineCache cache)
    : device(std::move(owner)),
      name(code.name),
      num_buffers(code.num_buffers),
      scalar_bytes(code.scalar_bytes),
      scalars_in_uniform_buffer(code.scalars_in_uniform_buffer),
      access(code.num_buffers) {
  const DeviceSnapshot& s = device->snapshot();
  const DeviceFunctions& fn = device->fn;
  CheckRunnable(s, {&code});
  for (uint32_t i = 0; i < num_buffers; ++i) {
    auto found = code.interface.bindings.find(i);
    if (found != code.interface.bindings.end()) access[i] = found->second;
  }

  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (uint32_t i = 0; i < num_buffers + (scalars_in_uniform_buffer ? 1 : 0); ++i) {
    VkDescriptorSetLayoutBinding binding{};
    binding.binding = i;
    binding.descriptorType =
        i < num_buffers ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    binding.descriptorCount = 1;
    binding.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    bindings.push_back(binding);
  }
  VkDescriptorSetLayoutCreateInfo set_info{};
  set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set_info.bindingCount = static_cast<uint32_t>(bindings.size());
  set_info.pBindings = bindings.data();
  VK_CHECK("creating the pipeline of kernel " + name, fn, vkCreateDescriptorSetLayout, device->vk,
           &set_info, nullptr, &set_layout);

  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = scalars_in_uniform_buffer ? 0 : scalar_bytes;
  VkPipelineLayoutCreateInfo layout_info{};
  layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &set_layout;
  layout_info.pushConstantRangeCount = range.size != 0 ? 1 : 0;
  layout_info.pPushConstantRanges = &range;
  VkShaderModuleCreateInfo shader_info{};
  shader_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  shader_info.codeSize = code.words.size() * sizeof(uint32_t);
  shader_info.pCode = code.words.data();
  VkShaderModule shader = VK_NULL_HANDLE;

  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroup.requiredSubgroupSize = code.subgroup_size;
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = code.interface.entry_point.c_str();
  if (code.subgroup_size != 0 && CanRequireSubgroupSize(s, code.subgroup_size)) {
    info.stage.pNext = &subgroup;
    // Lanes that a partial subgroup leaves idle would break shuffles between rows of threads.
    if (s.features.compute_full_subgroups &&
        code.interface.local_size[0] % code.subgroup_size == 0) {
      info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
  }
  const char* failed = "vkCreatePipelineLayout";
  VkResult result = fn.vkCreatePipelineLayout(device->vk, &layout_info, nullptr, &layout);
  if (result == VK_SUCCESS) {
    failed = "vkCreateShaderModule";
    result = fn.vkCreateShaderModule(device->vk, &shader_info, nullptr, &shader);
  }
  if (result == VK_SUCCESS) {
    info.stage.module = shader;
    info.layout = layout;
    failed = "vkCreateComputePipelines";
    result = fn.vkCreateComputePipelines(device->vk, cache, 1, &info, nullptr, &vk);
  }
  fn.vkDestroyShaderModule(device->vk, shader, nullptr);
  if (result != VK_SUCCESS) {
    fn.vkDestroyPipelineLayout(device->vk, layout, nullptr);
    fn.vkDestroyDescriptorSetLayout(device->vk, set_layout, nullptr);
    TVM_VISION_THROW(DeviceError) << "creating the pipeline of kernel " << name << " on " << s.name
                                  << ": " << failed << " gave " << ResultName(result)
                                  << ResultRemedy(result);
  }
}

Pipeline::~Pipeline() {
  device->fn.vkDestroyPipeline(device->vk, vk, nullptr);
  device->fn.vkDestroyPipelineLayout(device->vk, layout, nullptr);
  device->fn.vkDestroyDescriptorSetLayout(device->vk, set_layout, nullptr);
}

PipelineCache::PipelineCache(std::shared_ptr<const DeviceHandle> device, uint64_t kernels)
    : device_(std::move(device)) {
  const DeviceSnapshot& s = device_->snapshot();
  const std::string& folder = device_->options.cache_folder;
  if (!folder.empty()) {
    char name[128];
    char uuid[2 * VK_UUID_SIZE + 1];
    for (size_t i = 0; i < VK_UUID_SIZE; ++i) {
      std::snprintf(uuid + 2 * i, 3, "%02x", s.pipeline_cache_uuid[i]);
    }
    std::snprintf(name, sizeof(name), "/%s%04x-%04x-%08x-%s-%016llx.bin", kPrefix, s.vendor_id,
                  s.device_id, s.driver_version, uuid, static_cast<unsigned long long>(kernels));
    path_ = folder + name;
  }
  std::vector<uint8_t> data;
  if (!path_.empty()) {
    RemoveLeftovers(std::filesystem::path(path_).parent_path(), kPrefix);
    data = ReadCacheFile(path_);
  }
  file_crc_ = Crc32(data.data(), data.size());
  if (!HeaderMatches(data)) data.clear();
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  VK_CHECK("creating a cache of pipelines on " + s.name, device_->fn, vkCreatePipelineCache,
           device_->vk, &info, nullptr, &cache_);
  stored_bytes_ = data.empty() ? 0 : Bytes();
}

PipelineCache::~PipelineCache() {
  Save();
  device_->fn.vkDestroyPipelineCache(device_->vk, cache_, nullptr);
}

bool PipelineCache::HeaderMatches(const std::vector<uint8_t>& data) const {
  // Vulkan specification, "Pipeline Cache Header": not every driver checks it before use.
  VkPipelineCacheHeaderVersionOne header;
  if (data.size() < sizeof(header)) return false;
  std::memcpy(&header, data.data(), sizeof(header));
  const DeviceSnapshot& s = device_->snapshot();
  return header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header.vendorID == s.vendor_id && header.deviceID == s.device_id &&
         std::memcmp(header.pipelineCacheUUID, s.pipeline_cache_uuid.data(), VK_UUID_SIZE) == 0;
}

void PipelineCache::MarkChanged() {
  std::lock_guard<std::mutex> lock(mutex_);
  changed_ = true;
  last_change_ = std::chrono::steady_clock::now();
}

size_t PipelineCache::Bytes() const {
  size_t bytes = 0;
  const DeviceFunctions& fn = device_->fn;
  bool told = fn.vkGetPipelineCacheData(device_->vk, cache_, &bytes, nullptr) == VK_SUCCESS;
  return told ? bytes : 0;
}

void PipelineCache::Save(std::chrono::milliseconds quiet) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!changed_ || path_.empty()) return;
  if (std::chrono::steady_clock::now() - last_change_ < quiet) return;
  changed_ = false;
  try {
    Write();
  } catch (const std::exception&) {
    // Without room for a copy, here or on the disk, the next process compiles once more.
  }
}

void PipelineCache::Write() {
  size_t bytes = Bytes();
  // Pipelines out of the file add nothing: a robot's flash is not written at each start.
  if (bytes == 0 || bytes == stored_bytes_) return;
  std::vector<uint8_t> data(bytes);
  if (device_->fn.vkGetPipelineCacheData(device_->vk, cache_, &bytes, data.data()) != VK_SUCCESS) {
    return;
  }
  data.resize(bytes);
  stored_bytes_ = bytes;
  uint32_t crc = Crc32(data.data(), data.size());
  if (crc == file_crc_) return;
  file_crc_ = crc;
  WriteCacheFile(path_, data);
  KeepNewest(std::filesystem::path(path_).parent_path(), kPrefix, kMostFiles);
}

}  // namespace vulkan
}  // namespace tvm_vision
