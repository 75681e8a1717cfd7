/*!
 * \file instance.h
 * \brief The VkInstance, its physical devices as snapshots, and the validation layer's messages.
 */
#ifndef TVM_VISION_VULKAN_INSTANCE_H_
#define TVM_VISION_VULKAN_INSTANCE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_options.h"
#include "device_plan.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief Messages of the validation layer, collected for the tests; shared with the messenger. */
class ValidationLog {
 public:
  void Add(std::string message);
  /*! \brief Messages since the last call. */
  std::vector<std::string> Take();

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

/*! \brief Owner of a VkInstance. */
class Instance {
 public:
  /*! \brief Create the instance and read every device; raises DeviceError. */
  Instance(const GlobalFunctions& global, const DeviceOptions& options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const InstanceFunctions& fn() const { return fn_; }
  VkPhysicalDevice physical(size_t i) const { return physical_[i]; }
  /*! \brief All physical devices in the order of enumeration. */
  const std::vector<DeviceSnapshot>& snapshots() const { return snapshots_; }
  /*! \brief Bytes of device-local memory still free for this process; 0 where the driver cannot
   * say. */
  uint64_t AvailableMemory(size_t i) const;

  /*! \brief The one log, also read after an instance is gone (leaks are reported at its end). */
  static ValidationLog& validation_log();

 private:
  /*! \brief Without anything yet, so that what fails to be made leaves nothing behind. */
  Instance() = default;
  void CreateMessenger();

  InstanceFunctions fn_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> physical_;
  std::vector<DeviceSnapshot> snapshots_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_INSTANCE_H_
