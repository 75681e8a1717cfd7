#include "stream.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "device.h"

namespace tvm_vision {
namespace vulkan {

namespace {

/*! \brief Operations after which a recording is handed over, so that the device starts early. */
constexpr uint32_t kOperationsPerSubmit = 48;
/*! \brief Bytes copied after which a recording is handed over: the device copies them while the
 * host prepares the next ones. */
constexpr uint64_t kCopiedPerSubmit = 2u << 20;
/*! \brief Operations in one submission under a timer; bounds the command buffer's memory. */
constexpr uint32_t kOperationsPerTimedSubmit = 16384;
constexpr uint32_t kSetsPerPool = 64;
constexpr VkPipelineStageFlags kDeviceStages =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

/*! \brief What is being done where recording fails. */
std::string Doing(const DeviceHandle& device) {
  return "recording commands for " + device.snapshot().name;
}

BufferAccess AccessOf(const std::shared_ptr<Buffer>& buffer, uint64_t offset, uint64_t bytes,
                      bool reads, bool writes) {
  uint64_t begin = buffer->offset() + offset;
  return {buffer->owner().get(), begin, begin + bytes, reads, writes};
}

}  // namespace

Recording::Recording(std::shared_ptr<const DeviceHandle> device, Empty)
    : place(1), device_(std::move(device)) {}

Recording::Recording(std::shared_ptr<const DeviceHandle> device)
    : Recording(std::move(device), Empty()) {
  std::string doing = Doing(*device_);
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool_info.queueFamilyIndex = device_->plan.queue_family;
  VK_CHECK(doing, device_->fn, vkCreateCommandPool, device_->vk, &pool_info, nullptr, &pool_);
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VK_CHECK(doing, device_->fn, vkAllocateCommandBuffers, device_->vk, &info, &cmd);
}

Recording::~Recording() {
  for (VkDescriptorPool pool : descriptor_pools_) {
    device_->fn.vkDestroyDescriptorPool(device_->vk, pool, nullptr);
  }
  device_->fn.vkDestroyCommandPool(device_->vk, pool_, nullptr);
}

void Recording::Begin(uint64_t new_id, bool reusable) {
  id = new_id;
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = reusable ? 0 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  VK_CHECK(Doing(*device_), device_->fn, vkBeginCommandBuffer, cmd, &info);
  // Whatever was submitted before, by this stream or another, comes first.
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                          VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                          VK_ACCESS_UNIFORM_READ_BIT;
  device_->fn.vkCmdPipelineBarrier(cmd, kDeviceStages, kDeviceStages, 0, 1, &barrier, 0, nullptr, 0,
                                   nullptr);
}

void Recording::End() {
  // Waiting for the timeline does not make writes visible to the host; this does.
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
  device_->fn.vkCmdPipelineBarrier(cmd, kDeviceStages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                                   0, nullptr, 0, nullptr);
  VK_CHECK(Doing(*device_), device_->fn, vkEndCommandBuffer, cmd);
}

bool Recording::Recycle() {
  buffers.clear();
  kept.clear();
  bool reset = device_->fn.vkResetCommandPool(device_->vk, pool_, 0) == VK_SUCCESS;
  for (VkDescriptorPool pool : descriptor_pools_) {
    device_->fn.vkResetDescriptorPool(device_->vk, pool, 0);
  }
  current_pool_ = 0;
  id = value = copied_bytes = 0;
  operations = barriers = 0;
  return reset;
}

void Recording::NewDescriptorPool(uint32_t storage_buffers) {
  VkDescriptorPoolSize sizes[2] = {
      {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, std::max(storage_buffers, kSetsPerPool * 6)},
      {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, kSetsPerPool}};
  VkDescriptorPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  info.maxSets = kSetsPerPool;
  info.poolSizeCount = 2;
  info.pPoolSizes = sizes;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  descriptor_pools_.reserve(descriptor_pools_.size() + 1);
  VK_CHECK(Doing(*device_), device_->fn, vkCreateDescriptorPool, device_->vk, &info, nullptr,
           &pool);
  descriptor_pools_.push_back(pool);
}

VkDescriptorSet Recording::AllocateSet(VkDescriptorSetLayout layout, uint32_t storage_buffers) {
  VkDescriptorSetAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  for (; current_pool_ < descriptor_pools_.size(); ++current_pool_) {
    info.descriptorPool = descriptor_pools_[current_pool_];
    if (device_->fn.vkAllocateDescriptorSets(device_->vk, &info, &set) == VK_SUCCESS) return set;
  }
  NewDescriptorPool(storage_buffers);
  info.descriptorPool = descriptor_pools_.back();
  VK_CHECK(Doing(*device_), device_->fn, vkAllocateDescriptorSets, device_->vk, &info, &set);
  return set;
}

Timestamps::Timestamps(std::shared_ptr<const DeviceHandle> owner, uint32_t number)
    : device(std::move(owner)), count(number) {
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = count;
  VK_CHECK("timing on " + device->snapshot().name, device->fn, vkCreateQueryPool, device->vk, &info,
           nullptr, &pool);
}

Timestamps::~Timestamps() { device->fn.vkDestroyQueryPool(device->vk, pool, nullptr); }

std::vector<uint64_t> Timestamps::Ticks() const {
  std::vector<uint64_t> ticks(count);
  VK_CHECK("timing on " + device->snapshot().name, device->fn, vkGetQueryPoolResults, device->vk,
           pool, 0, count, ticks.size() * sizeof(uint64_t), ticks.data(), sizeof(uint64_t),
           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  return ticks;
}

int64_t Timestamps::Between(uint64_t from, uint64_t to) const {
  uint32_t bits = device->plan.timestamp_bits;
  uint64_t mask = bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
  double period = static_cast<double>(device->snapshot().timestamp_period);
  uint64_t later = (to - from) & mask, earlier = (from - to) & mask;
  return later <= earlier ? static_cast<int64_t>(static_cast<double>(later) * period)
                          : -static_cast<int64_t>(static_cast<double>(earlier) * period);
}

std::vector<int64_t> Timestamps::Nanoseconds() const {
  std::vector<uint64_t> ticks = Ticks();
  std::vector<int64_t> elapsed;
  for (uint64_t tick : ticks) elapsed.push_back(Between(ticks[0], tick));
  return elapsed;
}

std::vector<int64_t> Timestamps::OnHostClock(int64_t* deviation) const {
  if (device->snapshot().clock_extension.empty()) return {};
  VkCalibratedTimestampInfoEXT clocks[2]{};
  clocks[0].sType = clocks[1].sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT;
  clocks[0].timeDomain = VK_TIME_DOMAIN_DEVICE_EXT;
  clocks[1].timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
  uint64_t now[2], apart = 0;
  VK_CHECK("timing on " + device->snapshot().name, device->fn, vkGetCalibratedTimestampsEXT,
           device->vk, 2, clocks, now, &apart);
  *deviation = static_cast<int64_t>(apart);
  std::vector<int64_t> times;
  for (uint64_t tick : Ticks())
    times.push_back(static_cast<int64_t>(now[1]) + Between(now[0], tick));
  return times;
}

Recording& Stream::Open() {
  if (!recording_) {
    recording_ = device_->NewRecording();
    hazards_.Reset();
  }
  return *recording_;
}

void Stream::Use(const std::shared_ptr<Buffer>& used) {
  Recording& recording = Open();
  std::shared_ptr<Buffer> buffer = used->owner();
  if (buffer->last_recording == recording.id) return;
  device_->FlushRecording(buffer->last_recording);
  // Before the buffer counts as held.
  recording.buffers.push_back(buffer);
  buffer->last_recording = recording.id;
}

void Stream::BarrierIfNeeded(const std::vector<BufferAccess>& accesses) {
  try {
    if (hazards_.Access(accesses)) EmitBarrier();
  } catch (const std::bad_alloc&) {
    // What is no longer remembered has to be over.
    FullBarrier();
    throw;
  }
}

void Stream::FullBarrier() {
  Open();
  hazards_.Reset();
  EmitBarrier();
}

void Stream::EmitBarrier() {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                          VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  ++recording_->barriers;
  device_->handle().fn.vkCmdPipelineBarrier(recording_->cmd, kDeviceStages, kDeviceStages, 0, 1,
                                            &barrier, 0, nullptr, 0, nullptr);
}

void Stream::FlushIfLong() {
  ++recording_->operations;
  if (capturing_) return;
  uint32_t limit = timers_running > 0 ? kOperationsPerTimedSubmit : kOperationsPerSubmit;
  if (recording_->operations >= limit || recording_->copied_bytes >= kCopiedPerSubmit) Flush();
}

void Stream::Launch(const std::shared_ptr<const Pipeline>& pipeline,
                    const std::vector<std::shared_ptr<Buffer>>& buffers, const void* scalars,
                    const std::array<uint32_t, 3>& grid) {
  const DeviceFunctions& fn = device_->handle().fn;
  std::shared_ptr<Buffer> uniform;
  if (pipeline->scalars_in_uniform_buffer) {
    uniform = device_->AllocateUpload(pipeline->scalar_bytes);
    std::memcpy(uniform->mapped(), scalars, pipeline->scalar_bytes);
  }
  std::vector<BufferAccess> accesses;
  std::vector<VkDescriptorBufferInfo> infos;
  for (size_t i = 0; i < buffers.size(); ++i) {
    Use(buffers[i]);
    const BindingAccess& access = pipeline->access[i];
    accesses.push_back(AccessOf(buffers[i], 0, buffers[i]->size(), access.reads, access.writes));
    // Kernels may see bytes as words; memory is handed out in whole ones.
    uint64_t words = (buffers[i]->size() + 3) / 4 * 4;
    infos.push_back({buffers[i]->vk(), buffers[i]->offset(), words});
  }
  if (uniform) {
    Use(uniform);
    infos.push_back({uniform->vk(), uniform->offset(), uniform->size()});
  }
  Recording& recording = Open();
  BarrierIfNeeded(accesses);
  VkDescriptorSet set = recording.AllocateSet(pipeline->set_layout, pipeline->num_buffers);
  std::vector<VkWriteDescriptorSet> writes(infos.size());
  for (uint32_t i = 0; i < infos.size(); ++i) {
    writes[i] = {};
    writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    writes[i].dstSet = set;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType =
        i < buffers.size() ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    writes[i].pBufferInfo = &infos[i];
  }
  fn.vkUpdateDescriptorSets(device_->handle().vk, static_cast<uint32_t>(writes.size()),
                            writes.data(), 0, nullptr);
  recording.kept.push_back(pipeline);
  fn.vkCmdBindPipeline(recording.cmd, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->vk);
  fn.vkCmdBindDescriptorSets(recording.cmd, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->layout, 0, 1,
                             &set, 0, nullptr);
  if (pipeline->scalar_bytes != 0 && !uniform) {
    fn.vkCmdPushConstants(recording.cmd, pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          pipeline->scalar_bytes, scalars);
  }
  fn.vkCmdDispatch(recording.cmd, grid[0], grid[1], grid[2]);
  FlushIfLong();
}

void Stream::Copy(const std::shared_ptr<Buffer>& from, uint64_t from_offset,
                  const std::shared_ptr<Buffer>& to, uint64_t to_offset, uint64_t bytes) {
  Use(from);
  Use(to);
  BarrierIfNeeded({AccessOf(from, from_offset, bytes, true, false),
                   AccessOf(to, to_offset, bytes, false, true)});
  VkBufferCopy region{from->offset() + from_offset, to->offset() + to_offset, bytes};
  device_->handle().fn.vkCmdCopyBuffer(recording_->cmd, from->vk(), to->vk(), 1, &region);
  recording_->copied_bytes += bytes;
  FlushIfLong();
}

void Stream::WriteTimestamp(const std::shared_ptr<const Timestamps>& timestamps, uint32_t index) {
  Recording& recording = Open();
  const DeviceFunctions& fn = device_->handle().fn;
  if (index == 0) {
    recording.kept.push_back(timestamps);
    fn.vkCmdResetQueryPool(recording.cmd, timestamps->pool, 0, timestamps->count);
  }
  FullBarrier();
  fn.vkCmdWriteTimestamp(recording.cmd, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timestamps->pool,
                         index);
}

uint64_t Stream::Flush() {
  if (capturing_) {
    TVM_VISION_THROW(DeviceError)
        << "a kernel waits for the device or copies while the network is being "
           "recorded, which cannot be repeated; compile the network again";
  }
  if (recording_) last_value_ = device_->Submit(std::move(recording_));
  return last_value_;
}

}  // namespace vulkan
}  // namespace tvm_vision
