#include "launch_log.h"

namespace tvm_vision {
namespace vulkan {

namespace {

thread_local LaunchLog* current = nullptr;

}  // namespace

LaunchLog::LaunchLog() : outer_(current) { current = this; }
LaunchLog::~LaunchLog() { current = outer_; }
LaunchLog* LaunchLog::Current() { return current; }

}  // namespace vulkan
}  // namespace tvm_vision
