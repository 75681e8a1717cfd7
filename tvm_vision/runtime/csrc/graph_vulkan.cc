#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <set>

#include "graph_runner.h"
#include "vulkan/csrc/capture.h"
#include "vulkan/csrc/device_list.h"
#include "vulkan/csrc/error.h"
#include "vulkan/csrc/module.h"

namespace tvm_vision {
namespace runtime {

namespace ffi = tvm::ffi;

// All that the executor knows of the backend.
using vulkan::Buffer;
using vulkan::BufferRegistry;
using vulkan::CaptureScope;
using vulkan::CheckKernels;
using vulkan::Device;
using vulkan::DeviceList;
using vulkan::DeviceOptions;
using vulkan::DevicePlan;
using vulkan::FrameWait;
using vulkan::Handles;
using vulkan::PreparePipelines;
using vulkan::Recording;
using vulkan::RegisteredBuffer;
using vulkan::Stream;
using vulkan::Timestamps;

namespace {

using Clock = std::chrono::steady_clock;

/*! \brief Beyond what a host needs to wake up; of a frame of 10 ms on a small GPU it is a tenth. */
constexpr std::chrono::microseconds kPollMargin{500};

/*! \brief How to wait for frames of a device. */
FrameWait MakeFrameWait(const Device& device, const DeviceOptions& options) {
  // A device that is the CPU would be kept from its work.
  bool is_cpu = device.snapshot().type == VK_PHYSICAL_DEVICE_TYPE_CPU;
  FrameWait::Duration usual =
      is_cpu ? FrameWait::Duration::zero() : FrameWait::Duration(kPollMargin);
  return FrameWait(options.poll_margin ? *options.poll_margin : usual);
}

/*! \brief The device of a number; raises DeviceError where it cannot run a kernel of the library.
 */
std::shared_ptr<Device> DeviceThatRuns(const ffi::Module& library, int number) {
  std::shared_ptr<Device> device = DeviceList::Global().Get(number);
  CheckKernels(library, *device);
  return device;
}

/*!
 * \brief Records the whole network once: upload, kernels, read-back. Each frame is one submission.
 *
 * Inputs and outputs exist once for each slot. Where their memory is mapped they are written and
 * read in place, otherwise through staging buffers that the recording copies from and to.
 */
class VulkanRunner : public GraphRunner {
 public:
  VulkanRunner(const GraphSpec& graph, const ffi::Module& library, int number,
               const DeviceOptions& options)
      : graph_(graph),
        functions_(BindFunctions(graph, library)),
        device_(DeviceThatRuns(library, number)),
        frame_wait_(MakeFrameWait(*device_, options)),
        // Where no thread is to be had, by who waits for it.
        pipelines_(std::async(PreparePipelines, library, device_, options.compile_threads)) {
    // Lavapipe frees what was destroyed when it is next given work, which may be never.
    if (device_->snapshot().type == VK_PHYSICAL_DEVICE_TYPE_CPU) device_->SubmitNothing();
    const DevicePlan& plan = device_->handle().plan;
    in_place_output_ = plan.unified && plan.unified_cached;
    for (size_t s = 0; s < kSlots; ++s) AllocateSlot(s, !options.staged_inputs);
    if (options.poison) poison_ = MakePoison();
  }

  ~VulkanRunner() override {
    for (Slot& slot : slots_) {
      Drop(&slot.frame);
      for (Timed& timed : slot.timed) Drop(&timed.frame);
    }
  }

  void LoadParam(uint32_t tensor, const DLTensor& value) final {
    for (size_t s = 0; s < kSlots; ++s) Wait(s);
    const GraphTensor& t = graph_.tensors[tensor];
    if (t.bytes == 0) return;
    device_->Upload(static_cast<const uint8_t*>(value.data) + value.byte_offset,
                    slots_[0].storages[t.storage], t.offset, t.bytes, device_->CurrentStream());
  }

  void SetInput(size_t s, size_t i, ffi::Tensor value) final {
    Wait(s);
    const DLTensor* given = value.GetDLTensorPtr();
    const GraphTensor& t = graph_.tensors[graph_.inputs[i]];
    if (given->device.device_type == kDLVulkan) {
      RegisteredBuffer found = BufferRegistry::Global().Find(given->data, "set_input");
      if (found.device == device_ && given->byte_offset == 0) {
        Bind(s, i, found.buffer, value);
        return;
      }
      std::vector<uint8_t> host(t.bytes);
      found.device->Download(found.buffer, given->byte_offset, host.data(), t.bytes,
                             found.device->CurrentStream());
      WriteInput(s, i, host.data());
      return;
    }
    ffi::Tensor host = OnHost(value);
    given = host.GetDLTensorPtr();
    WriteInput(s, i, static_cast<const uint8_t*>(given->data) + given->byte_offset);
  }

