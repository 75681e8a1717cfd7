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

namespace tvm_vision {
namespace vulkan {

namespace ffi = tvm::ffi;

namespace {

std::string ShapeText(const int64_t* shape, size_t ndim) {
  std::ostringstream os;
  os << "(";
  for (size_t i = 0; i < ndim; ++i) os << (i == 0 ? "" : ", ") << shape[i];
  os << ")";
  return os.str();
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

/*! \brief Frames in order through the slots: the next to fill, and those that are on their way. */
class GraphExecutor : public ffi::ModuleObj {
 public:
  GraphExecutor(const std::string& json, const ffi::Module& library, DLDevice device)
      : graph_(ReadGraph(json)) {
    if (device.device_type == kDLCPU) {
      runner_ = CreateCpuRunner(graph_, library);
    } else if (device.device_type == kDLVulkan) {
      runner_ = CreateVulkanRunner(graph_, library, device.device_id);
    } else {
      TVM_FFI_THROW(InputError) << "a graph executor runs on cpu or vulkan, found "
                                << tvm::runtime::DLDeviceType2Str(device.device_type)
                                << "; create it with tvm.cpu(0) or tvm.vulkan(0)";
    }
  }

  const char* kind() const final { return "tvm_vision.graph_executor"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    ffi::ObjectPtr<ffi::Object> self = ffi::GetObjectPtr<ffi::Object>(this);
    auto found = Methods().find(std::string(name));
    if (found == Methods().end()) return std::nullopt;
    Method method = found->second;
    return ffi::Function::FromPacked(
        [self, this, method](ffi::PackedArgs args, ffi::Any* rv) { (this->*method)(args, rv); });
  }

 private:
  using Method = void (GraphExecutor::*)(ffi::PackedArgs, ffi::Any*);
  static const std::map<std::string, Method>& Methods();

  size_t InputIndex(ffi::AnyView key) {
    if (auto name = key.try_cast<ffi::String>()) return graph_.FindInput(std::string(*name));
    return Index(key.cast<int64_t>(), graph_.inputs.size(), "input");
  }
  size_t OutputIndex(ffi::AnyView key) {
    if (auto name = key.try_cast<ffi::String>()) return graph_.FindOutput(std::string(*name));
    return Index(key.cast<int64_t>(), graph_.outputs.size(), "output");
  }
  static size_t Index(int64_t i, size_t count, const char* what) {
    if (i >= 0 && static_cast<size_t>(i) < count) return static_cast<size_t>(i);
    TVM_FFI_THROW(InputError) << "the network has " << count << " " << what
                              << "s, numbered from 0; "
                              << "found number " << i;
    TVM_FFI_UNREACHABLE();
  }

  void LoadParams(ffi::PackedArgs args, ffi::Any*) {
    auto params = args[0].cast<ffi::Map<ffi::String, ffi::Tensor>>();
    for (const auto& [name, id] : graph_.params) {
      auto found = params.find(ffi::String(name));
      if (found == params.end()) {
        TVM_FFI_THROW(PackageError) << "the parameters lack " << name
                                    << ", which the network needs; compile the network again";
      }
      ffi::Tensor value = (*found).second;
      CheckValue(graph_.tensors[id], *value.GetDLTensorPtr(), "parameter " + name);
      runner_->LoadParam(id, *value.GetDLTensorPtr());
    }
    params_loaded_ = true;
  }

  void SetInput(ffi::PackedArgs args, ffi::Any*) {
    size_t i = InputIndex(args[0]);
    ffi::Tensor value = args[1].cast<ffi::Tensor>();
    CheckValue(graph_.tensors[graph_.inputs[i]], *value.GetDLTensorPtr(),
               "input " + graph_.input_names[i]);
    runner_->SetInput(next_, i, value);
    inputs_set_[next_].insert(i);
  }

  /*! \brief The same from an address on the host; the caller has checked shape and type. */
  void WriteInput(ffi::PackedArgs args, ffi::Any*) {
    size_t i = Index(args[0].cast<int64_t>(), graph_.inputs.size(), "input");
    runner_->WriteInput(next_, i, args[1].cast<void*>());
    inputs_set_[next_].insert(i);
  }

  /*! \brief Start the frame whose inputs were set; returns its ticket. */
  void Submit(ffi::PackedArgs, ffi::Any* rv) {
    if (!params_loaded_ && !graph_.params.empty()) {
      TVM_FFI_THROW(InputError) << "the network has no parameters yet; call load_params first";
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (inputs_set_[next_].count(i) != 0) continue;
      TVM_FFI_THROW(InputError) << "input " << graph_.input_names[i]
                                << " was not set; call set_input for every input of a frame";
    }
    if (tickets_[next_] != 0 && tickets_[next_] >= oldest_kept_) {
      TVM_FFI_THROW(InputError) << GraphRunner::kSlots
                                << " frames are in flight; wait for the oldest before submitting";
    }
    runner_->Submit(next_);
    tickets_[next_] = ++submitted_;
    *rv = static_cast<int64_t>(submitted_);
    last_ = next_;
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
      return;
    }
    TVM_FFI_THROW(InputError) << "frame " << ticket
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
    runner_->Wait(slot);
    oldest_kept_ = submitted_ + 1;
    // The same slot again: what was set once is still there.
    next_ = slot;
  }

  void GetOutput(ffi::PackedArgs args, ffi::Any* rv) {
    size_t i = OutputIndex(args[0]);
    if (submitted_ == 0) {
      TVM_FFI_THROW(InputError) << "there are no outputs before the first run; call run";
    }
    ffi::Tensor out = NewCpuTensor(graph_.tensors[graph_.outputs[i]]);
    runner_->GetOutput(last_, i, const_cast<DLTensor*>(out.GetDLTensorPtr()));
    *rv = out;
  }

  /*! \brief One profiled run: nanoseconds of each kernel, then span, upload, read-back and wall. */
  void Profile(ffi::PackedArgs, ffi::Any* rv) {
    if (next_ != 0) {
      TVM_FFI_THROW(InputError) << "profile follows set_input and run, not submit and wait";
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (inputs_set_[0].count(i) == 0) {
        TVM_FFI_THROW(InputError) << "input " << graph_.input_names[i]
                                  << " was not set; call set_input for every input first";
      }
    }
    ProfileSample sample = runner_->Profile();
    ffi::Array<int64_t> flat(sample.kernels.begin(), sample.kernels.end());
    for (int64_t value : {sample.span, sample.upload, sample.readback, sample.wall}) {
      flat.push_back(value);
    }
    *rv = flat;
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
  std::set<size_t> inputs_set_[GraphRunner::kSlots];
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
      {"submit", &GraphExecutor::Submit},
      {"wait", &GraphExecutor::Wait},
      {"run", &GraphExecutor::Run},
      {"get_output", &GraphExecutor::GetOutput},
      {"profile", &GraphExecutor::Profile},
      {"names", &GraphExecutor::Names},
      {"prepare", &GraphExecutor::Prepare},
      {"memory_bytes", &GraphExecutor::MemoryBytes},
      {"recordings", &GraphExecutor::Recordings},
      {"barriers", &GraphExecutor::Barriers},
  };
  return methods;
}

}  // namespace

std::vector<ffi::Function> BindFunctions(const GraphSpec& graph, const ffi::Module& library) {
  std::vector<ffi::Function> functions;
  for (const GraphKernel& kernel : graph.kernels) {
    auto function = library->GetFunction(ffi::String(kernel.function), true);
    if (!function.has_value()) {
      TVM_FFI_THROW(PackageError) << "mod.so has no function " << kernel.function
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
    TVM_FFI_THROW(InputError) << what << " must be "
                              << ShapeText(wanted.shape.data(), wanted.shape.size()) << " "
                              << ffi::DLDataTypeToString(wanted.dtype) << ", found "
                              << ShapeText(value.shape, ndim) << " "
                              << ffi::DLDataTypeToString(value.dtype);
  }
  if (!ffi::IsContiguous(value)) {
    TVM_FFI_THROW(InputError) << what
                              << " must lie in one piece; pass numpy.ascontiguousarray of it";
  }
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def(
      "tvm_vision.graph_executor.create",
      [](const ffi::String& json, const ffi::Module& library, DLDevice device) {
        return ffi::Module(ffi::make_object<GraphExecutor>(std::string(json), library, device));
      });
}

}  // namespace vulkan
}  // namespace tvm_vision
