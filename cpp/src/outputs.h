/*!
 * \file outputs.h
 * \brief A network's outputs as floats, by name.
 */
#ifndef TVM_VISION_CPP_OUTPUTS_H_
#define TVM_VISION_CPP_OUTPUTS_H_

#include <map>
#include <string>
#include <tvm_vision/tvm_vision.hpp>
#include <vector>

namespace tvm_vision {

/*! \brief A tensor as floats, whatever its type is. */
struct FloatTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
  int64_t axis(size_t i) const { return i < shape.size() ? shape[i] : 1; }
};

/*! \brief Throws InputError for a type that has no such values. */
FloatTensor ToFloats(const TensorView& tensor);
/*! \brief The same, of integers that stand for real numbers these. */
FloatTensor ToReal(const TensorView& tensor, const TensorSpec& spec);

class Outputs {
 public:
  void Add(const std::string& name, FloatTensor tensor) { tensors_[name] = std::move(tensor); }
  /*! \brief Throws PackageError where the network has no such output. */
  const FloatTensor& At(const std::string& name) const;

 private:
  std::map<std::string, FloatTensor> tensors_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_OUTPUTS_H_
