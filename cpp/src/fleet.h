/*!
 * \file fleet.h
 * \brief A package for several devices: its variants, and which is the one for this machine; the
 * fields of tvm_vision/package/fleet.py, of which each says what it means.
 */
#ifndef TVM_VISION_CPP_FLEET_H_
#define TVM_VISION_CPP_FLEET_H_

#include <tvm/ffi/container/map.h>

#include <functional>
#include <optional>
#include <string>
#include <tvm_vision/tvm_vision.hpp>
#include <utility>
#include <vector>

#include "container.h"
#include "fields.h"
#include "processor.h"

namespace tvm_vision {

/*! \brief One network for one device, and where it lies. */
struct Variant {
  std::string name;
  std::string host;
  /*! \brief Name of the Vulkan device that it was made for; "" for a processor. */
  std::string device;
  Fields target;
  std::string precision;
  std::vector<Piece> info;
  std::vector<Piece> params;
  Piece library;
  std::vector<std::string> processor;
};

/*! \brief What Vulkan says of its first device, or nothing; in words what that is, or why there is
 * none. Asked for where a variant is for one. */
using DeviceProperties = tvm::ffi::Map<tvm::ffi::String, tvm::ffi::Any>;
struct VulkanHere {
  std::optional<DeviceProperties> device;
  std::string words;
};

/*! \brief What a choice depends on: the kind of processor, its features, and Vulkan. */
struct Machine {
  std::string processor;
  ProcessorFeatures features;
  VulkanHere vulkan;
};

/*! \brief Whether a parsed mod.json is that of a package for several devices. */
bool IsFleet(const Fields& fields);

std::vector<Variant> ReadVariants(const Fields& fields);

/*! \brief The variant for a machine: `plan_variant` of tvm_vision/runtime/variants.py, which says
 * by which rule. Throws DeviceError where none fits. */
Variant PlanVariant(const std::vector<Variant>& variants, Device wanted, const Machine& here);

/*! \brief The variant of a name, or, for "", the one for this machine. Throws PackageError for a
 * name or a content that is wrong, DeviceError where none fits. */
Variant ChooseVariant(const Fields& fields, Device wanted, const std::string& name,
                      const std::function<VulkanHere()>& vulkan);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_FLEET_H_
