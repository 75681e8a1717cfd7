#include <dlfcn.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <future>
#include <mutex>
#include <numeric>

#include "fleet.h"
#include "network_state.h"
#include "package.h"

// Of the Vulkan backend: register it with TVM's runtime, open a device, finish all work.
extern "C" void tvm_vision_vulkan_register();
extern "C" void tvm_vision_vulkan_open(int device) noexcept;
extern "C" void tvm_vision_vulkan_shutdown();

namespace tvm_vision {

namespace ffi = tvm::ffi;

namespace {

constexpr int kFirstDevice = 0;

/*! \brief Run something of TVM's; what it throws becomes an Error of the same kind. */
template <typename Call>
auto Guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const ffi::Error& error) {
    std::string kind = error.kind();
    bool ours = kind == "PackageError" || kind == "DeviceError" || kind == "DeviceLostError" ||
                kind == "InputError";
    std::string message = error.message();
    if (!ours) message = message.substr(0, message.find('\n'));
    throw Error(ours ? kind : "Error", message);
  }
}

/*! \brief Make TVM's runtime know of Vulkan and of sorts on the processor, once a process. */
void StartRuntime() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Only processors' networks that sort need it; without it these are refused by name.
    dlopen("libtvm_runtime_extra.so", RTLD_NOW | RTLD_LOCAL);
    Guarded([] { tvm_vision_vulkan_register(); });
    std::atexit(tvm_vision_vulkan_shutdown);
  });
}

/*! \brief Memory that somebody else holds, as a tensor. */
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor*) {}
};

ffi::Tensor Borrow(const StoredTensor& stored) {
  DLDataType type{stored.type_code, stored.type_bits, 1};
  return ffi::Tensor::FromNDAlloc(Borrowed{const_cast<char*>(stored.bytes.data())},
                                  ffi::Shape(stored.shape), type, {kDLCPU, 0});
}

ffi::Map<ffi::String, ffi::Tensor> Weights(const Package& package) {
  ffi::Map<ffi::String, ffi::Tensor> weights;
  for (const StoredTensor& stored : package.Params()) {
    weights.Set(ffi::String(stored.name), Borrow(stored));
  }
  return weights;
}

/*! \brief What there is to say of a Vulkan device: `describe` of tvm_vision/vulkan/device.py. */
std::string DescribeVulkan(const DeviceProperties& device) {
  auto text = [&](const char* name) { return std::string(device.at(name).cast<ffi::String>()); };
  std::string kind =
      text("type") == "cpu" ? "a CPU implementation of Vulkan, no GPU" : text("type") + " GPU";
  std::string driver = text("driver_name"), more = text("driver_info");
  driver += (driver.empty() || more.empty() ? "" : " ") + more;
  auto version = device.at("vulkan_api_version").cast<int64_t>();
  return "vulkan(" + std::to_string(kFirstDevice) + "): " + text("name") + " (" + kind + "; " +
         driver + "; Vulkan " + std::to_string(version >> 22 & 0x7F) + "." +
         std::to_string(version >> 12 & 0x3FF) + "." + std::to_string(version & 0xFFF) + ")";
}

/*! \brief The first Vulkan device, or why there is none. */
VulkanHere FirstVulkanDevice() {
  auto status = ffi::Function::GetGlobalRequired("tvm_vision.vulkan.status");
  std::string why = std::string(status().cast<ffi::String>());
  if (!why.empty()) return {std::nullopt, why};
  DeviceProperties device = ffi::Function::GetGlobalRequired("tvm_vision.vulkan.devices")()
                                .cast<ffi::Array<DeviceProperties>>()[kFirstDevice];
  return {device, DescribeVulkan(device)};
}

DLDevice ChooseDevice(const NetworkInfo& info, Device wanted) {
  bool vulkan = info.target_kind == "vulkan";
  if (wanted != Device::kAuto && (wanted == Device::kVulkan) != vulkan) {
    throw Error("DeviceError", std::string("device ") + (vulkan ? "cpu" : "vulkan") +
                                   " was asked for, but the package was compiled for " +
                                   (vulkan ? "vulkan" : "cpu") +
                                   "; compile the network with --target " +
                                   (vulkan ? "llvm" : "vulkan"));
  }
  if (!vulkan) return {kDLCPU, 0};
  auto status = ffi::Function::GetGlobalRequired("tvm_vision.vulkan.status");
  std::string why = std::string(status().cast<ffi::String>());
  if (!why.empty()) {
    throw Error("DeviceError", "the package was compiled for vulkan, but " + why +
                                   "; or compile the network with --target llvm");
  }
  return {kDLVulkan, kFirstDevice};
}

std::string DescribeDevice(DLDevice device) {
  if (device.device_type == kDLCPU) return "cpu(0): the CPU through LLVM";
  return FirstVulkanDevice().words;
}

