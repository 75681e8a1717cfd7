/*!
 * \file graph_executor.cc
 * \brief The graph executor as a module of TVM's runtime: the functions that Python and C++ call.
 */
#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>

#include <set>
#include <sstream>

#include "graph_runner.h"
#include "one_user.h"
#include "vulkan/csrc/device_options.h"
#include "vulkan/csrc/refusals.h"
#include "vulkan/csrc/wait_limit.h"

namespace tvm_vision {
namespace runtime {

namespace ffi = tvm::ffi;

namespace {

std::string ShapeText(const int64_t* shape, size_t ndim) {
  std::ostringstream os;
  os << "(";
  for (size_t i = 0; i < ndim; ++i) os << (i == 0 ? "" : ", ") << shape[i];
  os << ")";
  return os.str();
}

std::string DeviceTypeName(int type) {
  try {
    return tvm::runtime::DLDeviceType2Str(type);
  } catch (const ffi::Error&) {
    return "device type " + std::to_string(type);
  }
}

/*! \brief Memory of a tensor on the CPU, for outputs. */
struct CpuAllocator {
  void AllocData(DLTensor* tensor) {
    size_t bytes = ffi::GetDataSize(*tensor);
    tensor->data = tvm::runtime::DeviceAPI::Get({kDLCPU, 0})
                       ->AllocDataSpace({kDLCPU, 0}, bytes == 0 ? 1 : bytes,
                                        tvm::runtime::kAllocAlignment, tensor->dtype);
  }
  void FreeData(DLTensor* tensor) {
    tvm::runtime::DeviceAPI::Get({kDLCPU, 0})->FreeDataSpace({kDLCPU, 0}, tensor->data);
  }
};

ffi::Tensor NewCpuTensor(const GraphTensor& like) {
  return ffi::Tensor::FromNDAlloc(CpuAllocator(), ffi::Shape(like.shape), like.dtype, {kDLCPU, 0});
}

constexpr const char* kOneThread =
    "make an executor for each thread, of one library, or hold a lock from set_input "
    "to get_output";

/*! \brief Frames in order through the slots: the next to fill, and those that are on their way. */
class GraphExecutor : public ffi::ModuleObj {
 public:
  GraphExecutor(const std::string& json, const ffi::Module& library, DLDevice device)
      : graph_(ReadGraph(json)) {
    const vulkan::DeviceOptions options = vulkan::DeviceOptions::Read();
    if (device.device_type == kDLCPU) {
      runner_ = CreateCpuRunner(graph_, library, options);
    } else if (device.device_type == kDLVulkan) {
      runner_ = CreateVulkanRunner(graph_, library, device.device_id, options);
    } else {
      TVM_VISION_THROW(InputError)
          << "a graph executor runs on cpu or vulkan, found " << DeviceTypeName(device.device_type)
          << "; create it with tvm.cpu(0) or tvm.vulkan(0)";
    }
  }

  const char* kind() const final { return "tvm_vision.graph_executor"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    return vulkan::TellingRefusals([&] { return Find(std::string(name)); });
  }

 private:
  using Method = void (GraphExecutor::*)(ffi::PackedArgs, ffi::Any*);
  /*! \brief What one thread at a time may call. */
  static const std::map<std::string, Method>& Methods();
  /*! \brief What any thread may ask for at any time. */
  static const std::map<std::string, Method>& Constants();

  ffi::Optional<ffi::Function> Find(const std::string& name) {
    ffi::ObjectPtr<ffi::Object> self = ffi::GetObjectPtr<ffi::Object>(this);
    auto found = Methods().find(name);
    if (found == Methods().end()) {
      auto constant = Constants().find(name);
      if (constant == Constants().end()) return std::nullopt;
      return ffi::Function::FromPacked(
          [self, this, method = constant->second](ffi::PackedArgs args, ffi::Any* rv) {
            vulkan::TellingRefusals([&] { (this->*method)(args, rv); });
          });
    }
    Method method = found->second;
    const char* called = found->first.c_str();
    return ffi::Function::FromPacked(
        [self, this, method, called](ffi::PackedArgs args, ffi::Any* rv) {
          OneCall::Scope call(&calls_, called);
          vulkan::WaitLimit::Scope limit(time_limit_);
          vulkan::TellingRefusals([&] { (this->*method)(args, rv); });
        });
  }

