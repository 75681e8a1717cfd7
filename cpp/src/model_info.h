/*!
 * \file model_info.h
 * \brief What mod.json says of a network: the fields of tvm_vision/package, of which each says what
 * it means.
 */
#ifndef TVM_VISION_CPP_MODEL_INFO_H_
#define TVM_VISION_CPP_MODEL_INFO_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tvm_vision/tvm_vision.hpp>
#include <utility>
#include <vector>

#include "fields.h"

namespace tvm_vision {

struct YoeoHead {
  std::string output;
  int stride = 0;
  std::vector<std::pair<float, float>> anchors;
};

/*! \brief YoeoInfo of package/yoeo.py; groups: for each class a number, the same within a group. */
struct YoeoReading {
  std::string detections;
  std::vector<YoeoHead> heads;
  std::string segmentation;
  std::vector<std::string> segmentation_labels;
  std::vector<int> groups;
};

/*! \brief DetectionInfo of package/detection.py. */
struct DetectionReading {
  std::vector<std::string> boxes;
  bool transposed = false;
  std::string box;
  bool relative = false;
  std::vector<int64_t> strides;
  std::vector<float> anchors;
  std::string row;
  std::vector<std::string> scores;
  std::string classes;
  int64_t first_class = 0;
  std::string count;
  std::string activation;
  std::string background;
  bool multi_label = false;
  bool suppress = true;
  bool across_classes = false;
  std::string prototypes;
  bool prototypes_last = false;
  int64_t keypoints = 0;
  int64_t keypoint_values = 3;
  bool oriented = false;
  double confidence = 0.25;
  double iou = 0.45;
  int64_t max_detections = 300;

  /*! \brief How many anchors each stride has; 0 where there are none. */
  size_t anchors_of_stride() const {
    return strides.empty() ? 0 : anchors.size() / (2 * strides.size());
  }
};

/*! \brief SegmentationInfo of package/pixels.py. */
struct SegmentationReading {
  std::string output;
  std::string form;
  bool channels_last = false;
  double threshold = 0;
};

/*! \brief DepthInfo of package/pixels.py. */
struct DepthReading {
  std::string output;
  std::string unit;
  bool inverse = false;
};

/*! \brief All of mod.json that running a network needs. */
struct NetworkInfo {
  ModelDescription model;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  /*! \brief Kind of the target, "vulkan" or "llvm", and the name of its device, or "". */
  std::string target_kind;
  std::string target_device;
  std::optional<YoeoReading> yoeo;
  std::optional<DetectionReading> detection;
  std::optional<SegmentationReading> segmentation;
  std::optional<DepthReading> depth;
  /*! \brief Number of a class -> the confidence above which its boxes count, where the package says
   * one of its own. */
  std::map<int, float> class_thresholds;

  /*! \brief Throws PackageError for what is not as it must be. */
  static NetworkInfo Read(const Fields& fields);
};

/*! \brief "images: float32[1, 3, 64, 96]". */
std::string TensorText(const TensorSpec& spec);

/*! \brief mod.json, of a format and version that is known. Throws PackageError for another. */
Fields ParseInfo(std::string_view text);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_MODEL_INFO_H_
