/*!
 * \file device_api.cc
 * \brief TVM's DeviceAPI for Vulkan, its timer, and the functions that Python sees.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/timer.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>

#include "buffer_registry.h"
#include "device_info.h"
#include "device_list.h"
#include "refusals.h"

namespace tvm_vision {
namespace vulkan {

namespace ffi = tvm::ffi;
using tvm::runtime::DeviceAttrKind;

namespace {

std::string VersionText(uint32_t version) {
  std::ostringstream os;
  os << VK_API_VERSION_MAJOR(version) << "." << VK_API_VERSION_MINOR(version) << "."
     << VK_API_VERSION_PATCH(version);
  return os.str();
}

/*! \brief The DeviceAPI that TVM calls; stateless, all state lives in DeviceList and
 * BufferRegistry. */
class VulkanDeviceAPI final : public tvm::runtime::DeviceAPI {
 public:
  // Every buffer knows its device, so there is no current device to remember.
  void SetDevice(DLDevice) final {}

  void GetAttr(DLDevice dev, DeviceAttrKind kind, ffi::Any* rv) final {
    DeviceList& devices = DeviceList::Global();
    if (kind == tvm::runtime::kExist) {
      *rv = dev.device_id >= 0 && static_cast<size_t>(dev.device_id) < devices.size();
      return;
    }
    const DeviceSnapshot& s = devices.snapshot(dev.device_id);
    switch (kind) {
      case tvm::runtime::kMaxThreadsPerBlock:
        *rv = static_cast<int64_t>(s.max_workgroup_invocations);
        break;
      case tvm::runtime::kWarpSize:
        *rv = static_cast<int64_t>(s.subgroup_size);
        break;
      case tvm::runtime::kMaxSharedMemoryPerBlock:
        *rv = static_cast<int64_t>(s.max_shared_memory);
        break;
      case tvm::runtime::kComputeVersion:
        *rv = ffi::String(VersionText(s.api_version));
        break;
      case tvm::runtime::kDeviceName:
        *rv = ffi::String(s.name);
        break;
      case tvm::runtime::kMultiProcessorCount:
        if (s.compute_units != 0) *rv = static_cast<int64_t>(s.compute_units);
        break;
      case tvm::runtime::kMaxThreadDimensions: {
        std::ostringstream os;
        os << "[" << s.max_workgroup_size[0] << ", " << s.max_workgroup_size[1] << ", "
           << s.max_workgroup_size[2] << "]";
        *rv = ffi::String(os.str());
        break;
      }
      case tvm::runtime::kApiVersion:
        *rv = static_cast<int64_t>(s.api_version);
        break;
      case tvm::runtime::kDriverVersion:
        *rv = ffi::String(s.driver_info.empty() ? VersionText(s.driver_version) : s.driver_info);
        break;
      case tvm::runtime::kTotalGlobalMemory:
        *rv = TensorMemoryBytes(s, devices.plan(dev.device_id));
        break;
      case tvm::runtime::kAvailableGlobalMemory: {
        uint64_t available = devices.AvailableMemory(dev.device_id);
        if (available != 0) *rv = static_cast<int64_t>(available);
        break;
      }
      default:
        // Clock rate, registers and cache sizes: Vulkan has no query for them, None says so.
        break;
    }
  }

  void GetTargetProperty(DLDevice dev, const std::string& property, ffi::Any* rv) final {
    *rv = TargetProperty(DeviceList::Global().snapshot(dev.device_id), property);
  }

  void* AllocDataSpace(DLDevice dev, size_t nbytes, size_t, DLDataType) final {
    return TellingRefusals([&] {
      std::shared_ptr<Device> device = DeviceList::Global().Get(dev.device_id);
      std::shared_ptr<Buffer> buffer = device->AllocateTensor(nbytes);
      return BufferRegistry::Global().Add({std::move(buffer), std::move(device)});
    });
  }

  void FreeDataSpace(DLDevice, void* ptr) final { BufferRegistry::Global().Remove(ptr); }

