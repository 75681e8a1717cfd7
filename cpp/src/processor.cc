#include "processor.h"

#include <fstream>
#include <set>
#include <sstream>
#include <tvm_vision/tvm_vision.hpp>

namespace tvm_vision {

namespace {

#if defined(__aarch64__)
constexpr const char* kFeatures = "Features";
#else
constexpr const char* kFeatures = "flags";
#endif

/*! \brief What /proc/cpuinfo says of the first processor; empty where it says nothing. */
std::set<std::string> FeaturesHere() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (key != kFeatures) continue;
    std::istringstream words(line.substr(colon + 1));
    std::set<std::string> features;
    for (std::string word; words >> word;) features.insert(word);
    return features;
  }
  return {};
}

}  // namespace

void CheckProcessor(const std::vector<std::string>& needed) {
  if (needed.empty()) return;
  std::set<std::string> here = FeaturesHere();
  if (here.empty()) return;
  std::string lacking;
  for (const std::string& name : needed) {
    if (here.count(name) == 0) lacking += (lacking.empty() ? "" : ", ") + name;
  }
  if (lacking.empty()) return;
  throw Error("PackageError", "mod.so needs a processor with " + lacking +
                                  ", which this one lacks: compile the model on this machine, or "
                                  "name its processor, as --target 'llvm -mcpu=NAME' does");
}

}  // namespace tvm_vision
