/*!
 * \file prepare.h
 * \brief From a frame to a network's input, as mod.json says: crop, letterbox or stretch, resize,
 * order of colours, scale.
 */
#ifndef TVM_VISION_CPP_PREPARE_H_
#define TVM_VISION_CPP_PREPARE_H_

#include <tvm_vision/tvm_vision.hpp>
#include <vector>

#include "resize.h"

namespace tvm_vision {

/*! \brief Where a frame lies in the network's input, in pixels; the rest is of one colour. */
struct Letterbox {
  int rows = 0;
  int columns = 0;
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  /*! \brief Where a package's preprocessing puts a frame of so many rows and columns. */
  static Letterbox Of(int rows, int columns, const Preprocessing& config);
  /*! \brief Pixels of the frame in one pixel of the input. */
  float scale_x() const { return static_cast<float>(static_cast<double>(columns) / width); }
  float scale_y() const { return static_cast<float>(static_cast<double>(rows) / height); }
  float ToImageX(float x) const { return (x - static_cast<float>(left)) * scale_x(); }
  float ToImageY(float y) const { return (y - static_cast<float>(top)) * scale_y(); }
};

/*! \brief Values of [1, 3, height, width] or, with channels_last, [1, height, width, 3]; of grey
 * images one channel. */
using Values = std::vector<float>;

/*! \brief As classifiers see an image: the middle of it, or a letterbox of the whole. BGR. */
Values PrepareClassifier(const PixelView& image, const Preprocessing& config, bool channels_last);

/*! \brief As networks see a frame that say where in it something is: the whole of it. */
Values PrepareFrame(const PixelView& image, const Preprocessing& config, bool channels_last,
                    Letterbox* place);

/*! \brief Values in an input's type, integers rounded to the nearest that it has. */
std::vector<uint8_t> InType(Values values, const TensorSpec& spec);

/*! \brief Throws InputError for what is no image of one, three or four channels. */
PixelView CheckImage(const ImageView& image);

/*! \brief BGR of an image of one, three or four channels. */
Pixels ToBgr(const PixelView& image);

Interpolation InterpolationOf(const std::string& name, bool exact);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_PREPARE_H_