  size_t InputIndex(ffi::AnyView key) {
    if (auto name = key.try_cast<ffi::String>()) return graph_.FindInput(std::string(*name));
    return Index(Number(key, "input"), graph_.inputs.size(), "input");
  }
  size_t OutputIndex(ffi::AnyView key) {
    if (auto name = key.try_cast<ffi::String>()) return graph_.FindOutput(std::string(*name));
    return Index(Number(key, "output"), graph_.outputs.size(), "output");
  }
  static int64_t Number(ffi::AnyView key, const char* what) {
    if (auto number = key.try_cast<int64_t>()) return *number;
    TVM_VISION_THROW(InputError) << "an " << what
                                 << " goes by its number or name, found a value of "
                                 << "type " << key.GetTypeKey();
  }
  static size_t Index(int64_t i, size_t count, const char* what) {
    if (i >= 0 && static_cast<size_t>(i) < count) return static_cast<size_t>(i);
    TVM_VISION_THROW(InputError) << "the network has " << count << " " << what
                                 << "s, numbered from 0; "
                                 << "found number " << i;
  }

  void LoadParams(ffi::PackedArgs args, ffi::Any*) {
    auto params = args[0].cast<ffi::Map<ffi::String, ffi::Tensor>>();
    for (const auto& [name, id] : graph_.params) {
      auto found = params.find(ffi::String(name));
      if (found == params.end()) {
        TVM_VISION_THROW(PackageError) << "the parameters lack " << name
                                       << ", which the network needs; compile the network again";
      }
      ffi::Tensor value = (*found).second;
      CheckValue(graph_.tensors[id], *value.GetDLTensorPtr(), "parameter " + name);
      runner_->LoadParam(id, *OnHost(value).GetDLTensorPtr());
    }
    params_loaded_ = true;
  }

  void SetInput(ffi::PackedArgs args, ffi::Any*) {
    size_t i = InputIndex(args[0]);
    ffi::Tensor value = args[1].cast<ffi::Tensor>();
    CheckValue(graph_.tensors[graph_.inputs[i]], *value.GetDLTensorPtr(),
               "input " + graph_.input_names[i]);
    runner_->SetInput(next_, i, value);
    InputIsSet(i);
  }

  /*! \brief The same from an address on the host; the caller has checked shape and type. */
  void WriteInput(ffi::PackedArgs args, ffi::Any*) {
    size_t i = Index(args[0].cast<int64_t>(), graph_.inputs.size(), "input");
    runner_->WriteInput(next_, i, args[1].cast<void*>());
    InputIsSet(i);
  }

  /*! \brief The address where the caller writes an input of the next frame, which is set so. */
  void InputMemory(ffi::PackedArgs args, ffi::Any* rv) {
    size_t i = InputIndex(args[0]);
    *rv = reinterpret_cast<int64_t>(runner_->InputMemory(next_, i));
    InputIsSet(i);
  }

  /*! \brief Start the frame whose inputs were set; returns its ticket. */
  void Submit(ffi::PackedArgs, ffi::Any* rv) {
    if (!params_loaded_ && !graph_.params.empty()) {
      TVM_VISION_THROW(InputError) << "the network has no parameters yet; call load_params first";
    }
    CheckInputs(next_);
    if (tickets_[next_] != 0 && tickets_[next_] >= oldest_kept_) {
      TVM_VISION_THROW(InputError)
          << GraphRunner::kSlots << " frames are in flight; wait for the oldest before submitting";
    }
    runner_->Submit(next_);
    BeginFrame(next_);
    tickets_[next_] = ++submitted_;
    *rv = static_cast<int64_t>(submitted_);
    next_ = (next_ + 1) % GraphRunner::kSlots;
  }

  /*! \brief Wait for the frame of a ticket; its outputs are then those that get_output gives. */
  void Wait(ffi::PackedArgs args, ffi::Any*) {
    uint64_t ticket = static_cast<uint64_t>(args[0].cast<int64_t>());
    for (size_t s = 0; s < GraphRunner::kSlots; ++s) {
      if (tickets_[s] != ticket || ticket == 0) continue;
      runner_->Wait(s);
      last_ = s;
      oldest_kept_ = ticket + 1;
      outputs_.Take();
      return;
    }
    TVM_VISION_THROW(InputError) << "frame " << ticket
                                 << " is not in flight; wait takes the number that "
                                 << "submit returned, once";
  }

  /*! \brief Run a frame from set inputs to finished outputs; inputs stay set for the next run. */
  void Run(ffi::PackedArgs args, ffi::Any*) {
    for (size_t s = 0; s < GraphRunner::kSlots; ++s) runner_->Wait(s);
    oldest_kept_ = submitted_ + 1;
    size_t slot = next_;
    ffi::Any ticket;
    Submit(args, &ticket);
    // The same slot again, also when waiting fails: what was set once is still there.
    next_ = slot;
    // Nobody has its ticket.
    oldest_kept_ = submitted_ + 1;
    runner_->Wait(slot);
  }

