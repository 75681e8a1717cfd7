/*!
 * \file graph_spec.h
 * \brief The static graph of a network as plain data, read from JSON and checked. Pure: no Vulkan.
 */
#ifndef TVM_VISION_RUNTIME_GRAPH_SPEC_H_
#define TVM_VISION_RUNTIME_GRAPH_SPEC_H_

#include <tvm/ffi/dtype.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tvm_vision {
namespace runtime {

/*! \brief A tensor and where it lies. */
struct GraphTensor {
  std::vector<int64_t> shape;
  DLDataType dtype;
  uint32_t storage = 0;
  /*! \brief Offset in the storage, in bytes. */
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/*! \brief One call of a packed function: inputs, then outputs. */
struct GraphKernel {
  std::string function;
  /*! \brief Positions in GraphSpec::tensors. */
  std::vector<uint32_t> args;
  /*! \brief How many of them, at the end, it writes. */
  uint32_t num_outputs = 1;

  /*! \brief Those. */
  std::vector<uint32_t> outputs() const { return {args.end() - num_outputs, args.end()}; }
};

/*! \brief A network; see docs/reference/mod-json.md for the JSON. */
struct GraphSpec {
  /*! \brief Bytes of each piece of memory. */
  std::vector<uint64_t> storages;
  std::vector<GraphTensor> tensors;
  std::map<std::string, uint32_t> params;
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  std::vector<GraphKernel> kernels;

  /*! \brief Position of an input or output by name; raises InputError listing the names there are.
   */
  size_t FindInput(const std::string& name) const;
  size_t FindOutput(const std::string& name) const;
};

/*!
 * \brief Read a graph, alone or as the member "graph" of mod.json.
 *
 * Every number is checked before it is used: ids in range, tensors inside their storages, no
 * storage of an input or output used by another tensor.
 * \return The graph; raises PackageError.
 */
GraphSpec ReadGraph(const std::string& json);

}  // namespace runtime
}  // namespace tvm_vision

#endif  // TVM_VISION_RUNTIME_GRAPH_SPEC_H_
