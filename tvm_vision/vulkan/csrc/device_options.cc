#include "device_options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <thread>

#include "error.h"

namespace tvm_vision {
namespace vulkan {

namespace {

constexpr int64_t kNanosecondsPerMicrosecond = 1000;
/*! \brief The robot has other work, too. */
constexpr int64_t kMostCompileThreads = 8;

constexpr const char* kImport = "import";
constexpr const char* kOpening = "opening";
constexpr const char* kLoading = "loading";
constexpr const char* kCompiling = "compiling";

/*! \brief One of two words; false for a third. */
bool OneOf(const std::string& text, const char* no, const char* yes, bool* value) {
  if (text != no && text != yes) return false;
  *value = text == yes;
  return true;
}

/*! \brief A switch, as options of the compiler are written. */
bool Switch(std::string text, bool* value) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* yes : {"on", "1", "true", "yes"}) {
    if (text == yes) return *value = true;
  }
  *value = false;
  return text == "off" || text == "0" || text == "false" || text == "no";
}

/*! \brief A whole number in decimal digits; false for anything else, and outside of the bounds. */
bool Number(const std::string& text, int64_t least, int64_t most, int64_t* value) {
  constexpr size_t kMostDigits = 18;
  if (text.empty() || text.size() > kMostDigits) return false;
  if (text.find_first_not_of("0123456789") != std::string::npos) return false;
  *value = std::stoll(text);
  return *value >= least && *value <= most;
}

std::string Word(bool value) { return value ? "on" : "off"; }

std::string DefaultCacheFolder(const Environment& environment) {
  auto set = [&](const char* variable) {
    const char* text = environment(variable);
    return std::string(text == nullptr ? "" : text);
  };
  if (std::string xdg = set("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tvm_vision";
  if (std::string home = set("HOME"); !home.empty()) return home + "/.cache/tvm_vision";
  return "";
}

using Options = DeviceOptions;
using Text = std::string;

}  // namespace

const std::vector<DeviceOption>& DeviceOptionTable() {
  static const std::vector<DeviceOption> table = {
      {"TVM_VISION_VULKAN_DEVICE", "numbers of devices or parts of their names", "all", kOpening,
       "devices to use, in this order, separated by commas",
       [](const Text& text, Options* o) { return o->devices = text, true; },
       [](const Options& o) { return o.devices; }},
      {"TVM_VISION_VULKAN_LOADER", "a library", "libvulkan.so.1", kOpening,
       "library to open for Vulkan's functions; the first one is kept until the process ends",
       [](const Text& text, Options* o) { return o->loader = text, true; },
       [](const Options& o) { return o.loader; }},
      {"TVM_VISION_VULKAN_VALIDATION", "on or off", "off", kOpening,
       "run under the validation layer, with synchronisation validation; messages by "
       "`validation_messages()`",
       [](const Text& text, Options* o) { return Switch(text, &o->validation); },
       [](const Options& o) { return Word(o.validation); }},
      {"TVM_VISION_VULKAN_MEMORY", "auto or separate", "auto", kOpening,
       "auto: memory that host and device share is written and read in place; separate: it is "
       "treated as a card's, through copies",
       [](const Text& text, Options* o) {
         return OneOf(text, "auto", "separate", &o->separate_memory);
       },
       [](const Options& o) { return Text(o.separate_memory ? "separate" : "auto"); }},
      {"TVM_VISION_VULKAN_INPUT", "mapped or staged", "mapped", kLoading,
       "mapped: the host writes inputs into the card's memory; staged: through a copy on the "
       "device",
       [](const Text& text, Options* o) {
         return OneOf(text, "mapped", "staged", &o->staged_inputs);
       },
       [](const Options& o) { return Text(o.staged_inputs ? "staged" : "mapped"); }},
      {"TVM_VISION_VULKAN_POLL_US", "a number of microseconds from 0 (never poll) to 1000000",
       "500; 0 where Vulkan is implemented on the CPU", kLoading,
       "how long before its expected end a frame is polled for; 0: sleep until the driver wakes "
       "the thread",
       [](const Text& text, Options* o) {
         int64_t number = 0;
         if (!Number(text, 0, 1000000, &number)) return false;
         o->poll_margin = std::chrono::microseconds(number);
         return true;
       },
       [](const Options& o) {
         if (!o.poll_margin) return Text();
         return std::to_string(o.poll_margin->count() / kNanosecondsPerMicrosecond);
       }},
      {"TVM_VISION_VULKAN_COMPILE_THREADS", "a number of threads from 1 to 1000",
       "as many as cores, at most 8", kLoading,
       "threads that compile a network's kernels for the device; 1: one kernel after the other",
       [](const Text& text, Options* o) { return Number(text, 1, 1000, &o->compile_threads); },
       [](const Options& o) { return std::to_string(o.compile_threads); }},
      {"TVM_VISION_POISON", "on or off", "off", kLoading,
       "before each kernel of a network, on any device, its results are overwritten with values "
       "that are no numbers (0xff in each byte), so that what a kernel leaves unwritten is seen; "
       "all tests run with it",
       [](const Text& text, Options* o) { return Switch(text, &o->poison); },
       [](const Options& o) { return Word(o.poison); }},
      {"TVM_VISION_DENORMALS", "zero or keep", "zero", kLoading,
       "zero: on x86 numbers below 2^-126 count as zeros in kernels on the processor, which takes "
       "a "
       "hundred times as long for each otherwise; keep: they are computed with",
       [](const Text& text, Options* o) { return OneOf(text, "zero", "keep", &o->keep_denormals); },
       [](const Options& o) { return Text(o.keep_denormals ? "keep" : "zero"); }},
      {"TVM_VISION_CACHE_DIR", "a folder, or empty for no cache",
       "`$XDG_CACHE_HOME/tvm_vision`, then `~/.cache/tvm_vision`", "opening, compiling",
       "folder of what was compiled, which bounds itself: packages, kernels and shaders by what "
       "they are made of, 1024, 256 and 64 MiB of those used last, and one file of pipelines for "
       "each network on "
       "each device and driver, the 64 newest",
       [](const Text& text, Options* o) { return o->cache_folder = text, true; },
       [](const Options& o) { return o.cache_folder; }, true},
      {"TVM_VISION_DUMP_SHADERS", "a folder", "none", kCompiling,
       "folder that gets each kernel as GLSL (`.comp`) and SPIR-V (`.spv`)",
       [](const Text& text, Options* o) { return o->dump_folder = text, true; },
       [](const Options& o) { return o.dump_folder; }},
      {"TVM_VISION_VULKAN_BACKEND", "tvm_vision or tvm", "tvm_vision", kImport,
       "which one serves `tvm.vulkan(i)` when the installed TVM has a Vulkan of its own",
       [](const Text& text, Options* o) {
         return OneOf(text, "tvm_vision", "tvm", &o->tvm_backend);
       },
       [](const Options& o) { return Text(o.tvm_backend ? "tvm" : "tvm_vision"); }},
      {"TVM_USE_RUNTIME_LIB", "0 or 1", "0", kImport,
       "TVM's own; 1: only run networks: the first use of tvm_vision then loads TVM's runtime "
       "library alone; `tvm_ffi` follows, while the device is being opened, and neither "
       "TVM's Python nor PyTorch does; `import tvm` before it loads TVM as usual",
       [](const Text& text, Options* o) { return OneOf(text, "0", "1", &o->runtime_only); },
       [](const Options& o) { return Text(o.runtime_only ? "1" : "0"); }},
  };
  return table;
}

const char* ProcessEnvironment(const char* variable) { return std::getenv(variable); }

DeviceOptions DeviceOptions::Read(const Environment& environment) {
  DeviceOptions options;
  int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  options.compile_threads = std::min(cores, kMostCompileThreads);
  options.cache_folder = DefaultCacheFolder(environment);
  for (const DeviceOption& option : DeviceOptionTable()) {
    const char* text = environment(option.variable);
    if (text == nullptr || (*text == '\0' && !option.takes_empty)) continue;
    if (!option.set(text, &options)) {
      TVM_VISION_THROW(InputError) << option.variable << " must be " << option.values
                                   << ", found \"" << text << "\"; unset it for the default";
    }
  }
  return options;
}

DeviceOptions DeviceOptions::Read() { return Read(ProcessEnvironment); }

}  // namespace vulkan
}  // namespace tvm_vision
