/*!
 * \file tvm_vision.hpp
 * \brief Runs compiled networks, packages of tvm_vision, from C++17 without Python.
 *
 * No header of TVM's or of OpenCV's is needed to use it. Everything that fails throws Error, whose
 * text is one line that says what was needed, what was found and what to do.
 */
#ifndef TVM_VISION_TVM_VISION_HPP_
#define TVM_VISION_TVM_VISION_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define TVM_VISION_PUBLIC __attribute__((visibility("default")))
#else
#define TVM_VISION_PUBLIC
#endif

namespace tvm_vision {

/*! \brief What went wrong, in one line. */
class TVM_VISION_PUBLIC Error : public std::runtime_error {
 public:
  /*! \brief What cannot be printed of the message is written out, so that it stays one line. */
  Error(std::string kind, const std::string& message);
  /*! \brief "PackageError", "DeviceError", "DeviceLostError" or "InputError", as in Python; "Error"
   * for others. */
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

/*! \brief Where a network runs: where its package was compiled for, or one of the two. */
enum class Device { kAuto, kVulkan, kCpu };

/*! \brief An image that somebody else holds: uint8, rows from the top, channels BGR.
 *
 * channels: 3; of networks that find something in a frame also 1 (grey) and 4 (BGR and alpha, which
 * is ignored). stride: bytes from a row to the next; 0 for rows without gaps.
 */
struct ImageView {
  const uint8_t* data = nullptr;
  int height = 0;
  int width = 0;
  int channels = 3;
  size_t stride = 0;
};

/*! \brief A tensor on the host that somebody else holds, contiguous. */
struct TensorView {
  const void* data = nullptr;
  std::vector<int64_t> shape;
  /*! \brief "float32", "float16", "int8", "uint8", "int64", "bool" and so on. */
  std::string dtype;
  size_t bytes = 0;
};

/*! \brief An input or output of a network. layout: of images "NCHW", "NHWC" or, of
 * one channel, "NHW", else "". */
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;
  std::string layout;
  /*! \brief Of integers that stand for real numbers: (integer - zero_point) * scale. Of others the
   * scale is 0. */
  float scale = 0;
  int64_t zero_point = 0;
};

/*! \brief How an image becomes the network's input; the fields of mod.json's preprocessing. */
struct Preprocessing {
  int height = 0;
  int width = 0;
  bool letterbox = false;
  bool stretch = false;
  double crop = 1;
  /*! \brief "area", "cubic", "linear" or "nearest". */
  std::string interpolation = "area";
  /*! \brief Order of the tensor's channels, "rgb" or "bgr"; "gray" for its only one, the luma of
   * ITU-R BT.601. */
  std::string color_order = "rgb";
  /*! \brief value = (pixel - mean) / deviation, pixel in 0..255; of grey images all three are the
   * same. */
  std::array<double, 3> mean = {0, 0, 0};
  std::array<double, 3> deviation = {1, 1, 1};
  double pad_value = 0;
  bool pad_corner = false;

  /*! \brief Of the tensor. */
  int channels() const { return color_order == "gray" ? 1 : 3; }
};

/*! \brief What a network is for. kind: "network", "classifier", "yoeo", "yolo", "detr", "ssd",
 * "segmenter" or "depth". */
struct ModelDescription {
  std::string name;
  std::string kind;
  std::vector<std::string> labels;
  bool has_preprocessing = false;
  Preprocessing preprocessing;
};

/*! \brief What is done for a network on Vulkan whose device is lost. */
struct Recovery {
  /*! \brief Seconds that a call may wait for the device, which then counts as lost; 0: any time. It
   * holds for what other networks have on the device, too. */
  double frame_timeout = 0;
  /*! \brief How often at most the device is opened and the network loaded anew, 0 to 60. */
  int rebuilds_per_minute = 6;
  /*! \brief What runs where that did not help: "": nothing; "cpu": the variant for a processor of
   * the same package; else the path of a package for a processor, of the same inputs and outputs.
   */
  std::string fallback;
};

/*! \brief What became of a network's device so far. */
struct TVM_VISION_PUBLIC Losses {
  int lost = 0;
  /*! \brief How often the network was loaded anew, and the seconds that the last time took. */
  int rebuilt = 0;
  double seconds = 0;
  /*! \brief Of the last loss, in one line. */
  std::string reason;
  bool on_fallback = false;
  /*! \brief Whether the network is not loaded, and the next call tries again. */
  bool waiting = false;

  /*! \brief One line for people; "" where nothing was lost. */
  std::string Describe() const;
};

/*! \brief How a package is loaded. A Device alone may stand for it. */
struct LoadOptions {
  LoadOptions(Device device = Device::kAuto, std::string target = "",
              std::optional<std::string> verify = std::nullopt)
      : device(device), target(std::move(target)), verify(std::move(verify)) {}

