#include "boxes.h"

#include <algorithm>
#include <sstream>
#include <tvm_vision/tvm_vision.hpp>

namespace tvm_vision {

namespace {

float Area(const Candidate& box) { return (box.c - box.a) * (box.d - box.b); }

bool UprightExceed(const Candidate& one, const Candidate& other, float iou) {
  float across = std::max(std::min(one.c, other.c) - std::max(one.a, other.a), 0.0f);
  float down = std::max(std::min(one.d, other.d) - std::max(one.b, other.b), 0.0f);
  float common = across * down;
  // Intersection / union > iou without the division, which two boxes of no area would break.
  return common > iou * (Area(one) + Area(other) - common);
}

/*! \brief The Gaussian that an oriented box stands for: a side's variance is its square / 12. */
struct Covariance {
  double xx, yy, xy;
  explicit Covariance(const Candidate& box) {
    double along = double{box.c} * box.c / 12, across = double{box.d} * box.d / 12;
    double cosine = std::cos(box.angle), sine = std::sin(box.angle);
    xx = along * cosine * cosine + across * sine * sine;
    yy = along * sine * sine + across * cosine * cosine;
    xy = (along - across) * cosine * sine;
  }
  double Determinant() const { return xx * yy - xy * xy; }
};

bool OrientedExceed(const Candidate& one, const Candidate& other, float iou) {
  constexpr double kEpsilon = 1e-12;
  Covariance first(one), second(other), sum(one);
  sum.xx += second.xx, sum.yy += second.yy, sum.xy += second.xy;
  double dx = double{one.a} - other.a, dy = double{one.b} - other.b;
  double spread = std::max(sum.Determinant(), kEpsilon);
  double apart = (sum.xx * dy * dy + sum.yy * dx * dx - 2 * sum.xy * dx * dy) / (4 * spread);
  double own = std::sqrt(std::max(first.Determinant() * second.Determinant(), 0.0));
  double alike = 0.5 * std::log(std::max(spread / std::max(4 * own, kEpsilon), 1.0));
  return 1 - std::sqrt(1 - std::exp(-(apart + alike))) > iou;
}

}  // namespace

float Logit(float probability) {
  if (probability <= 0) return -INFINITY;
  return probability >= 1 ? INFINITY : std::log(probability / (1 - probability));
}

void ToCorners(Candidate* box) {
  float x = std::clamp(box->a, -kLargestSide, kLargestSide);
  float y = std::clamp(box->b, -kLargestSide, kLargestSide);
  float half_width = std::clamp(box->c, 0.0f, kLargestSide) / 2;
  float half_height = std::clamp(box->d, 0.0f, kLargestSide) / 2;
  box->a = x - half_width, box->b = y - half_height;
  box->c = x + half_width, box->d = y + half_height;
}

std::vector<Candidate> Suppress(std::vector<Candidate> boxes, float iou, size_t limit,
                                bool oriented) {
  // Of equal scores the earlier box goes first.
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Candidate& x, const Candidate& y) { return x.score > y.score; });
  std::vector<Candidate> kept;
  for (const Candidate& box : boxes) {
    if (kept.size() >= limit) break;
    bool goes = std::any_of(kept.begin(), kept.end(), [&](const Candidate& better) {
      return better.group == box.group &&
             (oriented ? OrientedExceed(better, box, iou) : UprightExceed(better, box, iou));
    });
    if (!goes) kept.push_back(box);
  }
  return kept;
}

void CheckScores(const std::vector<Candidate>& boxes, const std::string& remedy) {
  for (const Candidate& box : boxes) {
    if (box.score >= 0 && box.score <= 1 + kRounding) continue;
    std::ostringstream found;
    found << "scores of 0 to 1 are needed from the network, found " << box.score << ": " << remedy;
    throw Error("InputError", found.str());
  }
}

void RefuseNan(const std::string& what) {
  throw Error("InputError", what +
                                " are needed from the network, found NaN: 'tvm-vision check' "
                                "and 'profile --per-layer-error' show where it goes wrong");
}

}  // namespace tvm_vision