  void StreamSync(DLDevice dev, TVMStreamHandle stream) final {
    TellingRefusals([&] {
      std::shared_ptr<Device> device = DeviceList::Global().Get(dev.device_id);
      if (stream == nullptr) {
        device->Synchronize();
      } else {
        device->Synchronize(device->FindStream(stream));
      }
    });
  }

  TVMStreamHandle CreateStream(DLDevice dev) final {
    return TellingRefusals(
        [&] { return DeviceList::Global().Get(dev.device_id)->CreateStream().get(); });
  }

  void FreeStream(DLDevice dev, TVMStreamHandle stream) final {
    std::shared_ptr<Device> device = DeviceList::Global().Get(dev.device_id);
    if (stream != nullptr) device->DestroyStream(device->FindStream(stream));
  }

  void SyncStreamFromTo(DLDevice dev, TVMStreamHandle from, TVMStreamHandle to) final {
    // Streams share one queue and each submission waits for those before it, so handing both over
    // in this order is all that is needed.
    std::shared_ptr<Device> device = DeviceList::Global().Get(dev.device_id);
    std::shared_ptr<Stream> first = device->FindStream(from);
    std::shared_ptr<Stream> second = device->FindStream(to);
    std::lock_guard<std::mutex> guard(device->lock());
    second->Flush();
    first->Flush();
  }

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset,
                      size_t nbytes, DLDevice dev_from, DLDevice dev_to, DLDataType,
                      TVMStreamHandle stream) final {
    if (nbytes == 0) return;
    TellingRefusals(
        [&] { Copy(from, from_offset, to, to_offset, nbytes, dev_from, dev_to, stream); });
  }

 private:
  static void Copy(const void* from, size_t from_offset, void* to, size_t to_offset, size_t nbytes,
                   DLDevice dev_from, DLDevice dev_to, TVMStreamHandle stream) {
    bool from_vulkan = dev_from.device_type == kDLVulkan;
    bool to_vulkan = dev_to.device_type == kDLVulkan;
    uint8_t* host_to = static_cast<uint8_t*>(to) + to_offset;
    const uint8_t* host_from = static_cast<const uint8_t*>(from) + from_offset;
    if (from_vulkan && to_vulkan) {
      CopyBetween(Locate(from, from_offset, nbytes), from_offset, Locate(to, to_offset, nbytes),
                  to_offset, nbytes, stream);
    } else if (to_vulkan) {
      RegisteredBuffer target = Locate(to, to_offset, nbytes);
      target.device->Upload(host_from, target.buffer, to_offset, nbytes,
                            StreamOf(*target.device, stream));
    } else {
      RegisteredBuffer source = Locate(from, from_offset, nbytes);
      source.device->Download(source.buffer, from_offset, host_to, nbytes,
                              StreamOf(*source.device, stream));
    }
  }

  static std::shared_ptr<Stream> StreamOf(Device& device, TVMStreamHandle stream) {
    return stream == nullptr ? device.CurrentStream() : device.FindStream(stream);
  }

  static RegisteredBuffer Locate(const void* handle, size_t offset, size_t nbytes) {
    RegisteredBuffer found = BufferRegistry::Global().Find(handle, "a copy");
    if (offset + nbytes > found.buffer->size()) {
      TVM_VISION_THROW(DeviceError) << "a copy of " << nbytes << " bytes at offset " << offset
                                    << " runs past the end of a tensor of " << found.buffer->size()
                                    << " bytes; compare the shapes of both sides";
    }
    return found;
  }

  static void CopyBetween(const RegisteredBuffer& from, size_t from_offset,
                          const RegisteredBuffer& to, size_t to_offset, size_t nbytes,
                          TVMStreamHandle stream) {
    if (from.device == to.device) {
      from.device->CopyOnDevice(from.buffer, from_offset, to.buffer, to_offset, nbytes,
                                StreamOf(*from.device, stream));
      return;
    }
    std::vector<uint8_t> host(nbytes);
    from.device->Download(from.buffer, from_offset, host.data(), nbytes,
                          from.device->CurrentStream());
    to.device->Upload(host.data(), to.buffer, to_offset, nbytes, to.device->CurrentStream());
  }
};

