#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "network_state.h"
#include "prepare.h"
#include "readers.h"

namespace tvm_vision {

namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/*! \brief Classes of a classifier's output [batch, classes]. */
size_t ClassCount(const TensorSpec& output) {
  size_t count = 1;
  for (size_t i = output.shape.size() > 1 ? 1 : 0; i < output.shape.size(); ++i) {
    count *= static_cast<size_t>(output.shape[i]);
  }
  return count;
}

bool Classifies(const ModelDescription& model) {
  return model.kind == "classifier" || model.kind == "network";
}

/*! \brief Whether a package prepares frames on its device, and takes the bytes of a camera. */
bool TakesFrames(const NetworkInfo& info) {
  const TensorSpec& input = info.inputs[0];
  return info.yoeo && input.dtype == "uint8" && input.scale == 0 && input.shape.size() == 4 &&
         input.shape[0] == 1 && input.shape[3] == 3;
}

std::vector<int64_t> Shape(const Preprocessing& config, bool channels_last) {
  if (channels_last) return {1, config.height, config.width, config.channels()};
  return {1, config.channels(), config.height, config.width};
}

/*! \brief Whether an input takes one image, prepared as it is said. */
bool TakesImages(const TensorSpec& input, const Preprocessing& config) {
  if (input.shape == Shape(config, false) || input.shape == Shape(config, true)) return true;
  return config.channels() == 1 &&
         input.shape == std::vector<int64_t>{1, config.height, config.width};
}

}  // namespace

struct VisionModel::State {
  explicit State(Network loaded) : network(std::move(loaded)) {}

  Network network;
  const NetworkInfo* info = nullptr;
  std::vector<std::string> labels;
  Preprocessing preprocessing;
  Thresholds thresholds;
  bool classifies = false;
  bool channels_last = false;
  bool takes_frames = false;
  Letterbox place;
  std::vector<uint8_t> input;
};

std::string VisionModel::WhyNot(const Network& network) {
  const NetworkInfo& info = network.state_->info;
  const ModelDescription& model = info.model;
  bool reads = Classifies(model) || info.yoeo || info.detection || info.segmentation || info.depth;
  if (!model.has_preprocessing || !reads || info.inputs.size() != 1 || info.outputs.empty()) {
    return "a network with one input of images is needed, whose package says how they are "
           "prepared and its outputs read, and '" +
           model.name + "' of kind " + model.kind +
           " is none that this library reads: compile it with --kind and --preprocess, or set its "
           "inputs yourself";
  }
  const Preprocessing& config = model.preprocessing;
  if (!TakesFrames(info) && !TakesImages(info.inputs[0], config)) {
    return "an input [1, " + std::to_string(config.channels()) + ", " +
           std::to_string(config.height) + ", " + std::to_string(config.width) + "] is needed, '" +
           model.name + "' has " + TensorText(info.inputs[0]) +
           ": compile it for one image at a time";
  }
  if (!Classifies(model) && (!(config.letterbox || config.stretch) || config.crop != 1)) {
    return "the preprocessing of a network that says where something is must be a letterbox or a "
           "stretch, without crop: compile it again";
  }
  return "";
}

VisionModel::VisionModel(Network network) {
  std::string why = WhyNot(network);
  if (!why.empty()) throw Error("InputError", why);
  state_ = std::make_unique<State>(std::move(network));
  state_->info = &state_->network.state_->info;
  const NetworkInfo& info = *state_->info;
  state_->labels = info.model.labels;
  state_->preprocessing = info.model.preprocessing;
  state_->classifies = Classifies(info.model);
  state_->takes_frames = TakesFrames(info);
  state_->channels_last = info.inputs[0].shape == Shape(info.model.preprocessing, true);
}

VisionModel VisionModel::Load(const std::string& path, const LoadOptions& options) {
  return VisionModel(Network::Load(path, options));
}

VisionModel::VisionModel(VisionModel&&) noexcept = default;
VisionModel& VisionModel::operator=(VisionModel&&) noexcept = default;
VisionModel::~VisionModel() = default;

Network& VisionModel::network() { return state_->network; }

void VisionModel::set_thresholds(const Thresholds& thresholds) {
  auto fraction = [](const char* what, float value) {
    if (value > 1 || value != value) {
      throw Error("InputError",
                  std::string(what) + " from 0 to 1 is needed, found " + std::to_string(value));
    }
  };
  fraction("a confidence", thresholds.confidence);
  fraction("an iou", thresholds.iou);
  if (thresholds.max_detections == 0) {
    throw Error("InputError", "a number of detections from 1 on is needed, found 0");
  }
  state_->thresholds = thresholds;
}

