#include "resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tvm_vision {

namespace {

// OpenCV weighs pixels of bytes in whole numbers of 2048ths.
constexpr int kOne = 2048;

uint8_t Byte(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

/*! \brief Source of one place along an axis: the first of `Taps` neighbours, and their weights. */
template <int Taps>
struct Source {
  int first = 0;
  std::array<int, Taps> weights = {};
};

/*! \brief Where a middle between pixels lies: the pixel before it, and how far behind that. */
std::pair<int, float> Place(int to, double scale) {
  float at = static_cast<float>((to + 0.5) * scale - 0.5);
  int first = static_cast<int>(std::floor(at));
  return {first, at - static_cast<float>(first)};
}

/*! \brief The same of an area that is enlarged: a pixel is drawn out, and blended over one. */
std::pair<int, float> PlaceOfArea(int to, double inverse) {
  int first = static_cast<int>(std::floor(to * (1 / inverse)));
  float part = static_cast<float>((to + 1) - (first + 1) * inverse);
  return {first, part <= 0 ? 0.0f : part - std::floor(part)};
}

std::vector<Source<2>> LinearSources(int from, int to, bool area) {
  // Scales are inverted as OpenCV does it: which pixel an edge belongs to may hang on the last bit.
  double inverse = static_cast<double>(to) / from;
  std::vector<Source<2>> sources(to);
  for (int i = 0; i < to; ++i) {
    auto [first, part] = area ? PlaceOfArea(i, inverse) : Place(i, 1 / inverse);
    if (first < 0) first = 0, part = 0;
    if (first >= from - 1) first = from - 1, part = 0;
    sources[i].first = first;
    sources[i].weights = {static_cast<int>(std::lrint((1.0f - part) * kOne)),
                          static_cast<int>(std::lrint(part * kOne))};
  }
  return sources;
}

/*! \brief Weights of Keys' cubic convolution with a = -3/4 (Keys, 1981), as OpenCV has them. */
std::vector<Source<4>> CubicSources(int from, int to) {
  constexpr float a = -0.75f;
  double scale = static_cast<double>(from) / to;
  std::vector<Source<4>> sources(to);
  for (int i = 0; i < to; ++i) {
    auto [first, part] = Place(i, scale);
    auto near = [](float d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    float before = part + 1;
    float weights[4] = {((a * before - 5 * a) * before + 8 * a) * before - 4 * a, near(part),
                        near(1 - part), 0};
    weights[3] = 1 - weights[0] - weights[1] - weights[2];
    sources[i].first = first - 1;
    for (int k = 0; k < 4; ++k) {
      sources[i].weights[k] = static_cast<int>(std::lrint(weights[k] * kOne));
    }
  }
  return sources;
}

/*! \brief A row of the image, weighed along its columns. */
template <int Taps>
void WeighRow(const PixelView& image, int row, const std::vector<Source<Taps>>& columns,
              std::vector<int>* out) {
  const uint8_t* pixels = image.data + static_cast<size_t>(row) * image.stride;
  const int channels = image.channels;
  size_t at = 0;
  for (const Source<Taps>& source : columns) {
    for (int c = 0; c < channels; ++c) {
      int sum = 0;
      for (int k = 0; k < Taps; ++k) {
        int column = std::clamp(source.first + k, 0, image.width - 1);
        sum += pixels[column * channels + c] * source.weights[k];
      }
      (*out)[at++] = sum;
    }
  }
}

/*! \brief Two weighed rows blended, rounded as OpenCV's fixed-point arithmetic does. */
uint8_t Blend(const std::array<int, 2>& weights, const std::array<const int*, 2>& rows, size_t i) {
  int sum = ((weights[0] * (rows[0][i] >> 4)) >> 16) + ((weights[1] * (rows[1][i] >> 4)) >> 16);
  return Byte((sum + 2) >> 2);
}

uint8_t Blend(const std::array<int, 4>& weights, const std::array<const int*, 4>& rows, size_t i) {
  double sum = 0;
  for (int k = 0; k < 4; ++k) sum += static_cast<double>(weights[k]) * rows[k][i];
  return Byte(static_cast<int>(std::lrint(sum / (double{kOne} * kOne))));
}

template <int Taps>
void Separable(const PixelView& image, const std::vector<Source<Taps>>& columns,
               const std::vector<Source<Taps>>& rows, Pixels* out) {
  const size_t length = static_cast<size_t>(out->width) * image.channels;
  // Weighed rows by number, of which only those around the one being made are kept.
  std::array<std::vector<int>, Taps> kept;
  std::array<int, Taps> numbers;
  numbers.fill(-1);
  for (std::vector<int>& row : kept) row.resize(length);
  for (int y = 0; y < out->height; ++y) {
    std::array<const int*, Taps> around;
    for (int k = 0; k < Taps; ++k) {
      int row = std::clamp(rows[y].first + k, 0, image.height - 1);
      int slot = row % Taps;
      if (numbers[slot] != row) {
        WeighRow<Taps>(image, row, columns, &kept[slot]);
        numbers[slot] = row;
      }
      around[k] = kept[slot].data();
    }
    uint8_t* to = out->bytes.data() + y * length;
    for (size_t i = 0; i < length; ++i) to[i] = Blend(rows[y].weights, around, i);
  }
}

/*! \brief A pixel that lies in the area of another one, and which part of the area it takes. */
struct Share {
  int to;
  int from;
  float part;
};

std::vector<Share> AreaShares(int from, int to) {
  // A sliver that is less of a pixel is left out.
  constexpr double kSliver = 1e-3;
  double scale = static_cast<double>(from) / to;
  std::vector<Share> shares;
  for (int i = 0; i < to; ++i) {
    double begin = i * scale, end = begin + scale;
    double covered = std::min(scale, from - begin);
    int last = std::min(static_cast<int>(std::floor(end)), from - 1);
    int first = std::min(static_cast<int>(std::ceil(begin)), last);
    if (first - begin > kSliver) {
      shares.push_back({i, first - 1, static_cast<float>((first - begin) / covered)});
    }
    for (int k = first; k < last; ++k) shares.push_back({i, k, static_cast<float>(1 / covered)});
    if (end - last > kSliver) {
      double part = std::min(std::min(end - last, 1.0), covered) / covered;
      shares.push_back({i, last, static_cast<float>(part)});
    }
  }
  return shares;
}

void ShrinkByArea(const PixelView& image, Pixels* out) {
  const int channels = image.channels;
  const size_t length = static_cast<size_t>(out->width) * channels;
  std::vector<Share> columns = AreaShares(image.width, out->width);
  std::vector<Share> rows = AreaShares(image.height, out->height);
  std::vector<float> row(length), sum(length);
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint8_t* pixels = image.data + static_cast<size_t>(rows[i].from) * image.stride;
    std::fill(row.begin(), row.end(), 0.0f);
    for (const Share& share : columns) {
      for (int c = 0; c < channels; ++c) {
        row[share.to * channels + c] += pixels[share.from * channels + c] * share.part;
      }
    }
    for (size_t k = 0; k < length; ++k) sum[k] += row[k] * rows[i].part;
    if (i + 1 < rows.size() && rows[i + 1].to == rows[i].to) continue;
    uint8_t* to = out->bytes.data() + rows[i].to * length;
    for (size_t k = 0; k < length; ++k) to[k] = Byte(static_cast<int>(std::lrint(sum[k])));
    std::fill(sum.begin(), sum.end(), 0.0f);
  }
}

/*! \brief The same where whole blocks of pixels become one, summed in whole numbers. */
void ShrinkByBlocks(const PixelView& image, int down, int across, Pixels* out) {
  const int channels = image.channels;
  const float part = 1.0f / static_cast<float>(down * across);
  uint8_t* to = out->bytes.data();
  for (int y = 0; y < out->height; ++y) {
    for (int x = 0; x < out->width; ++x) {
      for (int c = 0; c < channels; ++c) {
        int sum = 0;
        for (int v = 0; v < down; ++v) {
          const uint8_t* row = image.data + static_cast<size_t>(y * down + v) * image.stride;
          for (int u = 0; u < across; ++u) sum += row[(x * across + u) * channels + c];
        }
        // Four are rounded up at a half, more to the even number.
        bool four = down == 2 && across == 2;
        *to++ = four ? Byte((sum + 2) >> 2)
                     : Byte(static_cast<int>(std::lrint(static_cast<float>(sum) * part)));
      }
    }
  }
}

/*! \brief By the corner of a pixel's area, or `exact`, by its middle: on the border of two the
 * later one, where versions of OpenCV differ. */
void ByNearest(const PixelView& image, bool exact, Pixels* out) {
  auto places = [exact](int from, int to) {
    std::vector<int> result(to);
    const double scale = 1.0 / (static_cast<double>(to) / from);
    for (int i = 0; i < to; ++i) {
      int place = exact ? static_cast<int>((2 * int64_t{i} + 1) * from / (2 * int64_t{to}))
                        : static_cast<int>(std::floor(i * scale));
      result[i] = std::min(place, from - 1);
    }
    return result;
  };
  std::vector<int> columns = places(image.width, out->width);
  std::vector<int> rows = places(image.height, out->height);
  uint8_t* to = out->bytes.data();
  for (int y : rows) {
    const uint8_t* row = image.data + static_cast<size_t>(y) * image.stride;
    for (int x : columns) {
      std::memcpy(to, row + static_cast<size_t>(x) * image.channels, image.channels);
      to += image.channels;
    }
  }
}

/*! \brief How many pixels become one along an axis; 0 where that is no whole number. */
int Block(int from, int to) { return from % to == 0 ? from / to : 0; }

}  // namespace

Pixels Resize(const PixelView& image, int height, int width, Interpolation how) {
  Pixels out{height, width, image.channels, {}};
  const size_t length = static_cast<size_t>(width) * image.channels;
  out.bytes.resize(height * length);
  if (height == image.height && width == image.width) {
    for (int y = 0; y < height; ++y) {
      std::memcpy(&out.bytes[y * length], image.data + y * image.stride, length);
    }
    return out;
  }
  int down = Block(image.height, height), across = Block(image.width, width);
  // Half the size is what both mean by the mean of four.
  bool halved = how == Interpolation::kLinear && down == 2 && across == 2;
  bool shrinks = height <= image.height && width <= image.width;
  switch (how) {
    case Interpolation::kNearest:
    case Interpolation::kNearestExact:
      ByNearest(image, how == Interpolation::kNearestExact, &out);
      break;
    case Interpolation::kCubic:
      Separable<4>(image, CubicSources(image.width, width), CubicSources(image.height, height),
                   &out);
      break;
    case Interpolation::kArea:
    case Interpolation::kLinear: {
      bool area = how == Interpolation::kArea;
      if (halved || (area && shrinks && down > 0 && across > 0)) {
        ShrinkByBlocks(image, down, across, &out);
      } else if (area && shrinks) {
        ShrinkByArea(image, &out);
      } else {
        Separable<2>(image, LinearSources(image.width, width, area),
                     LinearSources(image.height, height, area), &out);
      }
      break;
    }
  }
  return out;
}

float Sample(const Plane& plane, float x, float y) {
  x = std::clamp(x, 0.0f, static_cast<float>(plane.width - 1));
  y = std::clamp(y, 0.0f, static_cast<float>(plane.height - 1));
  int left = static_cast<int>(x), top = static_cast<int>(y);
  int right = std::min(left + 1, plane.width - 1), bottom = std::min(top + 1, plane.height - 1);
  float across = x - static_cast<float>(left), down = y - static_cast<float>(top);
  const float* upper = plane.values.data() + static_cast<size_t>(top) * plane.width;
  const float* lower = plane.values.data() + static_cast<size_t>(bottom) * plane.width;
  float above = upper[left] + across * (upper[right] - upper[left]);
  float below = lower[left] + across * (lower[right] - lower[left]);
  return above + down * (below - above);
}

}  // namespace tvm_vision
