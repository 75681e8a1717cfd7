#include <algorithm>

#include "readers.h"

namespace tvm_vision {

Confidences::Confidences(const NetworkInfo& info, const Thresholds& thresholds, float usual)
    : of_class_(info.model.labels.size(),
                thresholds.confidence < 0 ? usual : thresholds.confidence) {
  if (thresholds.confidence < 0) {
    for (const auto& [number, confidence] : info.class_thresholds) {
      of_class_[static_cast<size_t>(number)] = confidence;
    }
  }
  auto least = std::min_element(of_class_.begin(), of_class_.end());
  least_ = least == of_class_.end() ? 1.0f : *least;
}

void Confidences::Admit(std::vector<Candidate>* boxes) const {
  auto passed_over = [this](const Candidate& box) {
    return !(box.score > of_class_[static_cast<size_t>(box.class_id)]);
  };
  boxes->erase(std::remove_if(boxes->begin(), boxes->end(), passed_over), boxes->end());
}

}  // namespace tvm_vision
