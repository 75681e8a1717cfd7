#include "device_list.h"

#include <unistd.h>

#include <new>

#include "driver_search.h"
#include "mesa_cache.h"

namespace tvm_vision {
namespace vulkan {

DeviceList& DeviceList::Global() {
  // Never destroyed: tensors may be freed after static destructors have run. Shutdown is what ends
  // it, and asks for it where no memory is to be had.
  alignas(DeviceList) static unsigned char memory[sizeof(DeviceList)];
  static DeviceList* list = new (memory) DeviceList();
  return *list;
}

void DeviceList::Initialize() {
  if (initialized_) return RefuseAfterFork(process_);
  process_ = getpid();
  ListDevices();
  // What was not there, or failed, may come: a driver that is loaded late, memory that is freed.
  initialized_ = instance_ != nullptr && !instance_->snapshots().empty();
}

void DeviceList::ListDevices() {
  status_.clear();
  wrong_option_.clear();
  DeviceOptions options;
  try {
    options = DeviceOptions::Read();
  } catch (const tvm::ffi::Error& error) {
    wrong_option_ = error.message();
    return;
  }
  SpareMesaCacheWithoutRoom();
  const GlobalFunctions* global = LoadVulkan(options.loader, &status_);
  if (global == nullptr) return;
  try {
    instance_ = std::make_shared<Instance>(*global, options);
  } catch (const tvm::ffi::Error& error) {
    std::string fault = FaultOfNamedDrivers(ProcessEnvironment);
    status_ = fault.empty() ? error.message() : fault;
    return;
  }
  const std::vector<DeviceSnapshot>& snapshots = instance_->snapshots();
  if (snapshots.empty()) {
    status_ = WhyNoDriver(ProcessEnvironment);
    return;
  }
  std::vector<DevicePlan> plans;
  for (const DeviceSnapshot& snapshot : snapshots) {
    plans.push_back(PlanDevice(snapshot, options.separate_memory));
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
  for (size_t index : SelectDevices(snapshots, usable, options.devices, &status_)) {
    entries_.push_back({index, plans[index], nullptr});
  }
  options_ = std::move(options);
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
  CheckOptions();
  return status_;
}

void DeviceList::CheckOptions() const {
  if (!wrong_option_.empty()) TVM_VISION_THROW(InputError) << wrong_option_;
}

DeviceList::Entry& DeviceList::Find(int i) {
  Initialize();
  CheckOptions();
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
  return Open(i);
}

void DeviceList::OpenAhead(int i, uint64_t shutdowns) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (shutdowns_ == shutdowns) Open(i);
}

std::shared_ptr<Device> DeviceList::Open(int i) {
  Entry& entry = Find(i);
  // Who has the lost one keeps it; others get the device anew.
  if (entry.device && entry.device->lost()) entry.device.reset();
  if (!entry.device) {
    entry.device = std::make_shared<Device>(
        std::make_shared<DeviceHandle>(instance_, entry.physical_index, entry.plan, options_), i);
  }
  return entry.device;
}

void DeviceList::Shutdown() {
  std::lock_guard<std::mutex> guard(mutex_);
  ++shutdowns_;
  if (initialized_ && process_ != getpid()) return;  // they belong to the parent
  for (Entry& entry : entries_) entry.device.reset();
  entries_.clear();
  instance_.reset();
  initialized_ = false;
  status_.clear();
  wrong_option_.clear();
}

}  // namespace vulkan
}  // namespace tvm_vision