  void WriteInput(size_t s, size_t i, const void* data) final {
    std::memcpy(InputMemory(s, i), data, graph_.tensors[graph_.inputs[i]].bytes);
  }

  void* InputMemory(size_t s, size_t i) final {
    Wait(s);
    const GraphTensor& t = graph_.tensors[graph_.inputs[i]];
    Slot& slot = slots_[s];
    Bind(s, i, slot.storages[t.storage], std::nullopt);
    return slot.upload[i] ? slot.upload[i]->mapped()
                          : slot.storages[t.storage]->mapped() + t.offset;
  }

  void Prepare() final { RecordIfNeeded(0); }

  void Submit(size_t s) final {
    Wait(s);
    RecordIfNeeded(s);
    Slot& slot = slots_[s];
    std::lock_guard<std::mutex> guard(device_->lock());
    device_->FlushStreams();
    slot.submitted = Clock::now();
    slot.frame.running = device_->SubmitAgain(slot.frame.recording.get());
  }

  void Wait(size_t s) final {
    Slot& slot = slots_[s];
    device_->WaitForFrame(slot.frame.running, slot.submitted, &frame_wait_);
    slot.frame.running = 0;
  }

  void GetOutput(size_t s, size_t i, DLTensor* into) final {
    Wait(s);
    const GraphTensor& t = graph_.tensors[graph_.outputs[i]];
    const Slot& slot = slots_[s];
    const uint8_t* from = in_place_output_ ? slot.storages[t.storage]->mapped() + t.offset
                                           : slot.readback[i]->mapped();
    std::memcpy(into->data, from, t.bytes);
  }

  ProfileSample Profile(size_t s) final {
    NeedTimestamps();
    ProfileSample sample;
    FrameTrace host;
    std::vector<int64_t> stages = RunTimed(s, Marks::kStages, &host);
    sample.upload = stages[1] - stages[0];
    sample.span = stages[2] - stages[1];
    sample.readback = stages[3] - stages[2];
    // Of the same frame: another one may have waited for other work, or not at all.
    sample.wall = host.finished - host.submit;
    // Two clocks: the device's may run faster by more than there is.
    sample.unexplained = std::max<int64_t>(0, sample.wall - (stages[3] - stages[0]));
    std::vector<int64_t> times = RunTimed(s, Marks::kKernels);
    for (size_t k = 0; k + 1 < times.size(); ++k) sample.kernels.push_back(times[k + 1] - times[k]);
    return sample;
  }

  FrameTrace Trace(size_t s) final {
    NeedTimestamps();
    FrameTrace trace;
    std::vector<int64_t> marks = RunTimed(s, Marks::kTrace, &trace);
    const Timestamps& read = *slots_[s].timed[static_cast<size_t>(Marks::kTrace)].timestamps;
    trace.marks = read.OnHostClock(&trace.uncertainty);
    trace.calibrated = !trace.marks.empty();
    if (!trace.calibrated) {
      int64_t slack = std::max<int64_t>(0, trace.finished - trace.submit - marks.back());
      trace.uncertainty = slack / 2;
      for (int64_t mark : marks) trace.marks.push_back(trace.submit + slack / 2 + mark);
    }
    // The stages around the kernels begin and end where these do.
    trace.marks.erase(trace.marks.end() - 2);
    trace.marks.erase(trace.marks.begin() + 1);
    return trace;
  }

  uint64_t MemoryBytes() const final {
    uint64_t bytes = 0;
    for (size_t i = 0; i < graph_.storages.size(); ++i) {
      bool of_slot = slots_[0].storages[i] != slots_[1].storages[i];
      bytes += graph_.storages[i] * (of_slot ? kSlots : 1);
    }
    return bytes;
  }

  int64_t Recordings() const final { return recordings_; }

  int64_t Barriers() const final { return barriers_; }

 private:
  /*! \brief Where a recording has timestamps: around the stages, around each kernel, around both,
   * or nowhere. */
  enum class Marks { kStages, kKernels, kTrace, kNone };

  /*! \brief A recording, and where it is on the device: the timeline value that it reaches when it
   * is through, 0 where it does not run. */
  struct Frame {
    std::unique_ptr<Recording> recording;
    uint64_t running = 0;
  };

  struct Timed {
    std::shared_ptr<Timestamps> timestamps;
    Frame frame;
  };

