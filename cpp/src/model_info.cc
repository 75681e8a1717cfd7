#include "model_info.h"

#include <algorithm>

#include "fleet.h"

namespace tvm_vision {

namespace {

constexpr int64_t kFormatVersion = 4;
constexpr int64_t kFleetVersion = 100;  // of a package for several devices
constexpr int64_t kMostPixels = 65536;
constexpr int kMostLevels = 64;  // a package has ten

std::vector<TensorSpec> ReadTensors(const Fields& fields, const char* name) {
  std::vector<TensorSpec> tensors;
  for (const Fields& item : fields.Objects(name)) {
    TensorSpec spec{item.Text("name"), item.Integers("shape", 0, kLargest), item.Text("dtype"),
                    item.Text("layout")};
    if (item.Has("quantization")) {
      Fields steps = item.Object("quantization");
      double scale = steps.Number("scale");
      int64_t zero_point = steps.Integer("zero_point", -kLargest, kLargest);
      if (!(scale > 0)) steps.Refuse("scale", "a number above 0");
      // Of another type than the tensor's the network converts them itself.
      if (steps.Text("dtype") == spec.dtype) {
        spec.scale = static_cast<float>(scale);
        spec.zero_point = zero_point;
      }
    }
    tensors.push_back(std::move(spec));
  }
  return tensors;
}

/*! \brief A number for each channel; of grey images the only one, three times. */
std::array<double, 3> OfChannels(const Fields& fields, const char* name, int channels) {
  std::vector<double> numbers = fields.Numbers(name);
  if (numbers.size() != static_cast<size_t>(channels)) {
    fields.Refuse(
        name, channels == 1 ? "one number, of the only channel" : "three numbers, one a channel");
  }
  numbers.resize(3, numbers[0]);
  return {numbers[0], numbers[1], numbers[2]};
}

std::string OneOf(const Fields& fields, const char* name, const std::vector<std::string>& known) {
  std::string text = fields.Text(name);
  if (std::find(known.begin(), known.end(), text) != known.end()) return text;
  std::string words;
  for (const std::string& word : known) words += (words.empty() ? "" : ", ") + word;
  fields.Refuse(name, "one of " + words);
}

Preprocessing ReadPreprocessing(const Fields& fields) {
  Preprocessing result;
  std::vector<int64_t> size = fields.Integers("size", 1, kMostPixels);
  if (size.size() != 2) fields.Refuse("size", "a height and a width");
  result.height = static_cast<int>(size[0]);
  result.width = static_cast<int>(size[1]);
  result.letterbox = fields.Flag("letterbox");
  result.stretch = fields.FlagOr("stretch", false);
  result.crop = fields.Number("crop");
  result.interpolation = OneOf(fields, "interpolation", {"area", "cubic", "linear", "nearest"});
  result.color_order = OneOf(fields, "color_order", {"rgb", "bgr", "gray"});
  result.mean = OfChannels(fields, "mean", result.channels());
  result.deviation = OfChannels(fields, "std", result.channels());
  result.pad_value = fields.NumberOr("pad_value", 0);
  result.pad_corner = fields.FlagOr("pad_corner", false);
  if (!(result.crop > 0 && result.crop <= 1)) fields.Refuse("crop", "above 0 and up to 1");
  for (double deviation : result.deviation) {
    if (!(deviation > 0)) fields.Refuse("std", "positive");
  }
  if (!(result.pad_value >= 0 && result.pad_value <= 255)) {
    fields.Refuse("pad_value", "a grey from 0 to 255");
  }
  return result;
}

int ClassOf(const std::vector<std::string>& labels, const std::string& name, const Fields& fields,
            const char* field) {
  auto found = std::find(labels.begin(), labels.end(), name);
  if (found == labels.end()) fields.Refuse(field, "of classes that the model has");
  return static_cast<int>(found - labels.begin());
}

YoeoReading ReadYoeo(const Fields& fields, const std::vector<std::string>& labels) {
  YoeoReading result;
  result.detections = fields.Text("detections");
  for (const Fields& item : fields.Objects("heads")) {
    YoeoHead head;
    head.output = item.Text("output");
    head.stride = static_cast<int>(item.Integer("stride", 1, kMostPixels));
    for (const std::vector<double>& anchor : item.NumberLists("anchors")) {
      if (anchor.size() != 2) item.Refuse("anchors", "pairs of a width and a height");
      head.anchors.emplace_back(static_cast<float>(anchor[0]), static_cast<float>(anchor[1]));
    }
    if (head.anchors.empty()) item.Refuse("anchors", "one anchor or more");
    result.heads.push_back(std::move(head));
  }
  result.segmentation = fields.Text("segmentation");
  result.segmentation_labels = fields.Texts("segmentation_labels");
  for (size_t i = 0; i < labels.size(); ++i) result.groups.push_back(static_cast<int>(i));
  for (const Fields& group : fields.Objects("groups")) {
    std::vector<std::string> names = group.Texts("classes");
    for (const std::string& name : names) {
      int first = ClassOf(labels, names[0], fields, "groups");
      result.groups[ClassOf(labels, name, fields, "groups")] = first;
    }
  }
  return result;
}

DetectionReading ReadDetection(const Fields& fields) {
  DetectionReading result;
  result.boxes = fields.Texts("boxes");
  result.transposed = fields.Flag("transposed");
  result.box = OneOf(fields, "box", {"cxcywh", "xyxy", "yxyx", "grid", "anchors", "distances"});
  result.relative = fields.Flag("relative");
  result.strides = fields.Integers("strides", 1, kMostPixels);
  if (fields.Has("anchors")) {
    for (double side : fields.Numbers("anchors")) {
      result.anchors.push_back(static_cast<float>(side));
    }
  }
  result.row = OneOf(fields, "row", {"scores", "objectness", "best"});
  result.scores = fields.Texts("scores");
  result.classes = fields.Text("classes");
  result.first_class = fields.Integer("first_class", 0, kLargest);
  result.count = fields.Text("count");
  result.activation = OneOf(fields, "activation", {"none", "sigmoid", "softmax"});
  result.background = OneOf(fields, "background", {"none", "first", "last"});
  result.multi_label = fields.Flag("multi_label");
  result.suppress = fields.Flag("suppress");
  result.across_classes = fields.Flag("across_classes");
  result.prototypes = fields.Text("prototypes");
  result.prototypes_last = fields.FlagOr("prototypes_last", false);
  result.keypoints = fields.Integer("keypoints", 0, 1000);
  result.keypoint_values = fields.Integer("keypoint_values", 2, 3);
  result.oriented = fields.Flag("oriented");
  result.confidence = fields.Number("confidence");
  result.iou = fields.Number("iou");
  result.max_detections = fields.Integer("max_detections", 1, 100000);
  if (result.boxes.empty()) fields.Refuse("boxes", "the names of outputs");
  bool has_anchors = result.anchors_of_stride() > 0;
  if (has_anchors != (result.box == "anchors") ||
      result.anchors.size() != 2 * result.anchors_of_stride() * result.strides.size()) {
    fields.Refuse("anchors", "pairs, as many for each stride, for boxes of anchors");
  }
  return result;
}

DepthReading ReadDepth(const Fields& fields) {
  DepthReading result{fields.Text("output"), "", fields.Flag("inverse")};
  result.unit = OneOf(fields, "unit", {"", "metres"});
  return result;
}

SegmentationReading ReadSegmentation(const Fields& fields) {
  return {fields.Text("output"), OneOf(fields, "form", {"scores", "indices", "logit"}),
          fields.Flag("channels_last"), fields.Number("threshold")};
}

/*! \brief Whether there are more lists and objects in each other than that: TVM's parser calls
 * itself for each, until the stack ends. */
bool IsDeeperThan(int most, std::string_view text) {
  int levels = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char one = text[i];
    if (one == '"') in_text = !in_text;
    if (in_text) {
      i += one == '\\';
    } else if (one == '[' || one == '{') {
      if (++levels > most) return true;
    } else if (one == ']' || one == '}') {
      --levels;
    }
  }
  return false;
}

}  // namespace

