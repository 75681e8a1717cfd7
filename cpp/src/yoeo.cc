#include <algorithm>
#include <cmath>

#include "readers.h"

namespace tvm_vision {

namespace {

constexpr float kConfidence = 0.5f;
constexpr float kIou = 0.4f;
constexpr int kMaxDetections = 300;
// Centre x, y, width, height and objectness come before the classes.
constexpr size_t kBoxValues = 5;

/*! \brief The boxes of one row of so many values: one for each class whose score is above the
 * confidence. */
void AddRow(const float* row, size_t values, const YoeoReading& info, float confidence,
            std::vector<Candidate>* found) {
  if (!(row[4] > confidence)) return;
  for (size_t i = kBoxValues; i < values; ++i) {
    Candidate box;
    box.score = row[4] * row[i];
    bool is_score = box.score >= 0 && box.score <= 1 + kRounding;
    if (is_score && !(box.score > confidence)) continue;
    box.a = row[0], box.b = row[1], box.c = row[2], box.d = row[3];
    for (size_t k = 0; k < 4; ++k) {
      if (std::isnan(row[k])) RefuseNan("boxes in pixels");
    }
    ToCorners(&box);
    box.class_id = static_cast<int>(i - kBoxValues);
    box.group = info.groups[i - kBoxValues];
    found->push_back(box);
  }
}

void AddDecoded(const FloatTensor& output, const YoeoReading& info, float confidence,
                std::vector<Candidate>* found) {
  size_t values = static_cast<size_t>(output.shape.back());
  for (size_t at = 0; at + values <= output.values.size(); at += values) {
    if (std::isnan(output.values[at + 4])) RefuseNan("scores");
    AddRow(&output.values[at], values, info, confidence, found);
  }
}

/*! \brief A raw head [1, anchors * (5 + classes), rows, columns], in the order (anchor, y, x). */
void AddHead(const FloatTensor& output, const YoeoHead& head, const YoeoReading& info,
             float confidence, std::vector<Candidate>* found) {
  size_t columns = static_cast<size_t>(output.axis(3));
  size_t cells = static_cast<size_t>(output.axis(2)) * columns;
  size_t values = static_cast<size_t>(output.axis(1)) / head.anchors.size();
  float least = Logit(confidence);
  float stride = static_cast<float>(head.stride);
  for (size_t anchor = 0; anchor < head.anchors.size(); ++anchor) {
    const float* plane = output.values.data() + anchor * values * cells;
    for (size_t cell = 0; cell < cells; ++cell) {
      float objectness = plane[4 * cells + cell];
      if (std::isnan(objectness)) RefuseNan("scores");
      if (!(objectness > least)) continue;
      std::vector<float> row(values);
      for (size_t i = 0; i < values; ++i) row[i] = Sigmoid(plane[i * cells + cell]);
      row[0] = (row[0] + static_cast<float>(cell % columns)) * stride;
      row[1] = (row[1] + static_cast<float>(cell / columns)) * stride;
      auto side = [&](size_t i) {
        return std::exp(std::min(plane[i * cells + cell], kLargestExponent));
      };
      row[2] = side(2) * head.anchors[anchor].first;
      row[3] = side(3) * head.anchors[anchor].second;
      AddRow(row.data(), values, info, confidence, found);
    }
  }
}

}  // namespace

std::vector<Detection> ReadYoeoBoxes(const Outputs& outputs, const Frame& frame,
                                     const Thresholds& thresholds) {
  const YoeoReading& info = *frame.info.yoeo;
  Confidences confidences(frame.info, thresholds, kConfidence);
  float iou = thresholds.iou < 0 ? kIou : thresholds.iou;
  int limit = thresholds.max_detections < 0 ? kMaxDetections : thresholds.max_detections;
  std::vector<Candidate> found;
  if (!info.detections.empty())
    AddDecoded(outputs.At(info.detections), info, confidences.least(), &found);
  for (const YoeoHead& head : info.heads) {
    AddHead(outputs.At(head.output), head, info, confidences.least(), &found);
  }
  CheckScores(found, "was it exported as YOEO's, and compiled from that file?");
  for (Candidate& box : found) box.score = std::min(box.score, 1.0f);
  confidences.Admit(&found);
  std::vector<Candidate> kept = Suppress(std::move(found), iou, static_cast<size_t>(limit), false);
  return PlaceBoxes(&kept, frame, PlaceUpright);
}

Segmentation ReadYoeoMask(const Outputs& outputs, const Frame& frame) {
  const YoeoReading& info = *frame.info.yoeo;
  const FloatTensor& output = outputs.At(info.segmentation);
  const Letterbox& place = frame.place;
  std::vector<uint8_t> classes(output.values.size());
  std::transform(output.values.begin(), output.values.end(), classes.begin(),
                 [](float value) { return static_cast<uint8_t>(static_cast<int>(value)); });
  size_t width = static_cast<size_t>(output.shape.back());
  PixelView part{classes.data() + place.top * width + place.left, place.height, place.width, 1,
                 width};
  Pixels mask = Resize(part, place.rows, place.columns, Interpolation::kNearestExact);
  return {place.rows, place.columns, std::move(mask.bytes), info.segmentation_labels};
}

}  // namespace tvm_vision
