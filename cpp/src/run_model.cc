/*!
 * \file run_model.cc
 * \brief The program run_model: one image through a package, each step printed.
 */
#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <new>
#include <sstream>
#include <tvm_vision/tvm_vision.hpp>

#include "image_file.h"
#include "outputs.h"
#include "text.h"

namespace tvm_vision {

namespace {

constexpr int kUsage = 2;  // exit code of a wrong command line
constexpr const char* kHelp =
    "usage: run_model NAME PACKAGE IMAGE [LABELS] [options]\n"
    "\n"
    "Runs the network in PACKAGE (a tar or folder of tvm_vision) on IMAGE and prints each step.\n"
    "NAME stands in front of what is printed and of the mask's file; LABELS is a text file with a\n"
    "label a line, instead of the package's.\n"
    "\n"
    "  --input-name NAME   the input that takes the image must have this name\n"
    "  --normalize HOW     package (default), imagenet, none, unit, or MEAN,MEAN,MEAN/STD,STD,STD\n"
    "                      in 0..255, in the order of the tensor's channels\n"
    "  --device DEVICE     vulkan, cpu or auto (default): where the package was compiled for\n"
    "  --target NAME       of a package for several devices the variant (default: for this "
    "machine)\n"
    "  --verify KEYS.pub           only a package that one of these keys has signed (PEM, "
    "Ed25519)\n"
    "  --frame-timeout S, --rebuilds N, --fallback cpu|PACKAGE   of a device that is lost: "
    "seconds\n"
    "                      that a frame may take (0: any), attempts a minute (6), what runs then\n"
    "  --opening-timeout S   seconds that a driver may take to open its device (120; 0: any)\n"
    "  --topk N            classes of a classifier (5)\n"
    "  --repeat N          time so many frames, after the first\n"
    "  --confidence X, --iou X   of boxes; default: what the package says\n"
    "  --mask FILE.png     where the mask, the numbers of the boxes of pixels, or depth as\n"
    "                      greys goes (NAME_mask.png)\n"
    "  --version           print the version\n"
    "  --help              this text\n";

struct Arguments {
  std::string name, package, image, labels, input_name, normalize = "package", mask;
  LoadOptions load;
  size_t top = 5;
  int repeat = 0;
  Thresholds thresholds;
};

[[noreturn]] void WrongUsage(const std::string& why) {
  std::cerr << "run_model: " << why << "; run_model --help lists the options\n";
  std::exit(kUsage);
}

double Number(const char* text, const char* what, double low, double high) {
  char* end = nullptr;
  double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= low && value <= high)) {
    std::ostringstream why;
    why << what << " from " << low << " to " << high << " is needed, found '" << text << "'";
    WrongUsage(why.str());
  }
  return value;
}

size_t Whole(const char* text, const char* what, double low, double high) {
  double value = Number(text, what, low, high);
  if (value != std::floor(value)) {
    WrongUsage(std::string(what) + " that is whole is needed, found '" + text + "'");
  }
  return static_cast<size_t>(value);
}

Device DeviceOf(const std::string& word) {
  if (word == "auto") return Device::kAuto;
  if (word == "vulkan") return Device::kVulkan;
  if (word == "cpu") return Device::kCpu;
  WrongUsage("a device of auto, vulkan or cpu is needed, found '" + word + "'");
}