  struct Slot {
    /*! \brief Memory of each storage; those of inputs and outputs are the slot's own. */
    std::vector<std::shared_ptr<Buffer>> storages;
    /*! \brief The same, but for inputs that lie in a tensor of the user's. */
    std::vector<std::shared_ptr<Buffer>> bound;
    /*! \brief Those tensors, kept alive. */
    std::vector<ffi::Optional<ffi::Tensor>> external;
    /*! \brief Staging memory of each input; nullptr for one that is written in place. */
    std::vector<std::shared_ptr<Buffer>> upload;
    std::vector<std::shared_ptr<Buffer>> readback;
    Frame frame;
    Clock::time_point submitted;
    /*! \brief With marks around the stages, around each kernel, and around both. */
    Timed timed[3];
  };

  /*! \brief Forget a recording. One that may still run is left to the device, with all it uses. */
  void Drop(Frame* frame) {
    if (frame->recording && (frame->running != 0 || device_->lost())) {
      std::lock_guard<std::mutex> guard(device_->lock());
      device_->Adopt(std::move(frame->recording));
    }
    *frame = Frame();
  }

  /*! \brief Memory of slot s; what is neither input nor output belongs to both slots.
   * \param mapped_inputs Whether the host may write inputs where they lie, in a card's memory. */
  void AllocateSlot(size_t s, bool mapped_inputs) {
    std::set<uint32_t> inputs, outputs;
    for (uint32_t id : graph_.inputs) inputs.insert(graph_.tensors[id].storage);
    for (uint32_t id : graph_.outputs) outputs.insert(graph_.tensors[id].storage);
    Slot& slot = slots_[s];
    for (uint32_t i = 0; i < graph_.storages.size(); ++i) {
      std::shared_ptr<Buffer> memory;
      if (s != 0 && inputs.count(i) == 0 && outputs.count(i) == 0) memory = slots_[0].storages[i];
      if (mapped_inputs && inputs.count(i) != 0) {
        memory = device_->TryAllocateInput(graph_.storages[i]);
      }
      slot.storages.push_back(memory ? memory : device_->AllocateTensor(graph_.storages[i]));
    }
    slot.bound = slot.storages;
    for (uint32_t id : graph_.inputs) {
      const GraphTensor& t = graph_.tensors[id];
      bool in_place = slot.storages[t.storage]->mapped() != nullptr;
      slot.upload.push_back(in_place ? nullptr : device_->AllocateHostWritten(t.bytes));
      slot.external.emplace_back(std::nullopt);
    }
    for (uint32_t id : graph_.outputs) {
      uint64_t bytes = graph_.tensors[id].bytes;
      slot.readback.push_back(in_place_output_ ? nullptr : device_->AllocateHostRead(bytes));
    }
  }

  /*! \brief Read input i of slot s from a tensor of the user's from now on; nullopt ends that. */
  void Bind(size_t s, size_t i, const std::shared_ptr<Buffer>& buffer,
            ffi::Optional<ffi::Tensor> keep) {
    Slot& slot = slots_[s];
    slot.external[i] = std::move(keep);
    std::shared_ptr<Buffer>& bound = slot.bound[graph_.tensors[graph_.inputs[i]].storage];
    if (bound == buffer) return;
    bound = buffer;
    Drop(&slot.frame);
    for (Timed& timed : slot.timed) Drop(&timed.frame);
  }

  void CopyInputs(const Slot& slot, Stream* stream) {
    std::lock_guard<std::mutex> guard(device_->lock());
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const GraphTensor& t = graph_.tensors[graph_.inputs[i]];
      if (!slot.upload[i] || slot.external[i].has_value() || t.bytes == 0) continue;
      stream->Copy(slot.upload[i], 0, slot.storages[t.storage], t.offset, t.bytes);
    }
  }

  void CopyOutputs(const Slot& slot, Stream* stream) {
    std::lock_guard<std::mutex> guard(device_->lock());
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const GraphTensor& t = graph_.tensors[graph_.outputs[i]];
      if (in_place_output_ || t.bytes == 0) continue;
      stream->Copy(slot.storages[t.storage], t.offset, slot.readback[i], 0, t.bytes);
    }
  }

  /*! \brief Memory of kPoison, as large as the largest tensor; nullptr where all are empty. */
  std::shared_ptr<Buffer> MakePoison() {
    uint64_t most = 0;
    for (const GraphTensor& t : graph_.tensors) most = std::max(most, t.bytes);
    if (most == 0) return nullptr;
    std::shared_ptr<Buffer> poison = device_->AllocateHostWritten(most);
    std::memset(poison->mapped(), kPoison, most);
    return poison;
  }

  void Poison(const Slot& slot, const GraphKernel& kernel, Stream* stream) {
    std::lock_guard<std::mutex> guard(device_->lock());
    for (uint32_t id : kernel.outputs()) {
      const GraphTensor& t = graph_.tensors[id];
      if (t.bytes != 0) stream->Copy(poison_, 0, slot.bound[t.storage], t.offset, t.bytes);
    }
  }

