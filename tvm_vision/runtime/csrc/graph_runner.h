/*!
 * \file graph_runner.h
 * \brief What runs a static graph on one kind of device. A frame goes through a slot; while one
 * slot is on the device, another can be filled.
 */
#ifndef TVM_VISION_RUNTIME_GRAPH_RUNNER_H_
#define TVM_VISION_RUNTIME_GRAPH_RUNNER_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <memory>
#include <string>
#include <vector>

#include "graph_spec.h"
#include "vulkan/csrc/device_options.h"

namespace tvm_vision {
namespace runtime {

/*! \brief One profiled run; times in nanoseconds. */
struct ProfileSample {
  std::vector<int64_t> kernels;
  /*! \brief First to last kernel, of a run without timestamps between the kernels. */
  int64_t span = 0;
  int64_t upload = 0;
  int64_t readback = 0;
  /*! \brief From handing the same frame over to knowing that it is through, by the host's clock. */
  int64_t wall = 0;
  /*! \brief What of that is beyond span, upload and read-back. */
  int64_t unexplained = 0;
};

/*! \brief One frame on the host's steady clock, in nanoseconds. */
struct FrameTrace {
  /*! \brief Before it was handed over, after that, and when the host knew that it was through. */
  int64_t submit = 0;
  int64_t submitted = 0;
  int64_t finished = 0;
  /*! \brief On the device: where the upload began, each kernel began, the last one ended, and the
   * read-back ended. */
  std::vector<int64_t> marks;
  /*! \brief Whether the device's clock was read beside the host's; otherwise `marks` are in the
   * middle of where they can be, between `submit` and `finished`. */
  bool calibrated = true;
  /*! \brief By how much all of `marks` may be early or late. */
  int64_t uncertainty = 0;
};

/*! \brief A network on a device: memory, bound functions, slots. Not thread-safe: the executor lets
 * one call in at a time. */
class GraphRunner {
 public:
  static constexpr size_t kSlots = 2;

  virtual ~GraphRunner() = default;
  /*! \brief Copy a constant, which lies on the host, to where the graph has it. */
  virtual void LoadParam(uint32_t tensor, const DLTensor& value) = 0;
  /*! \brief Give slot `slot` its input i; the value is copied unless it lies on the graph's device.
   */
  virtual void SetInput(size_t slot, size_t i, tvm::ffi::Tensor value) = 0;
  /*! \brief Copy input i of slot `slot` from the host's memory, as many bytes as the input has. */
  virtual void WriteInput(size_t slot, size_t i, const void* data) = 0;
  /*! \brief Where the host may write input i of slot `slot`; no tensor is bound to it any more. */
  virtual void* InputMemory(size_t slot, size_t i) = 0;
  /*! \brief Do what the first frame would wait for; raises where the device cannot run the network.
   */
  virtual void Prepare() {}
  /*! \brief Start the frame of a slot. */
  virtual void Submit(size_t slot) = 0;
  /*! \brief Wait for the frame of a slot; returns at once when it is not running. */
  virtual void Wait(size_t slot) = 0;
  /*! \brief Copy output i of a finished frame into a contiguous tensor on the CPU. */
  virtual void GetOutput(size_t slot, size_t i, DLTensor* into) = 0;
  /*! \brief Run the frame of a slot and time each kernel, in a recording of its own. */
  virtual ProfileSample Profile(size_t slot) = 0;
  /*! \brief Run the frame of a slot and say when what of it ran. */
  virtual FrameTrace Trace(size_t slot) = 0;
  /*! \brief Bytes this network holds on the device. */
  virtual uint64_t MemoryBytes() const = 0;
  /*! \brief How often the network was recorded; 0 where nothing is recorded. */
  virtual int64_t Recordings() const { return 0; }
  /*! \brief Barriers within a frame as it was recorded last; 0 where nothing is recorded. */
  virtual int64_t Barriers() const { return 0; }
};

/*! \brief The functions of the graph's kernels, looked up once; raises PackageError naming a
 * missing one. */
std::vector<tvm::ffi::Function> BindFunctions(const GraphSpec& graph,
                                              const tvm::ffi::Module& library);

/*!
 * \brief The graph's tensors as functions take them; their shapes are the graph's own.
 * \param address What stands for the memory of a tensor, by its number.
 */
template <typename Address>
std::vector<DLTensor> DescribeTensors(GraphSpec* graph, DLDevice device, Address address) {
  std::vector<DLTensor> described;
  for (GraphTensor& tensor : graph->tensors) {
    DLTensor t{};
    t.data = address(described.size());
    t.device = device;
    t.ndim = static_cast<int32_t>(tensor.shape.size());
    t.dtype = tensor.dtype;
    t.shape = tensor.shape.data();
    described.push_back(t);
  }
  return described;
}

/*! \brief In each byte of a result before its kernel runs, where that is asked for, so that what
 * a kernel does not write is seen: not a number, and -1. */
constexpr uint8_t kPoison = 0xff;

/*! \brief The tensor itself, or a copy of one that is on a device. */
tvm::ffi::Tensor OnHost(const tvm::ffi::Tensor& tensor);

/*! \brief Check that a value has the shape and type of an input; raises InputError. */
void CheckValue(const GraphTensor& wanted, const DLTensor& value, const std::string& what);

std::unique_ptr<GraphRunner> CreateCpuRunner(const GraphSpec& graph,
                                             const tvm::ffi::Module& library,
                                             const vulkan::DeviceOptions& options);
std::unique_ptr<GraphRunner> CreateVulkanRunner(const GraphSpec& graph,
                                                const tvm::ffi::Module& library, int device,
                                                const vulkan::DeviceOptions& options);

}  // namespace runtime
}  // namespace tvm_vision

#endif  // TVM_VISION_RUNTIME_GRAPH_RUNNER_H_
