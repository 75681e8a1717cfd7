#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <numeric>

#include "guarded.h"
#include "loading.h"
#include "network_state.h"
#include "opening.h"

namespace tvm_vision {

namespace ffi = tvm::ffi;

namespace {

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

Network Network::Load(const std::string& path, const LoadOptions& options) {
  CheckOpeningTimeout(options.opening_timeout);
  Origin origin{path, options.target, nullptr, options.opening_timeout};
  if (options.verify.has_value()) {
    origin.keys = std::make_shared<PublicKeys>(PublicKeys::Read(*options.verify));
  }
  CheckRecovery(options.recovery);
  Parts parts = LoadParts(origin, options.device);
  std::function<Parts()> fallback;
  const std::string& wanted = options.recovery.fallback;
  if (!wanted.empty() && parts.device.device_type != kDLCPU) {
    fallback = [info = parts.info, origin = parts.origin, wanted] {
      return LoadFallback(info, origin, wanted);
    };
    fallback();  // now, not when it is needed
  }
  NetworkInfo info = parts.info;
  size_t outputs = info.outputs.size();
  return Network(std::unique_ptr<State>(new State{
      std::move(info), RecoveringExecutor(std::move(parts), options.recovery, std::move(fallback)),
      std::vector<ffi::Any>(outputs)}));
}

Network::Network(std::unique_ptr<State> state) : state_(std::move(state)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

const ModelDescription& Network::model() const { return state_->info.model; }
const std::vector<TensorSpec>& Network::inputs() const { return state_->info.inputs; }
const std::vector<TensorSpec>& Network::outputs() const { return state_->info.outputs; }
std::string Network::device() const { return state_->executor.described(); }
Losses Network::losses() const { return state_->executor.losses(); }

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
  state_->executor.Call("write_input", static_cast<int64_t>(index), const_cast<void*>(data));
}

void Network::Run() { state_->executor.Call("run"); }

void Network::Frame(const std::vector<TensorView>& inputs) {
  if (inputs.size() != state_->info.inputs.size()) {
    throw Error("InputError", std::to_string(state_->info.inputs.size()) +
                                  " inputs are needed, found " + std::to_string(inputs.size()));
  }
  state_->executor.RunAgainIfLost([&] {
    for (size_t i = 0; i < inputs.size(); ++i) SetInput(i, inputs[i].data, inputs[i].bytes);
    Run();
  });
}

TensorView Network::Output(size_t index) {
  if (index >= state_->info.outputs.size()) {
    throw Error("InputError", "the network has " + std::to_string(state_->info.outputs.size()) +
                                  " outputs, numbered from 0; found number " +
                                  std::to_string(index));
  }
  ffi::Any found = state_->executor.Call("get_output", static_cast<int64_t>(index));
  return Guarded([&] {
    ffi::Tensor tensor = found.cast<ffi::Tensor>();
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
