#include <algorithm>
#include <cmath>

#include "readers.h"

namespace tvm_vision {

namespace {

/*! \brief One class of an output of scores, as a plane. */
Plane ClassPlane(const FloatTensor& output, bool channels_last, int64_t class_id) {
  size_t rows = static_cast<size_t>(output.axis(channels_last ? 1 : 2));
  size_t columns = static_cast<size_t>(output.axis(channels_last ? 2 : 3));
  size_t classes = static_cast<size_t>(output.axis(channels_last ? 3 : 1));
  Plane plane{static_cast<int>(rows), static_cast<int>(columns), {}};
  plane.values.resize(rows * columns);
  for (size_t i = 0; i < plane.values.size(); ++i) {
    size_t at = channels_last ? i * classes + static_cast<size_t>(class_id)
                              : static_cast<size_t>(class_id) * plane.values.size() + i;
    plane.values[i] = output.values[at];
    if (std::isnan(plane.values[i])) RefuseNan("scores");
  }
  return plane;
}

/*! \brief An output with one value for each pixel, whatever axes of one it has beside them. */
Plane OnlyPlane(const FloatTensor& output) {
  std::vector<int64_t> sides;
  for (int64_t side : output.shape) {
    if (side != 1) sides.push_back(side);
  }
  if (sides.size() != 2) {
    throw Error("InputError", "an output [1, height, width] is needed: compile the network again");
  }
  return {static_cast<int>(sides[0]), static_cast<int>(sides[1]), output.values};
}

template <typename Value>
Segmentation OfPixels(const Frame& frame, const Plane& like, Value value) {
  Segmentation mask{frame.place.rows, frame.place.columns, {}, frame.labels};
  mask.classes.reserve(static_cast<size_t>(mask.height) * mask.width);
  for (int y = 0; y < mask.height; ++y) {
    float down = PlaceDown(frame, like, y);
    for (int x = 0; x < mask.width; ++x) {
      mask.classes.push_back(value(PlaceAcross(frame, like, x), down));
    }
  }
  return mask;
}

}  // namespace

Segmentation ReadSegments(const Outputs& outputs, const Frame& frame) {
  const SegmentationReading& info = *frame.info.segmentation;
  const FloatTensor& output = outputs.At(info.output);
  int64_t classes = static_cast<int64_t>(frame.labels.size());
  if (info.form == "scores") {
    std::vector<Plane> planes;
    for (int64_t i = 0; i < classes; ++i) {
      planes.push_back(ClassPlane(output, info.channels_last, i));
    }
    return OfPixels(frame, planes[0], [&](float across, float down) {
      size_t best = 0;
      float most = Sample(planes[0], across, down);
      for (size_t i = 1; i < planes.size(); ++i) {
        float score = Sample(planes[i], across, down);
        if (score > most) most = score, best = i;
      }
      return static_cast<uint8_t>(best);
    });
  }
  Plane plane = OnlyPlane(output);
  if (info.form == "logit") {
    float threshold = static_cast<float>(info.threshold);
    for (float value : plane.values) {
      if (std::isnan(value)) RefuseNan("scores");
    }
    return OfPixels(frame, plane, [&](float across, float down) {
      return static_cast<uint8_t>(Sample(plane, across, down) > threshold);
    });
  }
  for (float value : plane.values) {
    if (value < 0 || value >= static_cast<float>(classes)) {
      throw Error("InputError", "classes of 0 to " + std::to_string(classes - 1) +
                                    " are needed from the network, found " +
                                    std::to_string(static_cast<int64_t>(value)) +
                                    ": compile it with --labels that name them all");
    }
  }
  return OfPixels(frame, plane, [&](float across, float down) {
    int x = std::clamp(static_cast<int>(std::lrint(across)), 0, plane.width - 1);
    int y = std::clamp(static_cast<int>(std::lrint(down)), 0, plane.height - 1);
    return static_cast<uint8_t>(plane.values[static_cast<size_t>(y) * plane.width + x]);
  });
}

DepthMap ReadDepth(const Outputs& outputs, const Frame& frame) {
  const DepthReading& info = *frame.info.depth;
  Plane plane = OnlyPlane(outputs.At(info.output));
  DepthMap depth{frame.place.rows, frame.place.columns, {}, info.unit, info.inverse};
  depth.values.reserve(static_cast<size_t>(depth.height) * depth.width);
  for (int y = 0; y < depth.height; ++y) {
    float down = PlaceDown(frame, plane, y);
    for (int x = 0; x < depth.width; ++x) {
      depth.values.push_back(Sample(plane, PlaceAcross(frame, plane, x), down));
    }
  }
  return depth;
}

}  // namespace tvm_vision