  void RecordIfNeeded(size_t s) {
    Frame& frame = slots_[s].frame;
    if (frame.recording) return;
    frame.recording = Record(s, nullptr, Marks::kNone);
    barriers_ = frame.recording->barriers;
    ++recordings_;
  }

  std::unique_ptr<Recording> Record(size_t s, const std::shared_ptr<Timestamps>& timestamps,
                                    Marks marks) {
    if (pipelines_.valid()) pipelines_.get();
    Slot& slot = slots_[s];
    Handles handles;
    auto handle_of = [&](size_t id) {
      const GraphTensor& t = graph_.tensors[id];
      return handles.Add(slot.bound[t.storage], t.offset, t.bytes, device_);
    };
    std::vector<DLTensor> tensors =
        DescribeTensors(&graph_, {kDLVulkan, device_->number()}, handle_of);
    std::shared_ptr<Stream> stream;
    {
      std::lock_guard<std::mutex> guard(device_->lock());
      stream = std::make_shared<Stream>(device_.get(), device_->NewRecording(true));
    }
    uint32_t next = 0;
    auto mark = [&](Marks of) {
      if (marks != of && marks != Marks::kTrace) return;
      std::lock_guard<std::mutex> guard(device_->lock());
      stream->WriteTimestamp(timestamps, next++);
    };
    mark(Marks::kStages);
    CopyInputs(slot, stream.get());
    mark(Marks::kStages);
    {
      CaptureScope capture(device_.get(), stream);
      for (size_t k = 0; k < graph_.kernels.size(); ++k) {
        mark(Marks::kKernels);
        if (poison_) Poison(slot, graph_.kernels[k], stream.get());
        std::vector<ffi::AnyView> args;
        for (uint32_t id : graph_.kernels[k].args) args.emplace_back(&tensors[id]);
        ffi::Any ignored;
        functions_[k].CallPacked(args.data(), static_cast<int32_t>(args.size()), &ignored);
      }
      mark(Marks::kKernels);
    }
    mark(Marks::kStages);
    CopyOutputs(slot, stream.get());
    mark(Marks::kStages);
    std::lock_guard<std::mutex> guard(device_->lock());
    std::unique_ptr<Recording> recording = stream->Finish();
    recording->End();
    return recording;
  }

  void NeedTimestamps() const {
    if (device_->handle().plan.timestamp_bits == 0) {
      TVM_VISION_THROW(DeviceError)
          << device_->snapshot().name << " has no timestamps, so its kernels cannot be timed";
    }
  }

  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
  }

  /*! \param trace Gets what the host did when. */
  std::vector<int64_t> RunTimed(size_t s, Marks marks, FrameTrace* trace = nullptr) {
    Wait(s);
    Timed& timed = slots_[s].timed[static_cast<size_t>(marks)];
    Frame& frame = timed.frame;
    device_->Wait(frame.running);
    frame.running = 0;
    if (!frame.recording) {
      uint32_t kernels = static_cast<uint32_t>(graph_.kernels.size()) + 1;
      uint32_t count = marks == Marks::kStages    ? 4
                       : marks == Marks::kKernels ? kernels
                                                  : 4 + kernels;
      timed.timestamps = std::make_shared<Timestamps>(device_->shared_handle(), count);
      frame.recording = Record(s, timed.timestamps, marks);
    }
    FrameTrace unused;
    if (trace == nullptr) trace = &unused;
    const Clock::time_point submitted = Clock::now();
    trace->submit = Now();
    {
      std::lock_guard<std::mutex> guard(device_->lock());
      device_->FlushStreams();
      frame.running = device_->SubmitAgain(frame.recording.get());
    }
    trace->submitted = Now();
    // With what every frame is waited for, where it takes as long as every frame.
    if (marks == Marks::kStages) {
      device_->WaitForFrame(frame.running, submitted, &frame_wait_);
    } else {
      device_->Wait(frame.running);
    }
    trace->finished = Now();
    frame.running = 0;
    return timed.timestamps->Nanoseconds();
  }

  GraphSpec graph_;
  std::vector<ffi::Function> functions_;
  std::shared_ptr<Device> device_;
  FrameWait frame_wait_;
  /*! \brief Compiles kernels while memory is taken and parameters are loaded. */
  std::future<void> pipelines_;
  bool in_place_output_ = false;
  std::shared_ptr<Buffer> poison_;
  Slot slots_[kSlots];
  std::atomic<int64_t> recordings_{0};
  std::atomic<int64_t> barriers_{0};
};

}  // namespace

std::unique_ptr<GraphRunner> CreateVulkanRunner(const GraphSpec& graph, const ffi::Module& library,
                                                int device, const DeviceOptions& options) {
  return std::make_unique<VulkanRunner>(graph, library, device, options);
}

}  // namespace runtime
}  // namespace tvm_vision
