/*!
 * \file results.cc
 * \brief For the tests: what a package's network gets for images, and what it says about them.
 *
 *   results PACKAGE FOLDER
 *
 * FOLDER has files HEIGHTxWIDTHxCHANNELS.bgr of raw pixels. Beside each goes one of the same name
 * that ends in .input, the bytes of the network's input, and, of a network with a mask, one that
 * ends in .mask, the class of each pixel, or in .depth, the float32 of each. Prints a line for each
 * class or object: the image's name, the class, the score, and more as it belongs to the kind.
 */
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <tvm_vision/tvm_vision.hpp>

namespace fs = std::filesystem;

static void Write(const fs::path& path, const void* data, size_t bytes) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

static void Print(const std::string& name, const tvm_vision::Detection& one) {
  std::cout << name << " " << one.class_id << " " << one.score << " " << one.x1 << " " << one.y1
            << " " << one.x2 << " " << one.y2;
  for (const tvm_vision::Keypoint& point : one.keypoints) {
    std::cout << " " << point.x << " " << point.y << " " << point.score;
  }
  if (one.oriented) {
    for (float value : one.oriented_box) std::cout << " " << value;
  }
  const tvm_vision::InstanceMask& mask = one.mask;
  if (mask.height > 0) {
    std::cout << " " << mask.top << " " << mask.left << " " << mask.height << " " << mask.width
              << " " << std::accumulate(mask.pixels.begin(), mask.pixels.end(), 0);
  }
  std::cout << "\n";
}

int main(int count, char** words) try {
  if (count != 3) throw std::runtime_error("PACKAGE and FOLDER are needed");
  std::cout.precision(9);
  tvm_vision::VisionModel model = tvm_vision::VisionModel::Load(words[1]);
  for (const fs::directory_entry& entry : fs::directory_iterator(words[2])) {
    if (entry.path().extension() != ".bgr") continue;
    std::string name = entry.path().stem();
    tvm_vision::ImageView image;
    if (std::sscanf(name.c_str(), "%dx%dx%d", &image.height, &image.width, &image.channels) != 3) {
      throw std::runtime_error("a name HEIGHTxWIDTHxCHANNELS.bgr is needed");
    }
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<char> pixels((std::istreambuf_iterator<char>(file)), {});
    image.data = reinterpret_cast<const uint8_t*>(pixels.data());
    tvm_vision::TensorView input = model.Prepare(image);
    Write(fs::path(entry.path()).replace_extension(".input"), input.data, input.bytes);
    tvm_vision::Result result = model(image);
    for (const tvm_vision::ClassScore& one : result.classes) {
      std::cout << name << " " << one.class_id << " " << one.probability << "\n";
    }
    for (const tvm_vision::Detection& one : result.detections) Print(name, one);
    const std::vector<uint8_t>& mask = result.segmentation.classes;
    if (!mask.empty()) {
      Write(fs::path(entry.path()).replace_extension(".mask"), mask.data(), mask.size());
    }
    const std::vector<float>& depth = result.depth.values;
    if (!depth.empty()) {
      Write(fs::path(entry.path()).replace_extension(".depth"), depth.data(), 4 * depth.size());
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "results: " << error.what() << "\n";
  return 1;
}
