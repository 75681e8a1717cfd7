/*!
 * \file device_options.h
 * \brief What the environment says of devices and of networks on them: one table, one value. Pure:
 * no Vulkan.
 *
 * A value is read when the devices are opened and when a network is loaded, and passed on from
 * there; nothing else of this library reads the environment.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_OPTIONS_H_
#define TVM_VISION_VULKAN_DEVICE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief What a variable is set to; nullptr where it is not set. */
using Environment = std::function<const char*(const char* variable)>;

/*! \brief That of the process. */
const char* ProcessEnvironment(const char* variable);

/*! \brief How devices are opened and networks run on them; passed on as const. */
struct DeviceOptions {
  /*! \brief Numbers or parts of names, separated by commas; empty for all devices. */
  std::string devices;
  /*! \brief The library that has Vulkan's functions. */
  std::string loader = "libvulkan.so.1";
  bool validation = false;
  /*! \brief Whether memory that host and device share is treated as a card's. */
  bool separate_memory = false;
  /*! \brief Whether inputs go through a copy on the device. */
  bool staged_inputs = false;
  /*! \brief Before a frame's expected end, polling begins so long; zero: never; unset: by device.
   */
  std::optional<std::chrono::nanoseconds> poll_margin;
  /*! \brief How many threads compile the kernels of a network. */
  int64_t compile_threads = 1;
  /*! \brief Whether each kernel's results are overwritten before it runs. */
  bool poison = false;
  /*! \brief Whether kernels on the processor compute with denormal numbers. */
  bool keep_denormals = false;
  /*! \brief Folder of compiled pipelines and shaders; empty where nothing is cached. */
  std::string cache_folder;
  /*! \brief Folder that the code generator writes each kernel to; empty for none. */
  std::string dump_folder;
  /*! \brief Whether TVM's own Vulkan serves where it has one, and whether TVM's compiler is left
   * out: both are acted on before this library is there (environment.py). */
  bool tvm_backend = false;
  bool runtime_only = false;

  /*! \brief The options of an environment; raises InputError, in one line, for a wrong value. */
  static DeviceOptions Read(const Environment& environment);
  /*! \brief Those of the process. */
  static DeviceOptions Read();
};

/*! \brief A variable: what it may be, and what it sets. */
struct DeviceOption {
  const char* variable;
  /*! \brief What is needed, as it follows "must be". */
  const char* values;
  /*! \brief What holds where it is not set. */
  const char* usual;
  /*! \brief When it is read. */
  const char* when;
  const char* meaning;
  /*! \brief Set it from a text; false where the text is none of the values. */
  bool (*set)(const std::string& text, DeviceOptions* options);
  /*! \brief What is set, as a text. */
  std::string (*written)(const DeviceOptions& options);
  /*! \brief Whether an empty text is a value too; else it means that nothing is set. */
  bool takes_empty = false;
};

/*! \brief All variables, in the order in which they are checked. */
const std::vector<DeviceOption>& DeviceOptionTable();

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_OPTIONS_H_