/*! \brief Device time between Start and Stop, from timestamps in the command stream. */
class VulkanTimerNode : public tvm::runtime::TimerNode {
 public:
  explicit VulkanTimerNode(DLDevice dev)
      : device_(DeviceList::Global().Get(dev.device_id)), stream_(device_->CurrentStream()) {
    if (device_->handle().plan.timestamp_bits != 0) {
      timestamps_ = std::make_shared<Timestamps>(device_->shared_handle(), 2);
    }
  }

  ~VulkanTimerNode() override {
    if (!running_) return;
    std::lock_guard<std::mutex> guard(device_->lock());
    --stream_->timers_running;
  }

  void Start() override {
    if (!timestamps_) {
      device_->Synchronize(stream_);
      host_start_ = std::chrono::steady_clock::now();
      return;
    }
    std::lock_guard<std::mutex> guard(device_->lock());
    // Work from before would otherwise share the measured submission and delay its start.
    stream_->Flush();
    stream_->WriteTimestamp(timestamps_, 0);
    ++stream_->timers_running;
    running_ = true;
  }

  void Stop() override {
    if (!timestamps_) {
      device_->Synchronize(stream_);
      host_nanoseconds_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::steady_clock::now() - host_start_)
                              .count();
      return;
    }
    std::lock_guard<std::mutex> guard(device_->lock());
    stream_->WriteTimestamp(timestamps_, 1);
    --stream_->timers_running;
    running_ = false;
    if (stream_->timers_running == 0) stream_->Flush();
  }

  int64_t SyncAndGetElapsedNanos() override {
    if (!timestamps_) return host_nanoseconds_;
    device_->Synchronize(stream_);
    return timestamps_->Nanoseconds()[1];
  }

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_vision.vulkan.Timer", VulkanTimerNode,
                                    tvm::runtime::TimerNode);

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Timestamps> timestamps_;
  bool running_ = false;
  std::chrono::steady_clock::time_point host_start_;
  int64_t host_nanoseconds_ = 0;
};

/*! \brief Make TVM use this backend. \return False when another one is there and must stay. */
bool Register(bool replace_existing) {
  bool existing = ffi::Function::GetGlobal("device_api.vulkan").has_value();
  if (existing && !replace_existing) return false;
  static VulkanDeviceAPI api;
  ffi::Function::SetGlobal("device_api.vulkan",
                           ffi::Function::FromTyped([]() { return static_cast<void*>(&api); }),
                           true);
  ffi::Function::SetGlobal("device_api.vulkan.get_target_property",
                           ffi::Function::FromTyped([](DLDevice dev, const ffi::String& name) {
                             ffi::Any value;
                             api.GetTargetProperty(dev, std::string(name), &value);
                             return value;
                           }),
                           true);
  ffi::Function::SetGlobal("runtime.timer.vulkan", ffi::Function::FromTyped([](DLDevice dev) {
                             return tvm::runtime::Timer(ffi::make_object<VulkanTimerNode>(dev));
                           }),
                           true);
  ffi::Function::SetGlobal("ffi.Module.load_from_bytes.vulkan",
                           ffi::Function::GetGlobalRequired("tvm_vision.vulkan.module_load"), true);
  return true;
}

ffi::Array<ffi::Any> Devices() {
  DeviceList& list = DeviceList::Global();
  list.status();
  ffi::Array<ffi::Any> devices;
  for (size_t i = 0; i < list.size(); ++i) {
    int number = static_cast<int>(i);
    devices.push_back(DescribeDevice(list.snapshot(number), list.plan(number)));
  }
  return devices;
}

/*! \brief What the environment says now, by variable; as bytes, for names of files may be any. */
ffi::Map<ffi::String, ffi::Any> ReadOptions() {
  const DeviceOptions options = DeviceOptions::Read();
  ffi::Map<ffi::String, ffi::Any> values;
  for (const DeviceOption& option : DeviceOptionTable()) {
    values.Set(option.variable, ffi::Bytes(option.written(options)));
  }
  return values;
}

