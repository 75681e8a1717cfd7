#include <sys/mman.h>
#include <tvm/runtime/device_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "cpu_denormals.h"
#include "cpu_threads.h"
#include "graph_runner.h"
#include "vulkan/csrc/error.h"

namespace tvm_vision {
namespace runtime {

namespace ffi = tvm::ffi;

namespace {

using Clock = std::chrono::steady_clock;

int64_t Nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

constexpr uint64_t kAlignment = tvm::runtime::kAllocAlignment;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

/*! \brief Memory of the host for all storages of a slot, one behind the other, each aligned as
 * TVM's kernels expect. In one piece, so that Linux can give it in huge pages: a first frame
 * otherwise waits for each 4 KiB that it touches, and every frame looks up as many addresses. */
class HostMemory {
 public:
  explicit HostMemory(uint64_t bytes) {
    if (bytes >= kHugePage) {
      Map(bytes);
      return;
    }
    try {
      data_ = Cpu()->AllocDataSpace({kDLCPU, 0}, std::max(bytes, kAlignment), kAlignment,
                                    {kDLUInt, 8, 1});
    } catch (const std::bad_alloc&) {
      Refused(bytes);
    }
  }
  ~HostMemory() {
    if (mapped_ != nullptr) {
      munmap(mapped_, mapped_bytes_);
    } else {
      Cpu()->FreeDataSpace({kDLCPU, 0}, data_);
    }
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  static tvm::runtime::DeviceAPI* Cpu() { return tvm::runtime::DeviceAPI::Get({kDLCPU, 0}); }

  [[noreturn]] static void Refused(uint64_t bytes) {
    TVM_VISION_THROW(DeviceError) << "memory on cpu:0 for " << bytes
                                  << " bytes is needed, and it does not give so much; use a "
                                     "smaller batch or image";
  }

  /*! \brief Of its own, and not of malloc: what Linux was told of its pages would go on to hold
   * for whatever else comes to lie there. */
  void Map(uint64_t bytes) {
    // Where it begins in the middle of a page, the next one is taken.
    mapped_bytes_ = bytes + kHugePage;
    void* given = bytes < mapped_bytes_ ? mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                        : MAP_FAILED;
    if (given == MAP_FAILED) Refused(bytes);
    mapped_ = given;
    uint64_t begin = reinterpret_cast<uint64_t>(given);
    data_ = reinterpret_cast<void*>((begin + kHugePage - 1) / kHugePage * kHugePage);
    // Only whole huge pages; a system without them refuses, and all stays as it is.
    madvise(data_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  }

  void* data_ = nullptr;
  void* mapped_ = nullptr;
  uint64_t mapped_bytes_ = 0;
};

/*! \brief Calls the graph's functions one after another; a submitted frame is done at once. */
class CpuRunner : public GraphRunner {
 public:
  CpuRunner(const GraphSpec& graph, const ffi::Module& library,
            const vulkan::DeviceOptions& options)
      : graph_(graph),
        functions_(BindFunctions(graph, library)),
        poison_(options.poison),
        keep_denormals_(options.keep_denormals) {
    std::vector<bool> of_slot(graph_.storages.size(), false);
    for (uint32_t id : graph_.inputs) of_slot[graph_.tensors[id].storage] = true;
    for (uint32_t id : graph_.outputs) of_slot[graph_.tensors[id].storage] = true;
    std::vector<uint8_t*> address(graph_.storages.size());
    for (size_t slot = 0; slot < kSlots; ++slot) {
      // Later slots share all but what belongs to a frame.
      auto own = [&](size_t i) { return slot == 0 || of_slot[i]; };
      uint64_t end = 0;
      std::vector<uint64_t> offsets;
      for (size_t i = 0; i < graph_.storages.size(); ++i) {
        offsets.push_back(end);
        if (!own(i)) continue;
        bytes_ += graph_.storages[i];
        end += (graph_.storages[i] + kAlignment - 1) / kAlignment * kAlignment;
      }
      memory_[slot] = std::make_unique<HostMemory>(end);
      for (size_t i = 0; i < address.size(); ++i) {
        if (own(i)) address[i] = memory_[slot]->data() + offsets[i];
      }
      tensors_[slot] = DescribeTensors(&graph_, {kDLCPU, 0}, [&](size_t id) {
        const GraphTensor& t = graph_.tensors[id];
        return address[t.storage] + t.offset;
      });
    }
  }

  void LoadParam(uint32_t tensor, const DLTensor& value) final {
    std::memcpy(tensors_[0][tensor].data,
                static_cast<const uint8_t*>(value.data) + value.byte_offset,
                graph_.tensors[tensor].bytes);
  }

  void SetInput(size_t slot, size_t i, ffi::Tensor value) final {
    ffi::Tensor host = OnHost(value);
    const DLTensor* source = host.GetDLTensorPtr();
    WriteInput(slot, i, static_cast<const uint8_t*>(source->data) + source->byte_offset);
  }

  void WriteInput(size_t slot, size_t i, const void* data) final {
    std::memcpy(InputMemory(slot, i), data, graph_.tensors[graph_.inputs[i]].bytes);
  }

  void* InputMemory(size_t slot, size_t i) final { return tensors_[slot][graph_.inputs[i]].data; }

  void Submit(size_t slot) final {
    Begin();
    for (size_t k = 0; k < graph_.kernels.size(); ++k) Call(slot, k);
  }

  void Wait(size_t) final {}

  void GetOutput(size_t slot, size_t i, DLTensor* into) final {
    uint32_t id = graph_.outputs[i];
    std::memcpy(into->data, tensors_[slot][id].data, graph_.tensors[id].bytes);
  }

  ProfileSample Profile(size_t slot) final {
    ProfileSample sample;
    Clock::time_point start = Clock::now();
    Submit(slot);
    sample.span = sample.wall = Nanoseconds(Clock::now() - start);
    for (size_t k = 0; k < graph_.kernels.size(); ++k) {
      start = Clock::now();
      Call(slot, k);
      sample.kernels.push_back(Nanoseconds(Clock::now() - start));
    }
    return sample;
  }

  FrameTrace Trace(size_t slot) final {
    Begin();
    auto now = [] { return Nanoseconds(Clock::now().time_since_epoch()); };
    FrameTrace trace;
    trace.submit = now();
    trace.marks = {trace.submit, trace.submit};
    for (size_t k = 0; k < graph_.kernels.size(); ++k) {
      Call(slot, k);
      trace.marks.push_back(now());
    }
    trace.marks.push_back(trace.marks.back());
    trace.submitted = trace.finished = trace.marks.back();
    return trace;
  }

  uint64_t MemoryBytes() const final { return bytes_; }

 private:
  void Begin() {
    UseAllCores();
    DenormalsAsZeros::OfSharers(keep_denormals_);
  }

  void Call(size_t slot, size_t k) {
    for (uint32_t id : poison_ ? graph_.kernels[k].outputs() : std::vector<uint32_t>()) {
      std::memset(tensors_[slot][id].data, kPoison, graph_.tensors[id].bytes);
    }
    std::vector<ffi::AnyView> args;
    for (uint32_t id : graph_.kernels[k].args) args.emplace_back(&tensors_[slot][id]);
    ffi::Any ignored;
    DenormalsAsZeros while_it_runs(keep_denormals_);
    functions_[k].CallPacked(args.data(), static_cast<int32_t>(args.size()), &ignored);
  }

  GraphSpec graph_;
  std::vector<ffi::Function> functions_;
  std::unique_ptr<HostMemory> memory_[kSlots];
  std::vector<DLTensor> tensors_[kSlots];
  uint64_t bytes_ = 0;
  bool poison_;
  bool keep_denormals_;
};

}  // namespace

std::unique_ptr<GraphRunner> CreateCpuRunner(const GraphSpec& graph, const ffi::Module& library,
                                             const vulkan::DeviceOptions& options) {
  return std::make_unique<CpuRunner>(graph, library, options);
}

}  // namespace runtime
}  // namespace tvm_vision
