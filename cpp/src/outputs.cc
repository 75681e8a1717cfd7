#include "outputs.h"

#include <cmath>
#include <cstring>

namespace tvm_vision {

namespace {

template <typename T>
std::vector<float> Read(const TensorView& tensor) {
  std::vector<float> values(tensor.bytes / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(tensor.data) + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
  return values;
}

/*! \brief IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction. */
float FromHalf(uint16_t half) {
  int exponent = half >> 10 & 31, fraction = half & 1023;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                    : exponent != 31
                        ? std::ldexp(static_cast<float>(fraction + 1024), exponent - 25)
                    : fraction == 0 ? INFINITY
                                    : NAN;
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

std::vector<float> ReadHalves(const TensorView& tensor) {
  std::vector<float> values(tensor.bytes / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, static_cast<const char*>(tensor.data) + 2 * i, 2);
    values[i] = FromHalf(half);
  }
  return values;
}

}  // namespace

FloatTensor ToFloats(const TensorView& tensor) {
  const std::string& type = tensor.dtype;
  FloatTensor result;
  result.shape = tensor.shape;
  if (type == "float32") {
    result.values = Read<float>(tensor);
  } else if (type == "float16") {
    result.values = ReadHalves(tensor);
  } else if (type == "float64") {
    result.values = Read<double>(tensor);
  } else if (type == "int64") {
    result.values = Read<int64_t>(tensor);
  } else if (type == "int32") {
    result.values = Read<int32_t>(tensor);
  } else if (type == "int16") {
    result.values = Read<int16_t>(tensor);
  } else if (type == "int8") {
    result.values = Read<int8_t>(tensor);
  } else if (type == "uint8" || type == "bool") {
    result.values = Read<uint8_t>(tensor);
  } else {
    throw Error("InputError", "an output of numbers is needed, found one of " + type +
                                  ": read it from the network itself");
  }
  return result;
}

FloatTensor ToReal(const TensorView& tensor, const TensorSpec& spec) {
  FloatTensor result = ToFloats(tensor);
  if (spec.scale > 0) {
    float zero = static_cast<float>(spec.zero_point);
    for (float& value : result.values) value = (value - zero) * spec.scale;
  }
  return result;
}

const FloatTensor& Outputs::At(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error("PackageError", "mod.json reads the output '" + name +
                                    "', which the network does not have: compile the model again");
  }
  return found->second;
}

}  // namespace tvm_vision
