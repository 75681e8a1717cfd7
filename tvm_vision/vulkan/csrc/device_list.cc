#include "device_list.h"

#include <unistd.h>

#include <cstdlib>

#include "environment.h"

namespace tvm_vision {
namespace vulkan {

DeviceList& DeviceList::Global() {
  // Leaked: tensors may be freed after static destructors have run. Shutdown is what ends it.
  static DeviceList* list = new DeviceList();
  return *list;
}

void DeviceList::Initialize() {
  if (initialized_) return RefuseAfterFork(process_);
  initialized_ = true;
  process_ = getpid();
  const GlobalFunctions* global = LoadVulkan(&status_);
  if (global == nullptr) return;
  try {
    instance_ = std::make_shared<Instance>(*global);
  } catch (const tvm::ffi::Error& error) {
    status_ = error.message();
    return;
  }
  const std::vector<DeviceSnapshot>& snapshots = instance_->snapshots();
  if (snapshots.empty()) {
    status_ =
        "the Vulkan loader found no driver; install mesa-vulkan-drivers (Intel, AMD and the CPU) "
        "or the vendor's driver, and check with vulkaninfo --summary";
    return;
  }
  bool separate_memory = AskedFor("TVM_VISION_VULKAN_MEMORY", "auto", "separate", &status_);
  if (!status_.empty()) return;
  std::vector<DevicePlan> plans;
  for (const DeviceSnapshot& snapshot : snapshots) {
    plans.push_back(PlanDevice(snapshot, separate_memory));
  }
  std::vector<size_t> usable;
  std::string refusals;
  for (size_t index : OrderDevices(snapshots)) {
    if (plans[index].refusal.empty()) {
      usable.push_back(index);
    } else {
      refusals +=
          (refusals.empty() ? "" : "; ") + snapshots[index].name + ": " + plans[index].refusal;
    }
  }
  const char* selector = std::getenv("TVM_VISION_VULKAN_DEVICE");
  std::vector<size_t> selected =
      SelectDevices(snapshots, usable, selector == nullptr ? "" : selector, &status_);
  for (size_t index : selected) entries_.push_back({index, plans[index], nullptr});
  if (entries_.empty() && status_.empty()) {
    status_ = "no Vulkan device of this machine can be used: " + refusals;
  }
}

size_t DeviceList::size() {
  std::lock_guard<std::mutex> guard(mutex_);
  Initialize();
  return entries_.size();
}

std::string DeviceList::status() {
  std::lock_guard<std::mutex> guard(mutex_);
  Initialize();
  return status_;
}

DeviceList::Entry& DeviceList::Find(int i) {
  Initialize();
  if (entries_.empty()) {
    TVM_VISION_THROW(DeviceError) << "a Vulkan device was needed, but " << status_;
  }
  if (i < 0 || static_cast<size_t>(i) >= entries_.size()) {
    TVM_VISION_THROW(DeviceError) << "vulkan(" << i << ") was asked for, but this machine has "
                                  << entries_.size() << " Vulkan device"
                                  << (entries_.size() == 1 ? "" : "s") << ", numbered from 0";
  }
  return entries_[static_cast<size_t>(i)];
}

const DeviceSnapshot& DeviceList::snapshot(int i) {
  std::lock_guard<std::mutex> guard(mutex_);
  size_t index = Find(i).physical_index;
  return instance_->snapshots()[index];
}

const DevicePlan& DeviceList::plan(int i) {
  std::lock_guard<std::mutex> guard(mutex_);
  return Find(i).plan;
}

uint64_t DeviceList::AvailableMemory(int i) {
  std::lock_guard<std::mutex> guard(mutex_);
  size_t index = Find(i).physical_index;
  return instance_->AvailableMemory(index);
}

std::shared_ptr<Device> DeviceList::Get(int i) {
  std::lock_guard<std::mutex> guard(mutex_);
  Entry& entry = Find(i);
  // Who has the lost one keeps it; others get the device anew.
  if (entry.device && entry.device->lost()) entry.device.reset();
  if (!entry.device) {
    entry.device = std::make_shared<Device>(
        std::make_shared<DeviceHandle>(instance_, entry.physical_index, entry.plan), i);
  }
  return entry.device;
}

void DeviceList::Shutdown() {
  std::lock_guard<std::mutex> guard(mutex_);
  if (initialized_ && process_ != getpid()) return;  // they belong to the parent
  for (Entry& entry : entries_) entry.device.reset();
  entries_.clear();
  instance_.reset();
  initialized_ = false;
  status_.clear();
}

}  // namespace vulkan
}  // namespace tvm_vision
