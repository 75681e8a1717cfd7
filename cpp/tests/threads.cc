/*!
 * \file threads.cc
 * \brief Networks in several threads at once: loaded, run, thrown away, again and again.
 *
 * threads PACKAGE THREADS ROUNDS: each thread has networks of its own. All give the same bytes for
 * the same input; the program says which did not, and ends with 1. For ThreadSanitizer.
 */
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tvm_vision/tvm_vision.hpp"

namespace {

using tvm_vision::Network;
using Bytes = std::vector<uint8_t>;

constexpr int kFramesOfANetwork = 5;

size_t BytesOf(const tvm_vision::TensorSpec& spec) {
  size_t bytes = sizeof(float);
  for (int64_t extent : spec.shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

/*! \brief The outputs of one frame, one after the other. */
Bytes Frame(Network* network, uint32_t seed) {
  for (size_t i = 0; i < network->inputs().size(); ++i) {
    std::vector<float> values(BytesOf(network->inputs()[i]) / sizeof(float));
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(seed >> 8) / static_cast<float>(1u << 24);
    }
    network->SetInput(i, values.data(), values.size() * sizeof(float));
  }
  network->Run();
  Bytes outputs;
  for (size_t i = 0; i < network->outputs().size(); ++i) {
    tvm_vision::TensorView view = network->Output(i);
    const auto* data = static_cast<const uint8_t*>(view.data);
    outputs.insert(outputs.end(), data, data + view.bytes);
  }
  return outputs;
}

/*! \brief Leave what is loaded in memory to the end: ThreadSanitizer stops where a driver that it
 * was told to leave out is unloaded. */
int Pin(dl_phdr_info* library, size_t, void*) {
  dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: threads PACKAGE THREADS ROUNDS\n");
    return 2;
  }
  const std::string package = argv[1];
  const int threads = std::atoi(argv[2]), rounds = std::atoi(argv[3]);
  std::vector<Bytes> expected;
  {
    Network first = Network::Load(package);
    for (int f = 0; f < kFramesOfANetwork; ++f) expected.push_back(Frame(&first, f));
    dl_iterate_phdr(Pin, nullptr);
  }
  std::atomic<int> wrong{0}, frames{0};
  auto work = [&] {
    for (int round = 0; round < rounds; ++round) {
      Network network = Network::Load(package);
      for (int f = 0; f < kFramesOfANetwork; ++f, ++frames) {
        if (Frame(&network, f) != expected[f]) ++wrong;
      }
    }
  };
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back(work);
  for (std::thread& thread : all) thread.join();
  std::printf("%d frames in %d threads, %d wrong\n", frames.load(), threads, wrong.load());
  return wrong == 0 ? 0 : 1;
}
