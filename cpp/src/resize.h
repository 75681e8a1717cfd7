/*!
 * \file resize.h
 * \brief Images of bytes and planes of floats in other sizes, with the results of OpenCV's resize.
 *
 * Written out so that a network gets the same pixels here as in Python, whichever library reads the
 * image file; tests hold it to OpenCV.
 */
#ifndef TVM_VISION_CPP_RESIZE_H_
#define TVM_VISION_CPP_RESIZE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tvm_vision {

/*! \brief Pixels of bytes, rows without gaps. */
struct Pixels {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<uint8_t> bytes;
};

/*! \brief A part of somebody's pixels. stride: bytes from a row to the next. */
struct PixelView {
  const uint8_t* data = nullptr;
  int height = 0;
  int width = 0;
  int channels = 0;
  size_t stride = 0;
};

enum class Interpolation { kArea, kCubic, kLinear, kNearest, kNearestExact };

/*! \brief INTER_AREA, INTER_CUBIC, INTER_LINEAR, INTER_NEAREST or INTER_NEAREST_EXACT of OpenCV,
 * to one level of 255 in each channel. Sides are at least 1. */
Pixels Resize(const PixelView& image, int height, int width, Interpolation how);

/*! \brief A plane of values, rows without gaps. */
struct Plane {
  int height = 0;
  int width = 0;
  std::vector<float> values;
};

/*! \brief The value of a plane at a place between its cells, whose middles are whole numbers, from
 * the four around it; outside, that of the edge. */
float Sample(const Plane& plane, float x, float y);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_RESIZE_H_
