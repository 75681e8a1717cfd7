/*!
 * \file device_list.h
 * \brief The Vulkan devices of this process and their numbers.
 */
#ifndef TVM_VISION_VULKAN_DEVICE_LIST_H_
#define TVM_VISION_VULKAN_DEVICE_LIST_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief All devices of this process, numbered as tvm.vulkan(i) counts them. */
class DeviceList {
 public:
  static DeviceList& Global();

  /*! \brief Number of devices that can be used; 0 when there are none. Never raises. */
  size_t size();
  /*! \brief One line saying why there is no device; empty when there is one. Raises InputError
   * where the environment has a wrong value. */
  std::string status();
  /*! \brief Snapshot of device i; raises DeviceError when there is no such device,
   * InputError where the environment has a wrong value. */
  const DeviceSnapshot& snapshot(int i);
  const DevicePlan& plan(int i);
  uint64_t AvailableMemory(int i);
  /*! \brief The device, opened on first use; raises as snapshot does. */
  std::shared_ptr<Device> Get(int i);
  /*! \brief Finish all work and let go of every device; what still lives keeps its device until it
   * goes. */
  void Shutdown();
  /*! \brief How often devices were let go so far. Waits for nobody. */
  uint64_t shutdowns() const { return shutdowns_; }
  /*! \brief `Get`, unless devices were let go since `shutdowns` said so: a thread that opens a
   * device ahead of its use may come late, and nobody would close it again. */
  void OpenAhead(int i, uint64_t shutdowns);

 private:
  struct Entry {
    size_t physical_index;
    DevicePlan plan;
    std::shared_ptr<Device> device;
  };
  /*! \brief Read the environment and list the devices; what is wrong is kept, not raised. */
  void Initialize();
  void ListDevices();
  void CheckOptions() const;
  Entry& Find(int i);
  std::shared_ptr<Device> Open(int i);

  std::mutex mutex_;
  std::atomic<uint64_t> shutdowns_{0};
  bool initialized_ = false;
  pid_t process_ = 0;
  std::string status_;
  /*! \brief One line about a value of the environment; empty when all are right. */
  std::string wrong_option_;
  DeviceOptions options_;
  std::shared_ptr<Instance> instance_;
  std::vector<Entry> entries_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_DEVICE_LIST_H_
