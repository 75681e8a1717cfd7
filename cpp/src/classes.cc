#include <algorithm>
#include <cmath>
#include <numeric>

#include "readers.h"

namespace tvm_vision {

namespace {

// None below 0 and a sum of 1 to this tell what is a distribution already.
constexpr double kSumTolerance = 1e-3;

std::vector<double> Probabilities(const std::vector<float>& values) {
  std::vector<double> result(values.begin(), values.end());
  double sum = std::accumulate(result.begin(), result.end(), 0.0);
  double least = *std::min_element(result.begin(), result.end());
  if (!(result.size() > 1 && least >= 0 && std::fabs(sum - 1) <= kSumTolerance)) {
    double most = *std::max_element(result.begin(), result.end());
    for (double& value : result) value = std::exp(value - most);
    sum = std::accumulate(result.begin(), result.end(), 0.0);
  }
  for (double& value : result) value = std::min(1.0, value / sum);
  return result;
}

}  // namespace

std::vector<ClassScore> ReadClasses(const FloatTensor& logits,
                                    const std::vector<std::string>& labels, size_t top) {
  if (logits.values.empty()) {
    throw Error("InputError",
                "an output with a value for each class is needed, found an empty "
                "one: compile the network with another --kind");
  }
  for (float value : logits.values) {
    if (!std::isfinite(value)) RefuseNan("finite logits");
  }
  std::vector<double> probabilities = Probabilities(logits.values);
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return probabilities[x] > probabilities[y]; });
  order.resize(std::min(top, order.size()));
  std::vector<ClassScore> classes;
  for (size_t i : order) {
    std::string label = i < labels.size() ? labels[i] : "class " + std::to_string(i);
    classes.push_back({static_cast<int>(i), std::move(label), probabilities[i]});
  }
  return classes;
}

}  // namespace tvm_vision
