/*!
 * \file variants.cc
 * \brief For the tests: which variant of each package each machine takes.
 *
 *   variants FILE.json
 *
 * The file has `fleets`, objects with `variants` as mod.json has them, and `machines`, each with
 * `processor`, `features` (null: not known), `device` (properties, or null) and `words`. Prints a
 * line for each fleet, machine and wanted device (auto, vulkan, cpu), the last running fastest: the
 * name of the variant, or the error.
 */
#include <tvm/ffi/extra/json.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "../src/fleet.h"

namespace ffi = tvm::ffi;
namespace json = tvm::ffi::json;

static tvm_vision::Machine ReadMachine(const ffi::Any& value) {
  tvm_vision::Fields fields(value, "machine");
  tvm_vision::Machine machine = {fields.Text("processor"), {}, {{}, fields.Text("words")}};
  if (fields.Has("features")) {
    std::vector<std::string> features = fields.Texts("features");
    machine.features.emplace(features.begin(), features.end());
  }
  if (fields.Has("device")) {
    tvm_vision::DeviceProperties device;
    for (const auto& [name, property] :
         value.cast<json::Object>().at(ffi::String("device")).cast<json::Object>()) {
      device.Set(name.cast<ffi::String>(), property);
    }
    machine.vulkan.device = device;
  }
  return machine;
}

int main(int count, char** words) try {
  if (count != 2) throw std::runtime_error("FILE.json is needed");
  std::ifstream file(words[1]);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  auto cases = json::Parse(ffi::String(text)).cast<json::Object>();
  std::vector<tvm_vision::Machine> machines;
  for (const ffi::Any& each : cases.at(ffi::String("machines")).cast<json::Array>()) {
    machines.push_back(ReadMachine(each));
  }
  using tvm_vision::Device;
  for (const ffi::Any& each : cases.at(ffi::String("fleets")).cast<json::Array>()) {
    auto variants = tvm_vision::ReadVariants(tvm_vision::Fields(each, ""));
    for (const tvm_vision::Machine& machine : machines) {
      for (Device wanted : {Device::kAuto, Device::kVulkan, Device::kCpu}) {
        try {
          std::cout << tvm_vision::PlanVariant(variants, wanted, machine).name << "\n";
        } catch (const tvm_vision::Error& error) {
          std::cout << error.kind() << ": " << error.what() << "\n";
        }
      }
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "variants: " << error.what() << "\n";
  return 1;
}
