/*!
 * \file guarded.h
 * \brief Calls of TVM's runtime: what they throw becomes an Error of this library.
 */
#ifndef TVM_VISION_CPP_GUARDED_H_
#define TVM_VISION_CPP_GUARDED_H_

#include <tvm/ffi/error.h>

#include <string>
#include <tvm_vision/tvm_vision.hpp>

namespace tvm_vision {

/*! \brief Run something of TVM's; what it throws becomes an Error of the same kind. */
template <typename Call>
auto Guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const tvm::ffi::Error& error) {
    std::string kind = error.kind();
    bool ours = kind == "PackageError" || kind == "DeviceError" || kind == "DeviceLostError" ||
                kind == "InputError";
    std::string message = error.message();
    if (!ours) message = message.substr(0, message.find('\n'));
    throw Error(ours ? kind : "Error", message);
  }
}

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_GUARDED_H_