std::string TensorText(const TensorSpec& spec) {
  std::string text = spec.name + ": " + spec.dtype + "[";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(spec.shape[i]);
  }
  return text + "]";
}

Fields ParseInfo(std::string_view text) {
  if (IsDeeperThan(kMostLevels, text)) {
    throw Error("PackageError",
                "mod.json must be JSON in UTF-8, and is not (it is nested too deeply): compile the "
                "model again, or use the tvm_vision that made the package");
  }
  tvm::ffi::String message;
  tvm::ffi::Any value = tvm::ffi::json::Parse(tvm::ffi::String(std::string(text)), &message);
  if (!message.empty()) {
    throw Error("PackageError",
                "mod.json is no JSON: compile the model again, or copy the package again");
  }
  Fields fields(value, "");
  if (fields.Text("format") != "tvm_vision") fields.Refuse("format", "'tvm_vision'");
  int64_t version = fields.Integer("format_version", 0, kLargest);
  int64_t needed = IsFleet(fields) ? kFleetVersion : kFormatVersion;
  if (version != needed) {
    throw Error("PackageError",
                "mod.json: this tvm_vision reads packages " +
                    std::string(IsFleet(fields) ? "for several devices " : "") +
                    "of format version " + std::to_string(needed) + ", found " +
                    std::to_string(version) +
                    ": compile the model again, or install the tvm_vision that made it");
  }
  return fields;
}

NetworkInfo NetworkInfo::Read(const Fields& fields) {
  NetworkInfo info;
  Fields model = fields.Object("model");
  info.model.name = model.Text("name");
  info.model.kind = model.Text("kind");
  info.model.labels = model.Texts("labels");
  info.model.has_preprocessing = model.Has("preprocessing");
  if (info.model.has_preprocessing) {
    info.model.preprocessing = ReadPreprocessing(model.Object("preprocessing"));
  }
  if (model.Has("yoeo")) info.yoeo = ReadYoeo(model.Object("yoeo"), info.model.labels);
  if (model.Has("detection")) info.detection = ReadDetection(model.Object("detection"));
  if (model.Has("segmentation")) info.segmentation = ReadSegmentation(model.Object("segmentation"));
  if (model.Has("depth")) info.depth = ReadDepth(model.Object("depth"));
  for (const auto& [name, confidence] : model.NumbersByName("class_thresholds")) {
    if (!(confidence >= 0 && confidence <= 1)) model.Refuse("class_thresholds", "from 0 to 1");
    int number = ClassOf(info.model.labels, name, model, "class_thresholds");
    info.class_thresholds[number] = static_cast<float>(confidence);
  }
  info.inputs = ReadTensors(fields, "inputs");
  info.outputs = ReadTensors(fields, "outputs");
  Fields target = fields.Object("target");
  info.target_kind = target.Text("kind");
  if (target.Has("device_name")) info.target_device = target.Text("device_name");
  return info;
}

}  // namespace tvm_vision
