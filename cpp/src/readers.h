/*!
 * \file readers.h
 * \brief What the outputs of each kind of network say, as mod.json tells how to read them.
 *
 * The counterparts of tvm_vision/models in Python, which say where each formula is from.
 */
#ifndef TVM_VISION_CPP_READERS_H_
#define TVM_VISION_CPP_READERS_H_

#include <string>
#include <tvm_vision/tvm_vision.hpp>
#include <vector>

#include "boxes.h"
#include "model_info.h"
#include "outputs.h"
#include "prepare.h"

namespace tvm_vision {

/*! \brief What a reader knows beside the outputs: the network, and the frame. */
struct Frame {
  const NetworkInfo& info;
  const std::vector<std::string>& labels;
  Letterbox place;
};

/*! \brief Above which score boxes count: what was asked for of all classes, else what the package
 * says of each, and `usual` of those of which it says nothing. */
class Confidences {
 public:
  Confidences(const NetworkInfo& info, const Thresholds& thresholds, float usual);

  /*! \brief Boxes with scores up to this are of no class that counts. */
  float least() const { return least_; }
  /*! \brief Leave those boxes that count by the confidence of their class, which there is. */
  void Admit(std::vector<Candidate>* boxes) const;

 private:
  std::vector<float> of_class_;
  float least_;
};

/*! \brief The `top` likeliest classes of logits, or of probabilities. */
std::vector<ClassScore> ReadClasses(const FloatTensor& logits,
                                    const std::vector<std::string>& labels, size_t top);

/*! \brief Boxes of a YOEO network: decoded ones, or raw heads. */
std::vector<Detection> ReadYoeoBoxes(const Outputs& outputs, const Frame& frame,
                                     const Thresholds& thresholds);
/*! \brief Its mask in pixels of the frame. */
Segmentation ReadYoeoMask(const Outputs& outputs, const Frame& frame);

/*! \brief Objects of kinds yolo, detr and ssd, with what belongs to them. */
std::vector<Detection> ReadObjects(const Outputs& outputs, const Frame& frame,
                                   const Thresholds& thresholds);

/*! \brief The mask of a segmenter in pixels of the frame. */
Segmentation ReadSegments(const Outputs& outputs, const Frame& frame);

/*! \brief The depth of each pixel of the frame. */
DepthMap ReadDepth(const Outputs& outputs, const Frame& frame);

/*! \brief Where a pixel of the frame lies in a plane over the whole input, in cells of the plane
 * whose middles are whole numbers. */
float PlaceAcross(const Frame& frame, const Plane& plane, int x);
float PlaceDown(const Frame& frame, const Plane& plane, int y);

/*! \brief A candidate's box in pixels of the frame, not cut at its edges: an upright one, or an
 * oriented one with the upright one around it. */
Detection PlaceUpright(const Candidate& box, const Frame& frame);
Detection PlaceOriented(const Candidate& box, const Frame& frame);

/*! \brief Boxes that stayed, as detections in the frame, cut at its edges. Those that lie in the
 * padding alone are left out, and `kept` loses them too. placed: one of the two above. */
std::vector<Detection> PlaceBoxes(std::vector<Candidate>* kept, const Frame& frame,
                                  Detection (*placed)(const Candidate&, const Frame&));

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_READERS_H_
