/*!
 * \file capture.h
 * \brief What makes the functions of a library record instead of run.
 */
#ifndef TVM_VISION_VULKAN_CAPTURE_H_
#define TVM_VISION_VULKAN_CAPTURE_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "buffer_registry.h"

namespace tvm_vision {
namespace vulkan {

/*! \brief Handles that kernels can be called with while a network is recorded. */
class Handles {
 public:
  ~Handles() {
    for (void* handle : handles_) BufferRegistry::Global().Remove(handle);
  }
  void* Add(const std::shared_ptr<Buffer>& whole, uint64_t offset, uint64_t bytes,
            const std::shared_ptr<Device>& device) {
    handles_.reserve(handles_.size() + 1);
    auto part = std::make_shared<Buffer>(whole, offset, std::max<uint64_t>(bytes, 1));
    handles_.push_back(BufferRegistry::Global().Add({std::move(part), device}));
    return handles_.back();
  }

 private:
  std::vector<void*> handles_;
};

/*! \brief Directs this thread's launches into a recording, which outlives it, for as long as it
 * lives. */
class CaptureScope {
 public:
  CaptureScope(Device* device, const std::shared_ptr<Stream>& stream) : device_(device) {
    device_->Capture(&stream);
  }
  ~CaptureScope() { device_->Capture(nullptr); }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Device* device_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_CAPTURE_H_
