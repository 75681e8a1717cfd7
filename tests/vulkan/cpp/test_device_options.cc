// What the environment says of devices: each variable, its values, and what is refused.
#include <tvm/ffi/error.h>

#include <map>

#include "check.h"
#include "device_options.h"

using namespace tvm_vision::vulkan;

namespace {

using Variables = std::map<std::string, std::string>;

DeviceOptions Read(const Variables& variables) {
  return DeviceOptions::Read([&](const char* variable) {
    auto found = variables.find(variable);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/*! \brief The one line that a value is refused with; empty where it is taken. */
std::string Refusal(const char* variable, const std::string& value) {
  try {
    Read({{variable, value}});
  } catch (const tvm::ffi::Error& error) {
    CHECK(error.kind() == "InputError");
    return error.message();
  }
  return "";
}

const DeviceOption& Find(const std::string& variable) {
  for (const DeviceOption& option : DeviceOptionTable()) {
    if (option.variable == variable) return option;
  }
  CHECK(!"such a variable");
  return DeviceOptionTable().front();
}

// A value of each variable that is none of its defaults.
const Variables kOthers = {
    {"TVM_VISION_VULKAN_DEVICE", "1,radv"},
    {"TVM_VISION_VULKAN_LOADER", "/opt/libvulkan.so"},
    {"TVM_VISION_VULKAN_VALIDATION", "on"},
    {"TVM_VISION_VULKAN_MEMORY", "separate"},
    {"TVM_VISION_VULKAN_INPUT", "staged"},
    {"TVM_VISION_VULKAN_POLL_US", "2500"},
    {"TVM_VISION_VULKAN_COMPILE_THREADS", "999"},
    {"TVM_VISION_POISON", "on"},
    {"TVM_VISION_DENORMALS", "keep"},
    {"TVM_VISION_CACHE_DIR", "/cache"},
    {"TVM_VISION_DUMP_SHADERS", "/shaders"},
    {"TVM_VISION_VULKAN_BACKEND", "tvm"},
    {"TVM_USE_RUNTIME_LIB", "1"},
};

TEST(EveryVariableSetsItsOwnOptionAlone) {
  CHECK(kOthers.size() == DeviceOptionTable().size());
  DeviceOptions usual = Read({});
  for (const auto& [variable, value] : kOthers) {
    DeviceOptions set = Read({{variable, value}});
    for (const DeviceOption& option : DeviceOptionTable()) {
      bool same = option.written(set) == option.written(usual);
      CHECK(same == (option.variable != variable));
      if (option.variable == variable) CHECK(option.written(set) == value);
    }
  }
}

TEST(EmptyIsUnsetWhereItIsNoValue) {
  DeviceOptions usual = Read({{"HOME", "/home"}});
  for (const DeviceOption& option : DeviceOptionTable()) {
    DeviceOptions set = Read({{"HOME", "/home"}, {option.variable, ""}});
    CHECK((option.written(set) == option.written(usual)) == !option.takes_empty);
  }
}

TEST(AWrongValueIsRefusedInOneLine) {
  const std::multimap<std::string, std::string> wrong = {
      {"TVM_VISION_VULKAN_VALIDATION", "banana"},
      {"TVM_VISION_VULKAN_MEMORY", "mine"},
      {"TVM_VISION_VULKAN_INPUT", "direct"},
      {"TVM_VISION_VULKAN_POLL_US", "-1"},
      {"TVM_VISION_VULKAN_POLL_US", " 1"},
      {"TVM_VISION_VULKAN_POLL_US", "+1"},
      {"TVM_VISION_VULKAN_POLL_US", "1.5"},
      {"TVM_VISION_VULKAN_POLL_US", "1000001"},
      {"TVM_VISION_VULKAN_POLL_US", "99999999999999999999"},
      {"TVM_VISION_VULKAN_COMPILE_THREADS", "0"},
      {"TVM_VISION_VULKAN_COMPILE_THREADS", "1001"},
      {"TVM_VISION_VULKAN_COMPILE_THREADS", "all"},
      {"TVM_VISION_POISON", "maybe\nnot"},
      {"TVM_VISION_VULKAN_BACKEND", "cuda"},
      {"TVM_USE_RUNTIME_LIB", "yes"},
  };
  for (const auto& [variable, value] : wrong) {
    std::string said = Refusal(variable.c_str(), value);
    CHECK(said.find(variable + " must be " + Find(variable).values + ", found \"") == 0);
    CHECK(said.find("\"; unset it for the default") != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST(SwitchesAreWrittenAsTheCompilersOptions) {
  for (const char* variable : {"TVM_VISION_VULKAN_VALIDATION", "TVM_VISION_POISON"}) {
    for (const char* on : {"on", "1", "true", "YES"}) {
      CHECK(Find(variable).written(Read({{variable, on}})) == "on");
    }
    for (const char* off : {"off", "0", "False", "no", ""}) {
      CHECK(Find(variable).written(Read({{variable, off}})) == "off");
    }
  }
}

TEST(TheCacheIsTheUsersOwn) {
  CHECK(Read({}).cache_folder.empty());
  CHECK(Read({{"HOME", "/c"}}).cache_folder == "/c/.cache/tvm_vision");
  CHECK(Read({{"HOME", "/c"}, {"XDG_CACHE_HOME", ""}}).cache_folder == "/c/.cache/tvm_vision");
  CHECK(Read({{"HOME", "/c"}, {"XDG_CACHE_HOME", "/b"}}).cache_folder == "/b/tvm_vision");
  CHECK(Read({{"HOME", "/c"}, {"TVM_VISION_CACHE_DIR", "/a"}}).cache_folder == "/a");
  CHECK(Read({{"HOME", "/c"}, {"TVM_VISION_CACHE_DIR", ""}}).cache_folder.empty());
}

TEST(CoresBoundTheThreadsThatCompile) {
  int64_t threads = Read({}).compile_threads;
  CHECK(threads >= 1 && threads <= 8);
}

TEST(ZeroMeansNeverToPollAndNothingLeavesItToTheDevice) {
  CHECK(!Read({}).poll_margin.has_value());
  CHECK(Read({{"TVM_VISION_VULKAN_POLL_US", "0"}}).poll_margin == std::chrono::nanoseconds(0));
  CHECK(Read({{"TVM_VISION_VULKAN_POLL_US", "7"}}).poll_margin == std::chrono::microseconds(7));
}

}  // namespace

int main() { return check::Run(); }
