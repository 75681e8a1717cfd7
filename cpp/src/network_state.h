/*!
 * \file network_state.h
 * \brief What a Network holds: TVM's side of it.
 */
#ifndef TVM_VISION_CPP_NETWORK_STATE_H_
#define TVM_VISION_CPP_NETWORK_STATE_H_

#include <tvm/ffi/any.h>

#include <tvm_vision/tvm_vision.hpp>
#include <vector>

#include "model_info.h"
#include "recovering.h"

namespace tvm_vision {

struct Network::State {
  NetworkInfo info;
  RecoveringExecutor executor;
  // Outputs that views were given of.
  std::vector<tvm::ffi::Any> results;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_NETWORK_STATE_H_