size_t Find(const std::vector<TensorSpec>& specs, const std::string& name, const char* what) {
  std::string known;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
    known += (i == 0 ? "" : ", ") + specs[i].name;
  }
  throw Error("InputError",
              std::string("the network has no ") + what + " '" + name + "'; it has " + known);
}

size_t BytesOf(const TensorSpec& spec) {
  DLDataType type = ffi::StringToDLDataType(spec.dtype);
  int64_t count = std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1},
                                  [](int64_t x, int64_t y) { return x * y; });
  return static_cast<size_t>(count) * ((type.bits * type.lanes + 7) / 8);
}

}  // namespace

/*! \brief One loading: the device opens while the package is read and checked. */
Network Network::Load(const std::string& path, Device device, const std::string& target) {
  StartRuntime();
  Package package = Package::Read(path);
  Fields fields = Guarded([&] { return ParseInfo(package.info()); });
  if (IsFleet(fields)) {
    package.CheckInfo(fields);
    package.Select(
        Guarded([&] { return ChooseVariant(fields, device, target, FirstVulkanDevice); }));
    fields = Guarded([&] { return ParseInfo(package.info()); });
  } else if (!target.empty()) {
    throw Error("InputError", "a package for several devices is needed to take '" + target +
                                  "' of, and '" + path + "' is for one: leave the target out");
  }
  NetworkInfo info = NetworkInfo::Read(fields);
  std::future<void> opening;
  if (device != Device::kCpu && info.target_kind == "vulkan") {
    opening = std::async(std::launch::async, [] { tvm_vision_vulkan_open(kFirstDevice); });
  }
  package.Check(fields);
  if (opening.valid()) opening.wait();
  auto state = std::make_unique<State>();
  state->info = std::move(info);
  Guarded([&] {
    state->device = ChooseDevice(state->info, device);
    Package::Library file(package.library());
    try {
      state->library = ffi::Module::LoadFromFile(ffi::String(file.path()));
    } catch (const ffi::Error& error) {
      std::string message = error.message();
      throw Error("PackageError", "mod.so of the package cannot be loaded (" +
                                      message.substr(0, message.find('\n')) +
                                      "); compile the network again");
    }
    auto create = ffi::Function::GetGlobalRequired("tvm_vision.graph_executor.create");
    state->executor =
        create(ffi::String(std::string(package.info())), *state->library, state->device)
            .cast<ffi::Module>();
    auto method = [&](const char* name) {
      return *(*state->executor)->GetFunction(ffi::String(name));
    };
    method("load_params")(Weights(package));
    method("prepare")();
    state->write_input = method("write_input");
    state->run = method("run");
    state->get_output = method("get_output");
    state->described = DescribeDevice(state->device);
  });
  state->results.resize(state->info.outputs.size());
  return Network(std::move(state));
}

Network::Network(std::unique_ptr<State> state) : state_(std::move(state)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

const ModelDescription& Network::model() const { return state_->info.model; }
const std::vector<TensorSpec>& Network::inputs() const { return state_->info.inputs; }
const std::vector<TensorSpec>& Network::outputs() const { return state_->info.outputs; }
std::string Network::device() const { return state_->described; }

size_t Network::InputIndex(const std::string& name) const {
  return Find(state_->info.inputs, name, "input");
}

size_t Network::OutputIndex(const std::string& name) const {
  return Find(state_->info.outputs, name, "output");
}

void Network::SetInput(size_t index, const void* data, size_t bytes) {
  if (index >= state_->info.inputs.size()) {
    throw Error("InputError", "the network has " + std::to_string(state_->info.inputs.size()) +
                                  " inputs, numbered from 0; found number " +
                                  std::to_string(index));
  }
  const TensorSpec& spec = state_->info.inputs[index];
  size_t needed = BytesOf(spec);
  if (data == nullptr || bytes != needed) {
    throw Error("InputError", "input " + spec.name + " of " + spec.dtype + " has " +
                                  std::to_string(needed) + " bytes, found " +
                                  std::to_string(bytes) + ": pass the whole tensor");
  }
  Guarded([&] { state_->write_input(static_cast<int64_t>(index), const_cast<void*>(data)); });
}

void Network::Run() {
  Guarded([&] { state_->run(); });
}

TensorView Network::Output(size_t index) {
  if (index >= state_->info.outputs.size()) {
    throw Error("InputError", "the network has " + std::to_string(state_->info.outputs.size()) +
                                  " outputs, numbered from 0; found number " +
                                  std::to_string(index));
  }
  return Guarded([&] {
    ffi::Tensor tensor = state_->get_output(static_cast<int64_t>(index)).cast<ffi::Tensor>();
    state_->results[index] = tensor;
    const DLTensor* view = tensor.GetDLTensorPtr();
    TensorView result;
    result.data = view->data;
    result.shape.assign(view->shape, view->shape + view->ndim);
    result.dtype = std::string(ffi::DLDataTypeToString(view->dtype));
    result.bytes = ffi::GetDataSize(*view);
    return result;
  });
}

}  // namespace tvm_vision