Arguments Parse(int count, char** words) {
  const option options[] = {{"input-name", required_argument, nullptr, 'i'},
                            {"normalize", required_argument, nullptr, 'n'},
                            {"device", required_argument, nullptr, 'd'},
                            {"target", required_argument, nullptr, 't'},
                            {"verify", required_argument, nullptr, 'v'},
                            {"frame-timeout", required_argument, nullptr, 'f'},
                            {"rebuilds", required_argument, nullptr, 'b'},
                            {"fallback", required_argument, nullptr, 'a'},
                            {"opening-timeout", required_argument, nullptr, 'p'},
                            {"topk", required_argument, nullptr, 'k'},
                            {"repeat", required_argument, nullptr, 'r'},
                            {"confidence", required_argument, nullptr, 'c'},
                            {"iou", required_argument, nullptr, 'o'},
                            {"mask", required_argument, nullptr, 'm'},
                            {"version", no_argument, nullptr, 'V'},
                            {"help", no_argument, nullptr, 'h'},
                            {nullptr, 0, nullptr, 0}};
  Arguments arguments;
  opterr = 0;  // said below
  for (int found; (found = getopt_long(count, words, "h", options, nullptr)) != -1;) {
    switch (found) {
      case 'i':
        arguments.input_name = optarg;
        break;
      case 'n':
        arguments.normalize = optarg;
        break;
      case 'd':
        arguments.load.device = DeviceOf(optarg);
        break;
      case 't':
        arguments.load.target = optarg;
        break;
      case 'v':
        arguments.load.verify = optarg;
        break;
      case 'f':
        arguments.load.recovery.frame_timeout = Number(optarg, "a number of seconds", 0, 1e6);
        break;
      case 'b':
        arguments.load.recovery.rebuilds_per_minute =
            static_cast<int>(Whole(optarg, "a number a minute", 0, 60));
        break;
      case 'a':
        arguments.load.recovery.fallback = optarg;
        break;
      case 'p':
        arguments.load.opening_timeout = Number(optarg, "a number of seconds", 0, 1e6);
        break;
      case 'k':
        arguments.top = Whole(optarg, "a number", 1, 1e6);
        break;
      case 'r':
        arguments.repeat = static_cast<int>(Whole(optarg, "a number", 1, 1e6));
        break;
      case 'c':
        arguments.thresholds.confidence = static_cast<float>(Number(optarg, "a confidence", 0, 1));
        break;
      case 'o':
        arguments.thresholds.iou = static_cast<float>(Number(optarg, "an iou", 0, 1));
        break;
      case 'm':
        arguments.mask = optarg;
        break;
      case 'V':
        std::cout << "run_model " << TVM_VISION_VERSION << "\n";
        std::exit(0);
      case 'h':
        std::cout << kHelp;
        std::exit(0);
      default:
        WrongUsage("an option that there is, with its value, is needed, found '" +
                   std::string(words[optind - 1]) + "'");
    }
  }
  std::string* places[] = {&arguments.name, &arguments.package, &arguments.image,
                           &arguments.labels};
  int given = count - optind;
  if (given < 3 || given > 4) WrongUsage("NAME, PACKAGE and IMAGE are needed, and perhaps LABELS");
  for (int i = 0; i < given; ++i) *places[i] = words[optind + i];
  if (arguments.mask.empty()) arguments.mask = arguments.name + "_mask.png";
  if (std::string ending = std::filesystem::path(arguments.mask).extension(); ending != ".png") {
    WrongUsage("--mask writes PNG: a file that ends in .png is needed, found '" + arguments.mask +
               "'");
  }
  return arguments;
}

std::vector<std::string> ReadLabels(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    // As Windows writes it: a byte order mark, and "\r" at each end.
    if (labels.empty() && line.compare(0, 3, "\xEF\xBB\xBF") == 0) line.erase(0, 3);
    size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
    labels.push_back(first == std::string::npos ? "" : line.substr(first, last - first + 1));
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.empty()) {
    throw Error("InputError", "a text file with a label a line is needed, and '" + path +
                                  "' has none or cannot be read: check the path");
  }
  return labels;
}

/*! \brief Mean and deviation of --normalize; false where the package's stay. */
bool Normalization(const std::string& how, std::array<double, 3>* mean,
                   std::array<double, 3>* deviation) {
  if (how == "package") return false;
  *mean = {0, 0, 0};
  *deviation = {1, 1, 1};
  if (how == "none") return true;
  if (how == "unit") {
    *deviation = {255, 255, 255};
    return true;
  }
  if (how == "imagenet") {
    // Of the colours red, green, blue, as torchvision's networks were trained.
    *mean = {0.485 * 255, 0.456 * 255, 0.406 * 255};
    *deviation = {0.229 * 255, 0.224 * 255, 0.225 * 255};
    return true;
  }
  int end = 0;
  int found = std::sscanf(how.c_str(), "%lf,%lf,%lf/%lf,%lf,%lf%n", &(*mean)[0], &(*mean)[1],
                          &(*mean)[2], &(*deviation)[0], &(*deviation)[1], &(*deviation)[2], &end);
  if (found != 6 || static_cast<size_t>(end) != how.size()) {
    WrongUsage(
        "--normalize takes package, imagenet, none, unit or six numbers M,M,M/S,S,S, found "
        "'" +
        how + "'");
  }
  return true;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string Range(const TensorView& tensor) {
  std::vector<float> values = ToFloats(tensor).values;
  if (values.empty()) return "empty";
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  std::ostringstream text;
  text << *least << " to " << *most;
  return text.str();
}

/*! \brief Type and shape, and what integers stand for. */
std::string TypeText(const TensorSpec& spec) {
  std::ostringstream text;
  text << spec.dtype << ShapeText(spec.shape);
  if (spec.scale > 0) text << " = (q - " << spec.zero_point << ") * " << spec.scale;
  return text.str();
}

/*! \brief What belongs to a box beside it. */
std::string More(const Detection& one) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  if (one.oriented) {
    const std::array<float, 5>& box = one.oriented_box;
    text << "; centre " << box[0] << " " << box[1] << ", sides " << box[2] << " " << box[3]
         << ", turned by " << std::setprecision(3) << box[4] << std::setprecision(1);
  }
  if (!one.keypoints.empty()) {
    text << "; points";
    for (const Keypoint& point : one.keypoints) text << " " << point.x << "," << point.y;
  }
  const std::vector<uint8_t>& pixels = one.mask.pixels;
  if (!pixels.empty()) {
    text << "; mask of " << std::count(pixels.begin(), pixels.end(), 1) << " pixels";
  }
  return text.str();
}