  Device device = Device::kAuto;
  /*! \brief Of a package for several devices the variant of that name; "": that for this machine.
   */
  std::string target;
  /*! \brief A file of public keys (PEM, Ed25519), one of which has to have signed the package; what
   * is loaded are the bytes that were checked. Nothing: whoever made it. */
  std::optional<std::string> verify;
  /*! \brief How long a frame may take, and what is done where the device is lost. A fallback has to
   * be signed as well. */
  Recovery recovery;
  /*! \brief Seconds that the driver may take to start and to open the device, also where it was
   * lost; DeviceError after that. 0: any time. */
  double opening_timeout = 120;
};

/*! \brief A network on its device, tensors in and tensors out. One thread at a time. */
class TVM_VISION_PUBLIC Network {
 public:
  /*! \brief Load a package, a tar or a folder; it is ready for its first frame.
   *
   * mod.so is native code: loading a package is trusting who made it. Everything else of it is
   * checked before. Throws Error: PackageError for one that is damaged, not signed as it has to be
   * or for another machine, DeviceError where the device is absent, its driver does not answer or
   * it lacks what a kernel needs,
   * InputError for keys that cannot be read, for a target where the package is for one device, and
   * for a fallback that cannot take the network's place.
   */
  static Network Load(const std::string& path, const LoadOptions& options = {});

  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  const ModelDescription& model() const;
  const std::vector<TensorSpec>& inputs() const;
  const std::vector<TensorSpec>& outputs() const;
  /*! \brief One line that names the device, and says when it is a processor. */
  std::string device() const;
  Losses losses() const;

  /*! \brief Copy an input of the next frame; it stays set. bytes: of the whole tensor. */
  void SetInput(size_t index, const void* data, size_t bytes);
  /*! \brief One frame, from the inputs that are set to finished outputs.
   *
   * Throws DeviceLostError where its device was lost. The frame is; the next call finds the network
   * loaded anew, without inputs, or throws it again until `Recovery` allows another attempt. */
  void Run();
  /*! \brief The same of all inputs in order, which runs again where its device was lost. */
  void Frame(const std::vector<TensorView>& inputs);
  /*! \brief An output of the last frame, valid until the next Run. */
  TensorView Output(size_t index);
  /*! \brief Position of an input or output by name. Throws InputError that lists the names. */
  size_t InputIndex(const std::string& name) const;
  size_t OutputIndex(const std::string& name) const;

 private:
  friend class VisionModel;
  struct State;
  explicit Network(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/*! \brief A class with its probability, 0..1. */
struct ClassScore {
  int class_id = 0;
  std::string label;
  double probability = 0;
};

/*! \brief A point of a body, in pixels of the frame; score: how sure the network is of it. */
struct Keypoint {
  float x = 0;
  float y = 0;
  float score = 1;
};

/*! \brief Pixels of one object: 1 where it is, in a part of the frame. */
struct InstanceMask {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;
};

/*! \brief An object in a frame; x1, y1, x2, y2 in pixels, score 0..1. */
struct Detection {
  float x1 = 0;
  float y1 = 0;
  float x2 = 0;
  float y2 = 0;
  float score = 0;
  int class_id = 0;
  std::string label;
  std::vector<Keypoint> keypoints;
  InstanceMask mask;
  /*! \brief Whether there is a turned box: centre x, y, width, height, angle in radians. */
  bool oriented = false;
  std::array<float, 5> oriented_box = {0, 0, 0, 0, 0};
};

/*! \brief The class of each pixel of a frame. */
struct Segmentation {
  int height = 0;
  int width = 0;
  std::vector<uint8_t> classes;
  std::vector<std::string> labels;
};

/*! \brief How far away each pixel of a frame is. unit: "metres", or "" where values say only what
 * is nearer; inverse: larger values are nearer. */
struct DepthMap {
  int height = 0;
  int width = 0;
  std::vector<float> values;
  std::string unit;
  bool inverse = false;
};

/*! \brief What a network says about one frame; what it does not look for is empty. */
struct Result {
  std::vector<ClassScore> classes;
  std::vector<Detection> detections;
  Segmentation segmentation;
  DepthMap depth;
  /*! \brief Milliseconds by the host's clock. */
  double preprocess_ms = 0;
  double run_ms = 0;
  double postprocess_ms = 0;
};

/*! \brief What decides which boxes a result has; below 0: what the package says, of the confidence
 * for single classes too. */
struct Thresholds {
  float confidence = -1;
  float iou = -1;
  int max_detections = -1;
};

/*! \brief A network of a kind, frames in and results out. One thread at a time. */
class TVM_VISION_PUBLIC VisionModel {
 public:
  /*! \brief For a loaded network. Throws InputError where its package does not say how frames are
   * prepared, or how its outputs are read. */
  explicit VisionModel(Network network);
  static VisionModel Load(const std::string& path, const LoadOptions& options = {});
  /*! \brief Why a network cannot be one, as the constructor would throw it; "" where it can. */
  static std::string WhyNot(const Network& network);

  VisionModel(VisionModel&&) noexcept;
  VisionModel& operator=(VisionModel&&) noexcept;
  ~VisionModel();

  /*! \brief What the network says about a frame. top: classes of a classifier's result. */
  Result operator()(const ImageView& frame, size_t top = 5);
  /*! \brief The network's input for a frame, valid until the next call. */
  TensorView Prepare(const ImageView& frame);

  void set_thresholds(const Thresholds& thresholds);
  /*! \brief Use these instead of the package's labels. Throws InputError for a wrong number. */
  void set_labels(std::vector<std::string> labels);
  /*! \brief Use this instead of the package's preprocessing, whose size and kind of cut stay.
   * For grey images the averages of the three count. */
  void set_normalization(const std::array<double, 3>& mean, const std::array<double, 3>& deviation);
  Network& network();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_TVM_VISION_HPP_
