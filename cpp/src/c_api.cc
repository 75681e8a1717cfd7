#include <tvm_vision/tvm_vision.h>

#include <cstdio>
#include <new>
#include <optional>
#include <tvm_vision/tvm_vision.hpp>

#include "text.h"

struct tvm_vision_network {
  // A network that looks at no images is run by its tensors alone.
  std::optional<tvm_vision::VisionModel> model;
  std::optional<tvm_vision::Network> plain;
  std::string why_plain;
  std::string device;
  std::string losses;
  tvm_vision::Result result;
  std::vector<tvm_vision_object> objects;

  tvm_vision::Network& network() { return model ? model->network() : *plain; }
  tvm_vision::VisionModel& images() {
    if (!model) throw tvm_vision::Error("InputError", why_plain);
    return *model;
  }
};

namespace {

/*! \brief Bytes of the longest message: see OneLine of text.h. */
constexpr size_t kLongestMessage = 8192;
/*! \brief Of this thread's last error, in memory that cannot be refused. */
thread_local char last_error[kLongestMessage + 1] = "";

void Tell(const char* words) { std::snprintf(last_error, sizeof(last_error), "%s", words); }

/*! \brief Whether a call failed, 0 or 1; nothing that is thrown leaves C++. */
template <typename Call>
int Done(Call call) {
  try {
    call();
    return 0;
  } catch (const std::bad_alloc&) {
    Tell(tvm_vision::kOutOfMemory);
  } catch (const std::exception& error) {
    Tell(error.what());
  } catch (...) {
    Tell("something that is no error was thrown: report it");
  }
  return 1;
}

template <typename T>
T* Needed(T* pointer, const char* what) {
  if (pointer != nullptr) return pointer;
  throw tvm_vision::Error("InputError", std::string(what) + " is needed, found NULL");
}

tvm_vision::ImageView View(const tvm_vision_image* image) {
  Needed(image, "an image");
  return {image->data, image->height, image->width, image->channels, image->stride};
}

void Give(const tvm_vision::TensorView& view, const void** data, size_t* bytes) {
  *Needed(data, "room for an answer") = view.data;
  *Needed(bytes, "room for an answer") = view.bytes;
}

template <typename T>
const T* OrNull(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

tvm_vision_object ObjectOf(const tvm_vision::Detection& one) {
  static_assert(sizeof(tvm_vision::Keypoint) == 3 * sizeof(float), "x, y, score");
  tvm_vision_object object{};
  object.x1 = one.x1, object.y1 = one.y1, object.x2 = one.x2, object.y2 = one.y2;
  object.score = one.score, object.class_id = one.class_id, object.label = one.label.c_str();
  if (!one.keypoints.empty()) object.keypoints = &one.keypoints[0].x;
  object.keypoint_count = one.keypoints.size();
  object.oriented = one.oriented ? one.oriented_box.data() : nullptr;
  object.mask = OrNull(one.mask.pixels);
  object.mask_top = one.mask.top, object.mask_left = one.mask.left;
  object.mask_height = one.mask.height, object.mask_width = one.mask.width;
  return object;
}

tvm_vision::LoadOptions Options(const tvm_vision_options& given) {
  int device = given.device;
  if (device < TVM_VISION_AUTO || device > TVM_VISION_CPU) {
    throw tvm_vision::Error("InputError",
                            "a device from 0 to 2 is needed, found " + std::to_string(device));
  }
  tvm_vision::LoadOptions options(static_cast<tvm_vision::Device>(device));
  if (given.target != nullptr) options.target = given.target;
  if (given.verify != nullptr) options.verify = given.verify;
  options.recovery.frame_timeout = given.frame_timeout;
  options.recovery.rebuilds_per_minute = given.rebuilds_per_minute;
  if (given.fallback != nullptr) options.recovery.fallback = given.fallback;
  options.opening_timeout = given.opening_timeout;
  return options;
}

}  // namespace

extern "C" {

const char* tvm_vision_error(void) { return last_error; }

tvm_vision_network* tvm_vision_load(const char* path, const tvm_vision_options* options) {
  tvm_vision_network* loaded = nullptr;
  Done([&] {
    const tvm_vision_options usual = TVM_VISION_OPTIONS;
    auto fresh = std::make_unique<tvm_vision_network>();
    auto network = tvm_vision::Network::Load(Needed(path, "the path of a package"),
                                             Options(options != nullptr ? *options : usual));
    if (auto why = tvm_vision::VisionModel::WhyNot(network); why.empty()) {
      fresh->model.emplace(std::move(network));
    } else {
      fresh->why_plain = std::move(why);
      fresh->plain.emplace(std::move(network));
    }
    loaded = fresh.release();
  });
  return loaded;
}

void tvm_vision_free(tvm_vision_network* network) { delete network; }

int tvm_vision_about(tvm_vision_network* network, tvm_vision_info* info) {
  return Done([&] {
    const tvm_vision::Network& loaded = Needed(network, "a network")->network();
    Needed(info, "room for an answer");
    network->device = loaded.device();
    network->losses = loaded.losses().Describe();
    *info = {loaded.model().name.c_str(), loaded.model().kind.c_str(), network->device.c_str(),
             network->losses.c_str(),     loaded.inputs().size(),      loaded.outputs().size()};
  });
}

int tvm_vision_describe(tvm_vision_network* network, int outputs, size_t index,
                        tvm_vision_tensor* tensor) {
  return Done([&] {
    const tvm_vision::Network& loaded = Needed(network, "a network")->network();
    Needed(tensor, "room for an answer");
    const auto& specs = outputs != 0 ? loaded.outputs() : loaded.inputs();
    if (index >= specs.size()) {
      throw tvm_vision::Error("InputError", "a number below " + std::to_string(specs.size()) +
                                                " is needed, found " + std::to_string(index));
    }
    const tvm_vision::TensorSpec& spec = specs[index];
    *tensor = {spec.name.c_str(), spec.dtype.c_str(), spec.layout.c_str(), spec.shape.data(),
               spec.shape.size(), spec.scale,         spec.zero_point};
  });
}

int tvm_vision_set_input(tvm_vision_network* network, size_t index, const void* data,
                         size_t bytes) {
  return Done([&] { Needed(network, "a network")->network().SetInput(index, data, bytes); });
}

int tvm_vision_run(tvm_vision_network* network) {
  return Done([&] { Needed(network, "a network")->network().Run(); });
}

int tvm_vision_get_output(tvm_vision_network* network, size_t index, const void** data,
                          size_t* bytes) {
  return Done([&] { Give(Needed(network, "a network")->network().Output(index), data, bytes); });
}

int tvm_vision_prepare(tvm_vision_network* network, const tvm_vision_image* image,
                       const void** data, size_t* bytes) {
  return Done(
      [&] { Give(Needed(network, "a network")->images().Prepare(View(image)), data, bytes); });
}

int tvm_vision_predict(tvm_vision_network* network, const tvm_vision_image* image, size_t top,
                       tvm_vision_result* result) {
  return Done([&] {
    Needed(network, "a network");
    Needed(result, "room for an answer");
    network->result = network->images()(View(image), top);
    network->objects.clear();
    for (const tvm_vision::ClassScore& one : network->result.classes) {
      tvm_vision_object object{};
      object.score = static_cast<float>(one.probability);
      object.class_id = one.class_id;
      object.label = one.label.c_str();
      network->objects.push_back(object);
    }
    for (const tvm_vision::Detection& one : network->result.detections) {
      network->objects.push_back(ObjectOf(one));
    }
    const tvm_vision::Segmentation& mask = network->result.segmentation;
    const tvm_vision::DepthMap& depth = network->result.depth;
    *result = {network->objects.data(),
               network->objects.size(),
               OrNull(mask.classes),
               mask.height,
               mask.width,
               OrNull(depth.values),
               depth.height,
               depth.width,
               depth.unit.c_str(),
               depth.inverse};
  });
}

}  // extern "C"