/*! \brief 255 for the nearest pixel and 0 for the farthest, evenly in between; 0 for what is no
 * number, and everywhere where all is equally far. */
std::vector<uint8_t> Nearness(const DepthMap& depth, float low, float high) {
  std::vector<uint8_t> levels;
  levels.reserve(depth.values.size());
  for (float value : depth.values) {
    float share = std::isfinite(value) && high > low ? (value - low) / (high - low) : NAN;
    float near = std::isnan(share) ? 0 : depth.inverse ? share : 1 - share;
    levels.push_back(static_cast<uint8_t>(std::lrint(255 * near)));
  }
  return levels;
}

constexpr size_t kMostIds = 255;

/*! \brief `InstanceMasks.ids` of tvm_vision/models/instance_masks.py in eight bits: for each pixel
 * 1
 * + the position of its object, the first of those that overlap there; 0 where there is none. */
std::vector<uint8_t> ObjectIds(const std::vector<Detection>& found, int height, int width) {
  std::vector<uint8_t> ids(static_cast<size_t>(height) * static_cast<size_t>(width));
  for (size_t place = found.size(); place-- > 0;) {
    const InstanceMask& mask = found[place].mask;
    for (size_t i = 0; i < mask.pixels.size(); ++i) {
      size_t row = static_cast<size_t>(mask.top) + i / static_cast<size_t>(mask.width);
      size_t column = static_cast<size_t>(mask.left) + i % static_cast<size_t>(mask.width);
      if (mask.pixels[i] == 0) continue;
      ids[row * static_cast<size_t>(width) + column] =
          static_cast<uint8_t>(std::min(place + 1, kMostIds));
    }
  }
  return ids;
}

std::string Three(const std::array<double, 3>& values) {
  std::ostringstream text;
  text << values[0] << ", " << values[1] << ", " << values[2];
  return text.str();
}

class Program {
 public:
  explicit Program(Arguments arguments)
      : arguments_(std::move(arguments)),
        model_(VisionModel::Load(arguments_.package, arguments_.load)) {
    const Network& network = model_.network();
    if (!arguments_.input_name.empty()) network.InputIndex(arguments_.input_name);
    if (!arguments_.labels.empty()) model_.set_labels(ReadLabels(arguments_.labels));
    config_ = network.model().preprocessing;
    if (Normalization(arguments_.normalize, &config_.mean, &config_.deviation)) {
      model_.set_normalization(config_.mean, config_.deviation);
    }
    model_.set_thresholds(arguments_.thresholds);
  }

  void Run() {
    Pixels pixels = ReadImage(arguments_.image);
    ImageView image{pixels.bytes.data(), pixels.height, pixels.width, pixels.channels, 0};
    size_ = {image.height, image.width};
    PrintPreparation(image);
    Result result = model_(image, arguments_.top);
    PrintOutputs();
    PrintResult(result);
    Line("time") << result.preprocess_ms << " ms to prepare, " << result.run_ms << " to run, "
                 << result.postprocess_ms << " to read (first frame)\n";
    if (arguments_.repeat > 0) PrintTimes(image);
    if (std::string lost = model_.network().losses().Describe(); !lost.empty()) {
      Line("device") << lost << "\n";
    }
  }

 private:
  std::ostream& Line(const char* what) {
    return std::cout << arguments_.name << ": " << what << ": ";
  }

  void PrintPreparation(const ImageView& image) {
    const Network& network = model_.network();
    const TensorSpec& input = network.inputs()[0];
    TensorView tensor = model_.Prepare(image);
    Line("network") << network.model().name << " (" << network.model().kind << ")\n";
    Line("device") << network.device() << "\n";
    Line("image") << arguments_.image << ", " << image.width << "x" << image.height << "\n";
    const char* how = config_.stretch     ? "stretched"
                      : config_.letterbox ? "letterbox"
                                          : "middle cut out";
    Line("resize") << "to " << config_.width << "x" << config_.height << ", " << how;
    if (config_.crop != 1) std::cout << ", " << 100 * config_.crop << " %";
    std::cout << ", " << config_.interpolation << "\n";
    const bool gray = config_.channels() == 1;
    Line("colours") << (gray ? "grey" : config_.color_order == "rgb" ? "RGB" : "BGR") << "\n";
    Line("scaling") << "(pixel - mean) / deviation, mean " << Three(config_.mean) << ", deviation "
                    << Three(config_.deviation) << "\n";
    Line("input") << input.name << ", " << TypeText(input) << ", " << Range(tensor) << "\n";
  }

