#include <tvm_vision/tvm_vision.h>

#include <optional>
#include <tvm_vision/tvm_vision.hpp>

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

thread_local std::string last_error;

/*! \brief Whether a call came to its end; nothing that is thrown leaves C++. */
template <typename Call>
bool Done(Call call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "something that is no error was thrown: report it";
  }
  return false;
}

tvm_vision::ImageView View(const tvm_vision_image* image) {
  if (image == nullptr) throw tvm_vision::Error("InputError", "an image is needed, found none");
  return {image->data, image->height, image->width, image->channels, image->stride};
}

template <typename T>
T* Needed(T* pointer, const char* what) {
  if (pointer != nullptr) return pointer;
  throw tvm_vision::Error("InputError", std::string(what) + " is needed, found NULL");
}

tvm_vision::LoadOptions Options(const tvm_vision_options* given) {
  int device = Needed(given, "options")->device;
  if (device < TVM_VISION_AUTO || device > TVM_VISION_CPU) {
    throw tvm_vision::Error("InputError",
                            "a device from 0 to 2 is needed, found " + std::to_string(device));
  }
  tvm_vision::LoadOptions options(static_cast<tvm_vision::Device>(device));
  if (given->target != nullptr) options.target = given->target;
  if (given->verify != nullptr) options.verify = given->verify;
  options.recovery.frame_timeout = given->frame_timeout;
  options.recovery.rebuilds_per_minute = given->rebuilds_per_minute;
  if (given->fallback != nullptr) options.recovery.fallback = given->fallback;
  return options;
}

}  // namespace

extern "C" {

const char* tvm_vision_error(void) { return last_error.c_str(); }

tvm_vision_network* tvm_vision_load(const char* path, int device) {
  tvm_vision_options options = TVM_VISION_OPTIONS;
  options.device = device;
  return tvm_vision_load_with(path, &options);
}

tvm_vision_network* tvm_vision_load_with(const char* path, const tvm_vision_options* options) {
  tvm_vision_network* loaded = nullptr;
  Done([&] {
    auto fresh = std::make_unique<tvm_vision_network>();
    auto network =
        tvm_vision::Network::Load(Needed(path, "the path of a package"), Options(options));
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

const char* tvm_vision_device(tvm_vision_network* network) {
  network->device = network->network().device();
  return network->device.c_str();
}

const char* tvm_vision_losses(tvm_vision_network* network) {
  network->losses = network->network().losses().Describe();
  return network->losses.c_str();
}

size_t tvm_vision_count(tvm_vision_network* network, int outputs) {
  return outputs != 0 ? network->network().outputs().size() : network->network().inputs().size();
}

int tvm_vision_describe(tvm_vision_network* network, int outputs, size_t index,
                        tvm_vision_tensor* tensor) {
  return Done([&] {
    const auto& specs = outputs != 0 ? network->network().outputs() : network->network().inputs();
    if (index >= specs.size()) {
      throw tvm_vision::Error("InputError", "a number below " + std::to_string(specs.size()) +
                                                " is needed, found " + std::to_string(index));
    }
    const tvm_vision::TensorSpec& spec = specs[index];
    *tensor = {spec.name.c_str(), spec.dtype.c_str(), spec.layout.c_str(), spec.shape.data(),
               spec.shape.size()};
  })
             ? 0
             : 1;
}

int tvm_vision_set_input(tvm_vision_network* network, size_t index, const void* data,
                         size_t bytes) {
  return Done([&] { network->network().SetInput(index, data, bytes); }) ? 0 : 1;
}

int tvm_vision_run(tvm_vision_network* network) {
  return Done([&] { network->network().Run(); }) ? 0 : 1;
}

int tvm_vision_get_output(tvm_vision_network* network, size_t index, const void** data,
                          size_t* bytes) {
  return Done([&] {
    tvm_vision::TensorView view = network->network().Output(index);
    *data = view.data;
    *bytes = view.bytes;
  })
             ? 0
             : 1;
}

int tvm_vision_prepare(tvm_vision_network* network, const tvm_vision_image* image,
                       const void** data, size_t* bytes) {
  return Done([&] {
    tvm_vision::TensorView view = network->images().Prepare(View(image));
    *data = view.data;
    *bytes = view.bytes;
  })
             ? 0
             : 1;
}

int tvm_vision_predict(tvm_vision_network* network, const tvm_vision_image* image, size_t top,
                       tvm_vision_result* result) {
  return Done([&] {
    network->result = network->images()(View(image), top);
    network->objects.clear();
    for (const tvm_vision::ClassScore& one : network->result.classes) {
      network->objects.push_back(
          {0, 0, 0, 0, static_cast<float>(one.probability), one.class_id, one.label.c_str()});
    }
    for (const tvm_vision::Detection& one : network->result.detections) {
      network->objects.push_back(
          {one.x1, one.y1, one.x2, one.y2, one.score, one.class_id, one.label.c_str()});
    }
    const tvm_vision::Segmentation& mask = network->result.segmentation;
    *result = {network->objects.data(), network->objects.size(),
               mask.classes.empty() ? nullptr : mask.classes.data(), mask.height, mask.width};
  })
             ? 0
             : 1;
}

}  // extern "C"