/*! \brief Of each variable: name, values, default, when it is read, meaning. */
ffi::Array<ffi::Any> DescribeOptions() {
  ffi::Array<ffi::Any> rows;
  for (const DeviceOption& o : DeviceOptionTable()) {
    rows.push_back(ffi::Array<ffi::String>({o.variable, o.values, o.usual, o.when, o.meaning}));
  }
  return rows;
}

ffi::Map<ffi::String, ffi::Any> MemoryInUse(int64_t device) {
  MemoryStatistics s = DeviceList::Global().Get(static_cast<int>(device))->TensorStatistics();
  ffi::Map<ffi::String, ffi::Any> result;
  result.Set("used_bytes", static_cast<int64_t>(s.used_bytes));
  result.Set("reserved_bytes", static_cast<int64_t>(s.reserved_bytes));
  result.Set("peak_used_bytes", static_cast<int64_t>(s.peak_used_bytes));
  result.Set("allocations", static_cast<int64_t>(s.allocations));
  result.Set("blocks", static_cast<int64_t>(s.blocks));
  return result;
}

ffi::String Status() { return ffi::String(DeviceList::Global().status()); }

ffi::Array<ffi::String> PipelineCachePaths(int64_t device) {
  ffi::Array<ffi::String> paths;
  for (const auto& cache : DeviceList::Global().Get(static_cast<int>(device))->PipelineCaches()) {
    if (!cache->path().empty()) paths.push_back(ffi::String(cache->path()));
  }
  return paths;
}

ffi::Array<ffi::String> ValidationMessages() {
  ffi::Array<ffi::String> result;
  for (const std::string& message : Instance::validation_log().Take()) result.push_back(message);
  return result;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tvm_vision.vulkan.register", Telling(Register))
      .def("tvm_vision.vulkan.devices", Telling(Devices))
      .def("tvm_vision.vulkan.status", Telling(Status))
      .def("tvm_vision.vulkan.options", Telling(ReadOptions))
      .def("tvm_vision.vulkan.describe_options", Telling(DescribeOptions))
      .def("tvm_vision.vulkan.memory_in_use", Telling(MemoryInUse))
      .def("tvm_vision.vulkan.validation_messages", Telling(ValidationMessages))
      .def("tvm_vision.vulkan.pipeline_cache_paths", Telling(PipelineCachePaths))
      .def("tvm_vision.vulkan.shutdown", [] { DeviceList::Global().Shutdown(); });
}

}  // namespace vulkan
}  // namespace tvm_vision

/*
 * For a process that has loaded this library, and no Python of TVM's yet, which takes longer than a
 * device to open.
 */

/*! \brief Make TVM use this backend, whatever is there already.
 * \return NULL, or why it could not be. */
extern "C" __attribute__((visibility("default"))) const char*
tvm_vision_vulkan_register() noexcept {
  try {
    tvm_vision::vulkan::Register(true);
    return nullptr;
  } catch (const std::bad_alloc&) {
    return tvm_vision::vulkan::kOutOfMemory;
  } catch (const std::exception& error) {
    static char why[512];
    std::snprintf(why, sizeof(why), "%s", error.what());
    return why;
  }
}

/*! \brief How often devices were let go so far, for who is about to open one ahead. */
extern "C" __attribute__((visibility("default"))) uint64_t tvm_vision_vulkan_shutdowns() {
  return tvm_vision::vulkan::DeviceList::Global().shutdowns();
}

/*! \brief Open a device ahead of its use, unless devices were let go since. What is wrong with it
 * is said by whoever uses it. */
extern "C" __attribute__((visibility("default"))) void tvm_vision_vulkan_open(
    int device, uint64_t shutdowns) noexcept {
  // The driver's compiler is loaded here, which may leave nothing.
  tvm_vision::vulkan::ReadyToThrow();
  try {
    tvm_vision::vulkan::DeviceList::Global().OpenAhead(device, shutdowns);
  } catch (const std::exception&) {
  }
}

/*! \brief Finish all work and let go of every device. */
extern "C" __attribute__((visibility("default"))) void tvm_vision_vulkan_shutdown() {
  tvm_vision::vulkan::DeviceList::Global().Shutdown();
}
