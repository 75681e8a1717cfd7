/*!
 * \file loading.h
 * \brief From a package on disk to what an executor is made of.
 */
#ifndef TVM_VISION_CPP_LOADING_H_
#define TVM_VISION_CPP_LOADING_H_

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>

#include <memory>
#include <optional>
#include <string>
#include <tvm_vision/tvm_vision.hpp>

#include "model_info.h"
#include "package.h"

namespace tvm_vision {

/*! \brief Where a package is, and what it has to be. variant: of a package for several devices,
 * else "". keys: one of which has to have signed it, or none. opening_timeout: seconds that the
 * driver of its device may take, as in LoadOptions. */
struct Origin {
  std::string path;
  std::string variant;
  std::shared_ptr<const PublicKeys> keys;
  double opening_timeout = 0;
};

/*! \brief A package that was read and checked; its mod.so is loaded. */
struct Parts {
  NetworkInfo info;
  std::string json;  // mod.json
  DLDevice device = {kDLCPU, 0};
  /*! \brief One line that names the device, and says when it is a processor. */
  std::string described;
  tvm::ffi::Module library;
  Origin origin;
  /*! \brief The package itself, until its weights are on the device. */
  std::optional<Package> package;
};

/*! \brief Read a package for a device; that is opened meanwhile. Throws Error as Network::Load. */
Parts LoadParts(const Origin& origin, Device device);

/*! \brief The package at an origin, read and checked. Throws Error as Network::Load. */
Package ReadPackage(const Origin& origin);

/*! \brief What takes a network's place on the CPU, signed as that had to be. wanted: "cpu", or the
 * path of a package. Throws InputError where it cannot. */
Parts LoadFallback(const NetworkInfo& info, const Origin& origin, const std::string& wanted);

/*! \brief At the process' end finish all work, before drivers and layers that are loaded by now end
 * what they have: what was registered last is called first. */
void EndVulkanFirst();

/*! \brief The weights of a package, in its memory. */
tvm::ffi::Map<tvm::ffi::String, tvm::ffi::Tensor> Weights(const Package& package);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_LOADING_H_
