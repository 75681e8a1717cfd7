/*!
 * \file refusals.h
 * \brief What the system refuses, memory or threads, as an error that says so.
 *
 * std::bad_alloc has no text, and tvm_ffi makes an error of it in a handler that asks for memory
 * again: where that is refused, too, an exception leaves a function that C calls, which ends the
 * process.
 */
#ifndef TVM_VISION_VULKAN_REFUSALS_H_
#define TVM_VISION_VULKAN_REFUSALS_H_

#include <cxxabi.h>
#include <tvm/ffi/error.h>

#include <new>
#include <system_error>
#include <utility>

namespace tvm_vision {
namespace vulkan {

constexpr const char* kOutOfMemory =
    "this process needs more memory, and the system refuses it: end what else needs memory, raise "
    "the limit of the process (ulimit -v, that of its container), or use a smaller batch or image";
constexpr const char* kOutOfThreads =
    "this process needs another thread, and the system starts none: end what else runs, raise the "
    "limit of processes or of memory (ulimit -u, ulimit -v, those of its container), or do "
    "without, by TVM_NUM_THREADS=1";

/*! \brief Made while there is memory: when the library is loaded. */
inline const tvm::ffi::Error out_of_memory("DeviceError", kOutOfMemory, "");
inline const tvm::ffi::Error out_of_threads("DeviceError", kOutOfThreads, "");

/*! \brief Take what a thread needs for its first exception: where it is refused then, the C library
 * ends the process. To be called before anything that takes much memory. */
inline void ReadyToThrow() {
  // Compilers leave the call out where nobody seems to look at what it gives.
  asm volatile("" : : "r"(abi::__cxa_get_globals()));
}

/*! \brief Run something; what the system refuses in it becomes a DeviceError. */
template <typename Call>
auto TellingRefusals(Call call) -> decltype(call()) {
  ReadyToThrow();
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw out_of_memory;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
    throw out_of_threads;
  }
}

/*! \brief A function of the same type that does, to be registered. */
template <typename Result, typename... Arguments>
auto Telling(Result (*function)(Arguments...)) {
  return [function](Arguments... arguments) -> Result {
    return TellingRefusals([&] { return function(std::forward<Arguments>(arguments)...); });
  };
}

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_REFUSALS_H_
