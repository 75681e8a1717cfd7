#include "prepare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tvm_vision {

namespace {

constexpr int kColors = 3;
constexpr int kMostSide = 1 << 20;

/*! \brief Python's round: to the even number from the middle. */
int Rounded(double value) { return static_cast<int>(std::lrint(value)); }

/*! \brief The middle of an image in the aspect of the tensor. */
PixelView Cut(const PixelView& image, const Preprocessing& config) {
  double scale = config.crop * std::min(static_cast<double>(image.height) / config.height,
                                        static_cast<double>(image.width) / config.width);
  PixelView cut = image;
  cut.height = std::max(1, Rounded(config.height * scale));
  cut.width = std::max(1, Rounded(config.width * scale));
  int top = (image.height - cut.height + 1) / 2, left = (image.width - cut.width + 1) / 2;
  cut.data += static_cast<size_t>(top) * image.stride + static_cast<size_t>(left) * image.channels;
  return cut;
}

/*! \brief The whole image in the middle, or corner, of one in the aspect of the tensor. */
Pixels Padded(const PixelView& image, const Preprocessing& config) {
  double scale = std::max(static_cast<double>(image.height) / config.height,
                          static_cast<double>(image.width) / config.width);
  int rows = std::max(0, Rounded(config.height * scale) - image.height);
  int columns = std::max(0, Rounded(config.width * scale) - image.width);
  int top = config.pad_corner ? 0 : rows / 2, left = config.pad_corner ? 0 : columns / 2;
  Pixels out{image.height + rows, image.width + columns, image.channels, {}};
  out.bytes.assign(static_cast<size_t>(out.height) * out.width * out.channels,
                   static_cast<uint8_t>(Rounded(config.pad_value)));
  for (int y = 0; y < image.height; ++y) {
    size_t to = (static_cast<size_t>(top + y) * out.width + left) * out.channels;
    std::memcpy(&out.bytes[to], image.data + y * image.stride,
                static_cast<size_t>(image.width) * image.channels);
  }
  return out;
}

PixelView ViewOf(const Pixels& pixels) {
  return {pixels.bytes.data(), pixels.height, pixels.width, pixels.channels,
          static_cast<size_t>(pixels.width) * pixels.channels};
}

/*! \brief Where a channel of a pixel goes in a tensor of a size. */
size_t Index(const Preprocessing& config, bool channels_last, int plane, int y, int x) {
  size_t pixel = static_cast<size_t>(y) * config.width + x;
  size_t pixels = static_cast<size_t>(config.height) * config.width;
  return channels_last ? pixel * config.channels() + plane : plane * pixels + pixel;
}

/*! \brief One channel of an image of one, three or four: the luma of ITU-R BT.601 in 15 bits, as
 * OpenCV computes it. */
Pixels ToGray(const PixelView& image) {
  Pixels out{image.height, image.width, 1, {}};
  out.bytes.resize(static_cast<size_t>(image.height) * image.width);
  uint8_t* to = out.bytes.data();
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* from = image.data + y * image.stride;
    for (int x = 0; x < image.width; ++x, from += image.channels) {
      *to++ = image.channels == 1
                  ? from[0]
                  : static_cast<uint8_t>(
                        (from[0] * 3735 + from[1] * 19235 + from[2] * 9798 + (1 << 14)) >> 15);
    }
  }
  return out;
}

/*! \brief An image in the channels of a tensor, colours as BGR. */
Pixels InChannels(Pixels image, int channels) {
  if (image.channels == channels) return image;
  return channels == 1 ? ToGray(ViewOf(image)) : ToBgr(ViewOf(image));
}

template <typename T>
std::vector<uint8_t> Whole(const Values& values) {
  std::vector<T> numbers(values.size());
  // The limits of a type as floats; of 32 bits the largest float below.
  const double low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
  std::transform(values.begin(), values.end(), numbers.begin(), [&](float value) {
    return static_cast<T>(std::clamp(std::nearbyint(static_cast<double>(value)), low, high));
  });
  std::vector<uint8_t> bytes(numbers.size() * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/*! \brief IEEE 754 binary16 of a float, rounded to the nearest, halves to even. */
uint16_t Half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  // 65520 is the least that rounds to infinity.
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // A denormal: a whole number of 2^-24.
    float scaled = std::nearbyint(std::fabs(value) * 16777216.0f);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(scaled));
  }
  uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace

Interpolation InterpolationOf(const std::string& name, bool exact) {
  if (name == "area") return Interpolation::kArea;
  if (name == "cubic") return Interpolation::kCubic;
  if (name == "linear") return Interpolation::kLinear;
  return exact ? Interpolation::kNearestExact : Interpolation::kNearest;
}