void VisionModel::set_labels(std::vector<std::string> labels) {
  size_t needed =
      state_->classifies ? ClassCount(state_->info->outputs[0]) : state_->info->model.labels.size();
  if (labels.size() != needed) {
    throw Error("InputError",
                std::to_string(needed) + " labels are needed, one for each class of '" +
                    state_->info->model.name + "', found " + std::to_string(labels.size()) +
                    ": use the file that the network was trained with");
  }
  state_->labels = std::move(labels);
}

void VisionModel::set_normalization(const std::array<double, 3>& mean,
                                    const std::array<double, 3>& deviation) {
  for (double value : mean) {
    if (!std::isfinite(value)) {
      throw Error("InputError", "finite means are needed, found " + std::to_string(value));
    }
  }
  for (double value : deviation) {
    if (!(value > 0 && std::isfinite(value))) {
      throw Error("InputError",
                  "finite deviations above 0 are needed, found " + std::to_string(value));
    }
  }
  state_->preprocessing.mean = mean;
  state_->preprocessing.deviation = deviation;
  if (state_->preprocessing.channels() == 1) {
    // As a package of grey images has what is said of three colours.
    state_->preprocessing.mean.fill((mean[0] + mean[1] + mean[2]) / 3);
    state_->preprocessing.deviation.fill((deviation[0] + deviation[1] + deviation[2]) / 3);
  }
}

TensorView VisionModel::Prepare(const ImageView& frame) {
  State& state = *state_;
  const TensorSpec& spec = state.info->inputs[0];
  PixelView image = CheckImage(frame);
  if (state.takes_frames) {
    if (image.height != spec.shape[1] || image.width != spec.shape[2]) {
      throw Error("InputError",
                  "frames of " + std::to_string(spec.shape[1]) + "x" +
                      std::to_string(spec.shape[2]) +
                      " (height x width) are needed, for which the network was compiled, found " +
                      std::to_string(image.height) + "x" + std::to_string(image.width) +
                      ": compile it with --camera-size, or without");
    }
    state.place = Letterbox::Of(image.height, image.width, state.preprocessing);
    state.input = ToBgr(image).bytes;
  } else if (state.classifies) {
    Values values = PrepareClassifier(image, state.preprocessing, state.channels_last);
    state.input = InType(std::move(values), spec);
  } else {
    Values values = PrepareFrame(image, state.preprocessing, state.channels_last, &state.place);
    state.input = InType(std::move(values), spec);
  }
  return {state.input.data(), spec.shape, spec.dtype, state.input.size()};
}

Result VisionModel::operator()(const ImageView& frame, size_t top) {
  State& state = *state_;
  const NetworkInfo& info = *state.info;
  Clock::time_point start = Clock::now();
  TensorView input = Prepare(frame);
  Clock::time_point prepared = Clock::now();
  Outputs outputs = state.network.state_->executor.RunAgainIfLost([&] {
    Outputs found;
    state.network.SetInput(0, input.data, input.bytes);
    state.network.Run();
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      found.Add(info.outputs[i].name, ToReal(state.network.Output(i), info.outputs[i]));
    }
    return found;
  });
  Clock::time_point done = Clock::now();
  Result result;
  Frame seen{info, state.labels, state.place};
  if (state.classifies) {
    result.classes = ReadClasses(outputs.At(info.outputs[0].name), state.labels, top);
  } else if (info.yoeo) {
    if (!info.yoeo->detections.empty() || !info.yoeo->heads.empty()) {
      result.detections = ReadYoeoBoxes(outputs, seen, state.thresholds);
    }
    if (!info.yoeo->segmentation.empty()) result.segmentation = ReadYoeoMask(outputs, seen);
  } else if (info.detection) {
    result.detections = ReadObjects(outputs, seen, state.thresholds);
  } else if (info.segmentation) {
    result.segmentation = ReadSegments(outputs, seen);
  } else {
    result.depth = ReadDepth(outputs, seen);
  }
  result.preprocess_ms = Milliseconds(start, prepared);
  result.run_ms = Milliseconds(prepared, done);
  result.postprocess_ms = Milliseconds(done, Clock::now());
  return result;
}

}  // namespace tvm_vision
