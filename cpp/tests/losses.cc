/*!
 * \file losses.cc
 * \brief For the tests: a device that is lost, and what becomes of the network.
 *
 *   losses LOADER PACKAGE INPUT FALLBACK SCENE
 *
 * LOADER: the loader that fails, which TVM_VISION_VULKAN_LOADER names, too. INPUT: the bytes of the
 * network's input. Prints a line for each frame, "ran" and the sum of its first output, or what was
 * thrown; then what there is to tell.
 */
#include <dlfcn.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>
#include <tvm_vision/tvm_vision.hpp>

namespace {

using tvm_vision::Network;

constexpr long kForever = 1L << 40;
constexpr int kLost = -4, kHang = 1000;  // VK_ERROR_DEVICE_LOST; tests/support/failing_loader.py

class Scene {
 public:
  Scene(char** words, const tvm_vision::LoadOptions& options)
      : loader_(dlopen(words[1], RTLD_NOW)), network_(Network::Load(words[2], options)) {
    std::ifstream file(words[3], std::ios::binary);
    input_.assign(std::istreambuf_iterator<char>(file), {});
  }
  void Lose(long count, int how = kLost) { Arm("vkQueueSubmit", count, how); }
  /*! \brief The next calls of a function fail. */
  void Arm(const char* function, long count, int how) {
    auto arm =
        reinterpret_cast<void (*)(const char*, long, long, int)>(dlsym(loader_, "faulty_arm"));
    arm(function, 1, count, how);
  }
  void Frame() {
    Note([&] { network_.Frame({{input_.data(), {}, "", input_.size()}}); });
  }
  /*! \brief By its parts, of which nothing runs again. */
  void InParts() {
    Note([&] {
      network_.SetInput(0, input_.data(), input_.size());
      network_.Run();
    });
  }
  bool waiting() const { return network_.losses().waiting; }
  void Run() {
    Note([&] { network_.Run(); });
  }
  void Tell() {
    tvm_vision::Losses losses = network_.losses();
    std::cout << losses.lost << " lost, " << losses.rebuilt << " rebuilt, fallback "
              << losses.on_fallback << ", waiting " << losses.waiting << ", on "
              << network_.device() << "\n"
              << losses.Describe() << "\n";
  }

 private:
  template <typename Work>
  void Note(Work work) {
    try {
      work();
      tvm_vision::TensorView view = network_.Output(0);
      const float* values = static_cast<const float*>(view.data);
      double sum = 0;
      for (size_t i = 0; i < view.bytes / sizeof(float); ++i) sum += values[i];
      std::cout << "ran " << sum << "\n";
    } catch (const tvm_vision::Error& error) {
      std::cout << error.kind() << ": " << error.what() << "\n";
    }
  }

  void* loader_;
  Network network_;
  std::string input_;
};

}  // namespace

int main(int count, char** words) try {
  if (count != 6) throw std::runtime_error("LOADER PACKAGE INPUT FALLBACK SCENE are needed");
  std::string name = words[5];
  tvm_vision::LoadOptions options;
  options.recovery.rebuilds_per_minute = name == "spent" || name == "fallback" ? 1 : 6;
  if (name == "hang") options.recovery.frame_timeout = 0.2;
  if (name == "fallback" || name == "silent and fallback") options.recovery.fallback = words[4];
  bool silent = name.rfind("silent", 0) == 0;
  // More than an opening takes on processors that others keep busy.
  if (silent) options.opening_timeout = 8;
  if (name == "silent and fallback") options.recovery.rebuilds_per_minute = 2;
  Scene scene(words, options);
  scene.Frame();
  if (name == "once" || name == "hang") {
    scene.Lose(1, name == "hang" ? kHang : kLost);
    scene.Frame();
    scene.Frame();
  } else if (name == "in parts") {
    scene.Lose(1);
    scene.InParts();
    scene.Run();
    scene.InParts();
  } else if (name == "again") {
    scene.Lose(2);
    scene.Frame();
    scene.Frame();
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    scene.Frame();
  } else if (silent) {
    // Lost again too soon to be opened at once: what comes then has an end that is known.
    for (int i = 0; i < 5 && !scene.waiting(); ++i) {
      scene.Lose(2);
      scene.Frame();
    }
    scene.Arm("vkCreateDevice", kForever, kHang);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    scene.Frame();
    if (options.recovery.fallback != "") scene.Frame();
  } else {
    scene.Lose(kForever);
    scene.Frame();
    scene.Frame();
    scene.Frame();
  }
  scene.Tell();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "losses: " << error.what() << "\n";
  return 1;
}