PixelView CheckImage(const ImageView& image) {
  bool known = image.channels == 1 || image.channels == kColors || image.channels == 4;
  bool sized =
      image.height > 0 && image.width > 0 && image.height < kMostSide && image.width < kMostSide;
  size_t row = sized && known ? static_cast<size_t>(image.width) * image.channels : 0;
  if (image.data == nullptr || row == 0 || (image.stride != 0 && image.stride < row)) {
    throw Error("InputError", "an image of bytes [height, width, 3] in BGR is needed, found [" +
                                  std::to_string(image.height) + ", " +
                                  std::to_string(image.width) + ", " +
                                  std::to_string(image.channels) + "], " +
                                  std::to_string(image.stride) + " bytes a row: convert it first");
  }
  return {image.data, image.height, image.width, image.channels,
          image.stride != 0 ? image.stride : row};
}

Pixels ToBgr(const PixelView& image) {
  Pixels out{image.height, image.width, kColors, {}};
  out.bytes.resize(static_cast<size_t>(image.height) * image.width * kColors);
  uint8_t* to = out.bytes.data();
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* from = image.data + y * image.stride;
    for (int x = 0; x < image.width; ++x, from += image.channels) {
      for (int c = 0; c < kColors; ++c) *to++ = from[image.channels == 1 ? 0 : c];
    }
  }
  return out;
}

Letterbox Letterbox::Of(int rows, int columns, const Preprocessing& config) {
  if (config.stretch) return {rows, columns, 0, 0, config.height, config.width};
  double scale = std::min(static_cast<double>(config.height) / rows,
                          static_cast<double>(config.width) / columns);
  int height = std::min(config.height, std::max(1, Rounded(rows * scale)));
  int width = std::min(config.width, std::max(1, Rounded(columns * scale)));
  if (config.pad_corner) return {rows, columns, 0, 0, height, width};
  return {rows, columns, (config.height - height) / 2, (config.width - width) / 2, height, width};
}

Values PrepareClassifier(const PixelView& image, const Preprocessing& config, bool channels_last) {
  Pixels padded;
  PixelView seen = image;
  if (config.letterbox && !config.stretch) {
    padded = Padded(image, config);
    seen = ViewOf(padded);
  } else if (!config.stretch) {
    seen = Cut(image, config);
  }
  const int channels = config.channels();
  Pixels small = InChannels(
      Resize(seen, config.height, config.width, InterpolationOf(config.interpolation, false)),
      channels);
  Values values(static_cast<size_t>(config.height) * config.width * channels);
  bool turned = config.color_order == "rgb";
  const uint8_t* at = small.bytes.data();
  for (int y = 0; y < config.height; ++y) {
    for (int x = 0; x < config.width; ++x, at += channels) {
      for (int plane = 0; plane < channels; ++plane) {
        float pixel = at[turned ? channels - 1 - plane : plane];
        float scale = 1.0f / static_cast<float>(config.deviation[plane]);
        values[Index(config, channels_last, plane, y, x)] =
            (pixel - static_cast<float>(config.mean[plane])) * scale;
      }
    }
  }
  return values;
}

Values PrepareFrame(const PixelView& image, const Preprocessing& config, bool channels_last,
                    Letterbox* place) {
  *place = Letterbox::Of(image.height, image.width, config);
  const int channels = config.channels();
  Pixels small = InChannels(
      Resize(image, place->height, place->width, InterpolationOf(config.interpolation, true)),
      channels);
  Values values(static_cast<size_t>(config.height) * config.width * channels);
  bool turned = config.color_order == "rgb";
  for (int plane = 0; plane < channels; ++plane) {
    double mean = config.mean[plane], deviation = config.deviation[plane];
    float factor = static_cast<float>(1.0 / deviation);
    float offset = static_cast<float>((0.0 - mean) / deviation);
    float border = static_cast<float>((config.pad_value - mean) / deviation);
    int channel = turned ? channels - 1 - plane : plane;
    for (int y = 0; y < config.height; ++y) {
      int row = y - place->top;
      bool outside = row < 0 || row >= place->height;
      for (int x = 0; x < config.width; ++x) {
        int column = x - place->left;
        float value = border;
        if (!outside && column >= 0 && column < place->width) {
          size_t pixel = static_cast<size_t>(row) * place->width + column;
          value = small.bytes[pixel * channels + channel] * factor + offset;
        }
        values[Index(config, channels_last, plane, y, x)] = value;
      }
    }
  }
  return values;
}

std::vector<uint8_t> InType(Values values, const TensorSpec& spec) {
  const std::string& dtype = spec.dtype;
  if (spec.scale > 0) {
    float zero = static_cast<float>(spec.zero_point);
    for (float& value : values) value = std::nearbyint(value / spec.scale) + zero;
  }
  if (dtype == "uint8") return Whole<uint8_t>(values);
  if (dtype == "int8") return Whole<int8_t>(values);
  if (dtype == "int32") return Whole<int32_t>(values);
  std::vector<uint8_t> bytes;
  if (dtype == "float16") {
    bytes.resize(2 * values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = Half(values[i]);
      std::memcpy(&bytes[2 * i], &half, 2);
    }
    return bytes;
  }
  if (dtype != "float32") {
    throw Error("InputError",
                "an input of float32, float16, uint8, int8 or int32 is needed for an "
                "image, and this network takes " +
                    dtype + ": set its input itself");
  }
  bytes.resize(sizeof(float) * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace tvm_vision