  void PrintOutputs() {
    Network& network = model_.network();
    for (size_t i = 0; i < network.outputs().size(); ++i) {
      const TensorSpec& spec = network.outputs()[i];
      Line("output") << spec.name << ", " << TypeText(spec) << ", " << Range(network.Output(i))
                     << "\n";
    }
  }

  void PrintResult(const Result& result) {
    size_t place = 0;
    for (const ClassScore& one : result.classes) {
      char line[64];
      std::snprintf(line, sizeof(line), "%zu. %5d  %.6f  ", ++place, one.class_id, one.probability);
      Line("class") << line << one.label << "\n";
    }
    for (const Detection& one : result.detections) {
      char line[128];
      std::snprintf(line, sizeof(line), "%.4f  %.1f %.1f %.1f %.1f  ", one.score, one.x1, one.y1,
                    one.x2, one.y2);
      Line("box") << line << one.label << More(one) << "\n";
    }
    if (model_.network().model().kind != "classifier" && result.classes.empty() &&
        result.detections.empty() && result.segmentation.classes.empty() &&
        result.depth.values.empty()) {
      Line("box") << "none above the confidence\n";
    }
    WriteMask(result);
    WriteObjects(result.detections);
    WriteDepth(result.depth);
  }

  void WriteObjects(const std::vector<Detection>& found) {
    bool masks = std::any_of(found.begin(), found.end(),
                             [](const Detection& one) { return !one.mask.pixels.empty(); });
    if (!masks) return;
    std::vector<uint8_t> ids = ObjectIds(found, size_[0], size_[1]);
    WritePng(arguments_.mask, {size_[0], size_[1], 1, std::move(ids)});
    Line("mask") << "wrote " << arguments_.mask << ", for each pixel the number of its box, from 1"
                 << (found.size() > kMostIds ? "; 255 for box 255 and all behind it" : "") << "\n";
  }

  void WriteDepth(const DepthMap& depth) {
    if (depth.values.empty()) return;
    std::vector<float> sound;
    std::copy_if(depth.values.begin(), depth.values.end(), std::back_inserter(sound),
                 [](float value) { return std::isfinite(value); });
    if (sound.empty()) {
      Line("depth") << "no number at all\n";
      return;
    }
    auto [low, high] = std::minmax_element(sound.begin(), sound.end());
    Line("depth") << *low << " to " << *high << (depth.unit.empty() ? "" : " ") << depth.unit
                  << (depth.inverse ? ", larger is nearer" : ", smaller is nearer") << "\n";
    WritePng(arguments_.mask, {depth.height, depth.width, 1, Nearness(depth, *low, *high)});
    Line("depth") << "wrote " << arguments_.mask << ", 255 the nearest, 0 the farthest\n";
  }

  void WriteMask(const Result& result) {
    const Segmentation& mask = result.segmentation;
    if (mask.classes.empty()) return;
    std::vector<size_t> counts(256);
    for (uint8_t class_id : mask.classes) ++counts[class_id];
    for (size_t i = 0; i < mask.labels.size(); ++i) {
      Line("mask") << i << " " << mask.labels[i] << " "
                   << 100.0 * static_cast<double>(counts[i]) /
                          static_cast<double>(mask.classes.size())
                   << " %\n";
    }
    WritePng(arguments_.mask, {mask.height, mask.width, 1, mask.classes});
    Line("mask") << "wrote " << arguments_.mask << ", a class for each pixel\n";
  }

  void PrintTimes(const ImageView& image) {
    std::vector<double> frames;
    for (int i = 0; i < arguments_.repeat; ++i) {
      Result result = model_(image, arguments_.top);
      frames.push_back(result.preprocess_ms + result.run_ms + result.postprocess_ms);
    }
    std::sort(frames.begin(), frames.end());
    Line("time") << frames[frames.size() / 2] << " ms a frame (median of " << frames.size()
                 << "), p95 " << frames[(frames.size() - 1) * 95 / 100] << ", least " << frames[0]
                 << "\n";
  }

  Arguments arguments_;
  VisionModel model_;
  Preprocessing config_;
  std::array<int, 2> size_{};  // of the image, height and width
};

}  // namespace

}  // namespace tvm_vision

int main(int count, char** words) {
  // What was closed: a file that is opened would get its number, and what is printed with it.
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
  try {
    tvm_vision::Program(tvm_vision::Parse(count, words)).Run();
    if (std::cout.flush()) return 0;
    std::cerr << "run_model: the results cannot be printed (no room, or nobody reads them)\n";
    return 1;
  } catch (const std::bad_alloc&) {
    std::cout.flush();
    std::cerr << "run_model: " << tvm_vision::kOutOfMemory << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cout.flush();
    std::cerr << "run_model: " << error.what() << "\n";
    return 1;
  }
}