  void GetOutput(ffi::PackedArgs args, ffi::Any* rv) {
    size_t i = OutputIndex(args[0]);
    if (!ran_ || overwritten_) {
      TVM_VISION_THROW(InputError) << "there are no outputs before the first run; call run";
    }
    if (outputs_.Replaced()) {
      TVM_VISION_THROW(InputError) << "the outputs of this thread's frame were replaced by another "
                                      "thread's before they were "
                                   << "read; run again: " << kOneThread;
    }
    ffi::Tensor out = NewCpuTensor(graph_.tensors[graph_.outputs[i]]);
    runner_->GetOutput(last_, i, const_cast<DLTensor*>(out.GetDLTensorPtr()));
    *rv = out;
  }

  /*! \brief One profiled run: nanoseconds of each kernel, then span, upload, read-back, wall
   * and what is unexplained. */
  void Profile(ffi::PackedArgs, ffi::Any* rv) {
    size_t slot = SlotToTime();
    ProfileSample sample = runner_->Profile(slot);
    BeginFrame(slot);
    ffi::Array<int64_t> flat(sample.kernels.begin(), sample.kernels.end());
    for (int64_t value :
         {sample.span, sample.upload, sample.readback, sample.wall, sample.unexplained}) {
      flat.push_back(value);
    }
    *rv = flat;
  }

  /*! \brief One traced run: nanoseconds of submit, submitted, finished and uncertainty, whether the
   * clocks were calibrated, and the marks. */
  void Trace(ffi::PackedArgs, ffi::Any* rv) {
    size_t slot = SlotToTime();
    FrameTrace trace = runner_->Trace(slot);
    BeginFrame(slot);
    ffi::Array<int64_t> flat = {trace.submit, trace.submitted, trace.finished, trace.uncertainty,
                                trace.calibrated ? 1 : 0};
    for (int64_t mark : trace.marks) flat.push_back(mark);
    *rv = flat;
  }

  /*! \brief Where the inputs are that no frame had yet, else those of the last frame, which may be
   * in the other slot; raises InputError where one is missing. */
  size_t SlotToTime() {
    size_t slot = !ran_ || set_anew_ ? next_ : last_;
    CheckInputs(slot);
    // Its outputs, too, are those of the frame that is timed, unless that fails on the way.
    overwritten_ = true;
    return slot;
  }

  void InputIsSet(size_t i) {
    inputs_set_[next_].insert(i);
    set_anew_ = true;
    set_by_[i].Take();
  }

  /*! \brief Raise InputError unless the frame of a slot has its inputs, and all are the caller's.
   */
  void CheckInputs(size_t slot) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (inputs_set_[slot].count(i) == 0) {
        TVM_VISION_THROW(InputError) << "input " << graph_.input_names[i]
                                     << " was not set; call set_input for every input of a frame";
      }
      if (set_by_[i].Replaced()) {
        TVM_VISION_THROW(InputError) << "input " << graph_.input_names[i]
                                     << " of this thread's frame was replaced by another thread's "
                                     << "before it began; set it again: " << kOneThread;
      }
    }
  }

  /*! \brief The frame of a slot, and what it gives, are the caller's. */
  void BeginFrame(size_t slot) {
    for (auto& [input, turns] : set_by_) turns.Used();
    set_anew_ = false;
    ran_ = true;
    overwritten_ = false;
    last_ = slot;
    outputs_.Take();
  }

  /*! \brief Nanoseconds that a call may wait for the device; 0: any time. */
  void SetTimeLimit(ffi::PackedArgs args, ffi::Any*) {
    time_limit_ = vulkan::WaitLimit::Duration(args[0].cast<int64_t>());
  }

  void Names(ffi::PackedArgs args, ffi::Any* rv) {
    bool inputs = args[0].cast<bool>();
    const std::vector<std::string>& names = inputs ? graph_.input_names : graph_.output_names;
    ffi::Array<ffi::String> result;
    for (const std::string& name : names) result.push_back(ffi::String(name));
    *rv = result;
  }

  void Prepare(ffi::PackedArgs, ffi::Any*) { runner_->Prepare(); }

  void MemoryBytes(ffi::PackedArgs, ffi::Any* rv) {
    *rv = static_cast<int64_t>(runner_->MemoryBytes());
  }

  void Recordings(ffi::PackedArgs, ffi::Any* rv) { *rv = runner_->Recordings(); }

  void Barriers(ffi::PackedArgs, ffi::Any* rv) { *rv = runner_->Barriers(); }

