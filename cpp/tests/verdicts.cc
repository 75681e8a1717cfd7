/*!
 * \file verdicts.cc
 * \brief For the tests: which packages are loaded, and what is said of the others.
 *
 *   verdicts [--verify KEYS] < PATHS
 *
 * Prints a line for each path: "loaded" and a number that its outputs for zeros have alone, or the
 * error's kind and words.
 */
#include <cstring>
#include <iostream>
#include <tvm_vision/tvm_vision.hpp>

namespace {

size_t Outputs(tvm_vision::Network* network) {
  for (size_t i = 0; i < network->inputs().size(); ++i) {
    size_t bytes = sizeof(float);  // the tests' networks take these alone
    for (int64_t side : network->inputs()[i].shape) bytes *= static_cast<size_t>(side);
    std::string zeros(bytes, '\0');
    network->SetInput(i, zeros.data(), zeros.size());
  }
  network->Run();
  std::string all;
  for (size_t i = 0; i < network->outputs().size(); ++i) {
    tvm_vision::TensorView view = network->Output(i);
    all.append(static_cast<const char*>(view.data), view.bytes);
  }
  return std::hash<std::string>()(all);
}

}  // namespace

int main(int count, char** words) {
  tvm_vision::LoadOptions options;
  if (count == 3 && std::strcmp(words[1], "--verify") == 0) options.verify = words[2];
  for (std::string path; std::getline(std::cin, path);) {
    try {
      tvm_vision::Network network = tvm_vision::Network::Load(path, options);
      std::cout << "loaded " << Outputs(&network) << std::endl;
    } catch (const tvm_vision::Error& error) {
      std::cout << error.kind() << ": " << error.what() << std::endl;
    }
  }
}
