/*!
 * \file boxes.h
 * \brief Boxes with scores, and which of those that overlap stay.
 */
#ifndef TVM_VISION_CPP_BOXES_H_
#define TVM_VISION_CPP_BOXES_H_

#include <cmath>
#include <string>
#include <vector>

namespace tvm_vision {

/*! \brief A box that may count, in pixels of the network's input: corners, or, of oriented ones,
 * centre x, y, width, height, and an angle in radians. place: its row of the outputs. */
struct Candidate {
  float a = 0;
  float b = 0;
  float c = 0;
  float d = 0;
  float angle = 0;
  float score = 0;
  int class_id = 0;
  int group = 0;
  size_t place = 0;
};

// Pixels: larger than any box that means something, and its area is still a finite float.
constexpr float kLargestSide = 1e6f;
// exp of more would not be finite, and the side is cut to kLargestSide anyway.
constexpr float kLargestExponent = 80;
// By how much a device may round a score above 1.
constexpr float kRounding = 1e-3f;

inline float Sigmoid(float x) { return 0.5f * (1.0f + std::tanh(0.5f * x)); }
/*! \brief The x of which sigmoid is a probability. */
float Logit(float probability);

/*! \brief Centre and sides of a candidate to its corners. */
void ToCorners(Candidate* box);

/*! \brief Candidates that stay, the best first, at most `limit`.
 *
 * A box goes when it overlaps a better one of its group that stays by more than `iou`: of upright
 * boxes intersection over union, of oriented ones ProbIoU (Llerena et al., 2021).
 */
std::vector<Candidate> Suppress(std::vector<Candidate> boxes, float iou, size_t limit,
                                bool oriented);

/*! \brief Throw the InputError for scores outside 0..1, or a box that is NaN. */
void CheckScores(const std::vector<Candidate>& boxes, const std::string& remedy);
[[noreturn]] void RefuseNan(const std::string& what);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_BOXES_H_