  GraphSpec graph_;
  std::unique_ptr<GraphRunner> runner_;
  bool params_loaded_ = false;
  OneCall calls_;
  vulkan::WaitLimit::Duration time_limit_{0};
  std::set<size_t> inputs_set_[GraphRunner::kSlots];
  std::map<size_t, Turns> set_by_;
  Turns outputs_;
  /*! \brief Whether an input was set since the last frame began. */
  bool set_anew_ = false;
  /*! \brief Whether a frame has begun, or was timed. */
  bool ran_ = false;
  /*! \brief Whether a frame that was timed failed, and left outputs that are no frame's. */
  bool overwritten_ = false;
  uint64_t tickets_[GraphRunner::kSlots] = {};
  uint64_t submitted_ = 0;
  /*! \brief Frames from this ticket on were not waited for. */
  uint64_t oldest_kept_ = 1;
  size_t next_ = 0;
  size_t last_ = 0;
};

const std::map<std::string, GraphExecutor::Method>& GraphExecutor::Methods() {
  static const std::map<std::string, Method> methods = {
      {"load_params", &GraphExecutor::LoadParams},
      {"set_input", &GraphExecutor::SetInput},
      {"write_input", &GraphExecutor::WriteInput},
      {"input_memory", &GraphExecutor::InputMemory},
      {"submit", &GraphExecutor::Submit},
      {"wait", &GraphExecutor::Wait},
      {"run", &GraphExecutor::Run},
      {"get_output", &GraphExecutor::GetOutput},
      {"profile", &GraphExecutor::Profile},
      {"trace", &GraphExecutor::Trace},
      {"prepare", &GraphExecutor::Prepare},
      {"set_time_limit", &GraphExecutor::SetTimeLimit},
  };
  return methods;
}

const std::map<std::string, GraphExecutor::Method>& GraphExecutor::Constants() {
  static const std::map<std::string, Method> methods = {
      {"names", &GraphExecutor::Names},
      {"memory_bytes", &GraphExecutor::MemoryBytes},
      {"recordings", &GraphExecutor::Recordings},
      {"barriers", &GraphExecutor::Barriers},
  };
  return methods;
}

}  // namespace

ffi::Tensor OnHost(const ffi::Tensor& tensor) {
  const DLTensor* from = tensor.GetDLTensorPtr();
  if (from->device.device_type == kDLCPU) return tensor;
  GraphTensor like;
  like.shape.assign(from->shape, from->shape + from->ndim);
  like.dtype = from->dtype;
  ffi::Tensor copy = NewCpuTensor(like);
  DLTensor to = *copy.GetDLTensorPtr();
  tvm::runtime::DeviceAPI* api = tvm::runtime::DeviceAPI::Get(from->device);
  api->CopyDataFromTo(const_cast<DLTensor*>(from), &to, nullptr);
  api->StreamSync(from->device, nullptr);
  return copy;
}

std::vector<ffi::Function> BindFunctions(const GraphSpec& graph, const ffi::Module& library) {
  std::vector<ffi::Function> functions;
  for (const GraphKernel& kernel : graph.kernels) {
    auto function = library->GetFunction(ffi::String(kernel.function), true);
    if (!function.has_value()) {
      TVM_VISION_THROW(PackageError) << "mod.so has no function " << kernel.function
                                     << ", which mod.json calls; they are not of one compilation";
    }
    functions.push_back(*function);
  }
  return functions;
}

void CheckValue(const GraphTensor& wanted, const DLTensor& value, const std::string& what) {
  size_t ndim = static_cast<size_t>(value.ndim);
  bool same_shape = ndim == wanted.shape.size() &&
                    std::equal(value.shape, value.shape + ndim, wanted.shape.begin());
  bool same_type = value.dtype.code == wanted.dtype.code && value.dtype.bits == wanted.dtype.bits &&
                   value.dtype.lanes == wanted.dtype.lanes;
  if (!same_shape || !same_type) {
    TVM_VISION_THROW(InputError) << what << " must be "
                                 << ShapeText(wanted.shape.data(), wanted.shape.size()) << " "
                                 << vulkan::TypeName(wanted.dtype) << ", found "
                                 << ShapeText(value.shape, ndim) << " "
                                 << vulkan::TypeName(value.dtype);
  }
  if (!ffi::IsContiguous(value)) {
    TVM_VISION_THROW(InputError) << what
                                 << " must lie in one piece; pass numpy.ascontiguousarray of it";
  }
}

namespace {

ffi::Module Create(const ffi::String& json, const ffi::Module& library, DLDevice device) {
  return ffi::Module(ffi::make_object<GraphExecutor>(std::string(json), library, device));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("tvm_vision.graph_executor.create", vulkan::Telling(Create));
}

}  // namespace runtime
}  // namespace tvm_vision
