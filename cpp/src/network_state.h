/*!
 * \file network_state.h
 * \brief What a Network holds: TVM's side of it.
 */
#ifndef TVM_VISION_CPP_NETWORK_STATE_H_
#define TVM_VISION_CPP_NETWORK_STATE_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <string>
#include <tvm_vision/tvm_vision.hpp>
#include <vector>

#include "model_info.h"

namespace tvm_vision {

struct Network::State {
  NetworkInfo info;
  DLDevice device = {kDLCPU, 0};
  std::string described;
  // Functions of the executor and the executor before the library whose code they call.
  std::optional<tvm::ffi::Module> library;
  std::optional<tvm::ffi::Module> executor;
  tvm::ffi::Function write_input;
  tvm::ffi::Function run;
  tvm::ffi::Function get_output;
  // Outputs that views were given of.
  std::vector<tvm::ffi::Any> results;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_NETWORK_STATE_H_
