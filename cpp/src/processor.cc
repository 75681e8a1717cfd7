#include "processor.h"

#include <sys/utsname.h>

#include <fstream>
#include <sstream>
#include <tvm_vision/tvm_vision.hpp>

namespace tvm_vision {

namespace {

#if defined(__aarch64__)
constexpr const char* kFeaturesKey = "Features";
#else
constexpr const char* kFeaturesKey = "flags";
#endif
constexpr size_t kElfHead = 20;  // bytes up to and with e_machine

/*! \brief A kind of processor in the head of ELF, little-endian: tvm_vision/linking/machines.py. */
struct ElfMachine {
  char bits;  // EI_CLASS
  uint16_t number;
  const char* name;
};
constexpr ElfMachine kMachines[] = {{2, 62, "x86_64"},
                                    {2, 183, "aarch64"},
                                    {2, 243, "riscv64"},
                                    {1, 40, "armv7l"},
                                    {2, 21, "ppc64le"}};

}  // namespace

std::string ProcessorName() {
#if defined(__x86_64__) && defined(__LP64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__riscv) && __riscv_xlen == 64
  return "riscv64";
#elif defined(__arm__)
  return "armv7l";
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
  return "ppc64le";
#else
  struct utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
#endif
}

std::string MachineOf(std::string_view library) {
  if (library.size() < kElfHead ||
      library.substr(0, 4) !=
          "\x7f"
          "ELF" ||
      library[5] != 1)
    return "";
  auto low = static_cast<uint8_t>(library[18]), high = static_cast<uint8_t>(library[19]);
  for (const ElfMachine& machine : kMachines) {
    if (library[4] == machine.bits && (low | high << 8) == machine.number) return machine.name;
  }
  return "";
}

ProcessorFeatures FeaturesHere() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (key != kFeaturesKey) continue;
    std::istringstream words(line.substr(colon + 1));
    std::set<std::string> features;
    for (std::string word; words >> word;) features.insert(word);
    // Streams keep to themselves that memory was refused.
    if (words.bad()) throw std::bad_alloc();
    return features;
  }
  if (file.bad()) throw std::bad_alloc();
  return std::nullopt;
}

std::string Lacking(const std::vector<std::string>& needed, const ProcessorFeatures& here) {
  std::string lacking;
  if (!here.has_value()) return lacking;
  for (const std::string& name : needed) {
    if (here->count(name) == 0) lacking += (lacking.empty() ? "" : ", ") + name;
  }
  return lacking;
}

void CheckProcessor(std::string_view library, const std::vector<std::string>& needed) {
  std::string machine = MachineOf(library);
  if (machine != ProcessorName()) {
    throw Error("PackageError", "mod.so is made for " +
                                    (machine.empty() ? "an unknown processor" : machine) +
                                    ", and this machine is " + ProcessorName() +
                                    ": compile the model for this machine");
  }
  std::string lacking = Lacking(needed, FeaturesHere());
  if (lacking.empty()) return;
  throw Error("PackageError", "mod.so needs a processor with " + lacking +
                                  ", which this one lacks: compile the model on this machine, or "
                                  "name its processor, as --target 'llvm -mcpu=NAME' does");
}

}  // namespace tvm_vision
