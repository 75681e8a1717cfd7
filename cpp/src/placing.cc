#include <algorithm>
#include <cmath>

#include "readers.h"

namespace tvm_vision {

float PlaceAcross(const Frame& frame, const Plane& plane, int x) {
  const Letterbox& place = frame.place;
  float cells = static_cast<float>(plane.width) / frame.info.model.preprocessing.width;
  return (place.left + (x + 0.5f) / place.scale_x()) * cells - 0.5f;
}

float PlaceDown(const Frame& frame, const Plane& plane, int y) {
  const Letterbox& place = frame.place;
  float cells = static_cast<float>(plane.height) / frame.info.model.preprocessing.height;
  return (place.top + (y + 0.5f) / place.scale_y()) * cells - 0.5f;
}

Detection PlaceUpright(const Candidate& box, const Frame& frame) {
  Detection one;
  one.x1 = frame.place.ToImageX(box.a), one.y1 = frame.place.ToImageY(box.b);
  one.x2 = frame.place.ToImageX(box.c), one.y2 = frame.place.ToImageY(box.d);
  return one;
}

Detection PlaceOriented(const Candidate& box, const Frame& frame) {
  const Letterbox& place = frame.place;
  float cosine = std::cos(box.angle), sine = std::sin(box.angle);
  // The directions of its sides in the frame, each as long as a pixel of the input is there.
  float along[2] = {cosine * place.scale_x(), sine * place.scale_y()};
  float across[2] = {-sine * place.scale_x(), cosine * place.scale_y()};
  float x = place.ToImageX(box.a), y = place.ToImageY(box.b);
  float width = box.c * std::hypot(along[0], along[1]);
  float height = box.d * std::hypot(across[0], across[1]);
  float angle = std::atan2(along[1], along[0]);
  float turned_cosine = std::fabs(std::cos(angle)), turned_sine = std::fabs(std::sin(angle));
  float reach_x = (std::fabs(width) * turned_cosine + std::fabs(height) * turned_sine) / 2;
  float reach_y = (std::fabs(width) * turned_sine + std::fabs(height) * turned_cosine) / 2;
  Detection one;
  one.x1 = x - reach_x, one.y1 = y - reach_y, one.x2 = x + reach_x, one.y2 = y + reach_y;
  one.oriented = true;
  one.oriented_box = {x, y, width, height, angle};
  return one;
}

std::vector<Detection> PlaceBoxes(std::vector<Candidate>* kept, const Frame& frame,
                                  Detection (*placed)(const Candidate&, const Frame&)) {
  float width = static_cast<float>(frame.place.columns);
  float height = static_cast<float>(frame.place.rows);
  std::vector<Detection> detections;
  std::vector<Candidate> seen;
  for (const Candidate& box : *kept) {
    Detection one = placed(box, frame);
    one.x1 = std::clamp(one.x1, 0.0f, width), one.x2 = std::clamp(one.x2, 0.0f, width);
    one.y1 = std::clamp(one.y1, 0.0f, height), one.y2 = std::clamp(one.y2, 0.0f, height);
    if (!(one.x2 > one.x1 && one.y2 > one.y1)) continue;
    one.score = box.score;
    one.class_id = box.class_id;
    one.label = frame.labels[static_cast<size_t>(box.class_id)];
    detections.push_back(std::move(one));
    seen.push_back(box);
  }
  *kept = std::move(seen);
  return detections;
}

}  // namespace tvm_vision
