/*!
 * \file launch_log.h
 * \brief What a network launches, written down instead of run: no device is needed.
 */
#ifndef TVM_VISION_VULKAN_LAUNCH_LOG_H_
#define TVM_VISION_VULKAN_LAUNCH_LOG_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief One launch of a kernel. */
struct Launch {
  std::string kernel;
  /*! \brief Workgroups per axis, before a folded grid is folded for a device. */
  std::array<uint32_t, 3> grid;
  /*! \brief The handles of its buffers, by binding. */
  std::vector<void*> buffers;
};

/*! \brief For as long as it lives, launches of this thread are added to it and do nothing else. */
class LaunchLog {
 public:
  LaunchLog();
  ~LaunchLog();
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;

  /*! \brief This thread's; nullptr where launches run. */
  static LaunchLog* Current();

  std::vector<Launch> launches;

 private:
  LaunchLog* outer_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_LAUNCH_LOG_H_
