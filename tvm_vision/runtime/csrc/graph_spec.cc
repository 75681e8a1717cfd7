#include "graph_spec.h"

#include <tvm/ffi/extra/json.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "vulkan/csrc/error.h"

namespace tvm_vision {
namespace runtime {

namespace ffi = tvm::ffi;
namespace json = tvm::ffi::json;

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;
/*! \brief Every descriptor offset that any device asks for divides this. */
constexpr uint64_t kAlignment = 256;

[[noreturn]] void Refuse(const std::string& why) {
  TVM_VISION_THROW(PackageError) << "the network's graph (mod.json) is damaged: " << why
                                 << "; compile the network again";
}

json::Array ArrayOf(const json::Object& object, const char* key) {
  auto found = object.find(ffi::String(key));
  if (found == object.end()) Refuse(std::string("it has no \"") + key + "\"");
  auto array = (*found).second.try_cast<json::Array>();
  if (!array.has_value()) Refuse(std::string("\"") + key + "\" is no list");
  return *array;
}

json::Object ObjectAt(const ffi::Any& value, const std::string& what) {
  auto object = value.try_cast<json::Object>();
  if (!object.has_value()) Refuse(what + " is no object");
  return *object;
}

uint64_t Number(const ffi::Any& value, uint64_t limit, const std::string& what) {
  auto number = value.try_cast<int64_t>();
  if (!number.has_value() || *number < 0 || static_cast<uint64_t>(*number) > limit) {
    Refuse(what + " is no number from 0 to " + std::to_string(limit));
  }
  return static_cast<uint64_t>(*number);
}

ffi::Any Field(const json::Object& object, const char* key, const std::string& what) {
  auto found = object.find(ffi::String(key));
  if (found == object.end()) Refuse(what + " has no \"" + key + "\"");
  return (*found).second;
}

std::string Text(const ffi::Any& value, const std::string& what) {
  auto text = value.try_cast<ffi::String>();
  if (!text.has_value()) Refuse(what + " is no text");
  return std::string(*text);
}

GraphTensor ReadTensor(const ffi::Any& value, const std::vector<uint64_t>& storages, size_t index) {
  std::string what = "tensor " + std::to_string(index);
  json::Object object = ObjectAt(value, what);
  GraphTensor tensor;
  std::string dtype = Text(Field(object, "dtype", what), what + "'s dtype");
  try {
    tensor.dtype = ffi::StringToDLDataType(dtype);
  } catch (const ffi::Error&) {
    Refuse(what + " is of the unknown dtype " + dtype);
  }
  uint64_t elements = 1;
  for (const ffi::Any& extent : ArrayOf(object, "shape")) {
    uint64_t size = Number(extent, kMostBytes, what + "'s extent");
    if (size != 0 && elements > kMostBytes / size) Refuse(what + " is too large");
    elements *= size;
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  uint64_t bits = static_cast<uint64_t>(tensor.dtype.bits) * tensor.dtype.lanes;
  if (bits % 8 != 0) Refuse(what + " is of " + dtype + ", which takes no whole bytes");
  if (bits == 0 || elements > kMostBytes / bits) Refuse(what + " is too large");
  tensor.bytes = elements * (bits / 8);
  if (storages.empty()) Refuse("it has tensors but no storages");
  tensor.storage = static_cast<uint32_t>(
      Number(Field(object, "storage", what), storages.size() - 1, what + "'s storage"));
  tensor.offset = Number(Field(object, "offset", what), kMostBytes, what + "'s offset");
  if (tensor.offset % kAlignment != 0) Refuse(what + "'s offset is no multiple of 256");
  if (tensor.offset + tensor.bytes > storages[tensor.storage]) {
    Refuse(what + " runs past the end of its storage");
  }
  return tensor;
}

std::vector<uint32_t> ReadIds(const json::Array& ids, size_t tensors, const std::string& what) {
  std::vector<uint32_t> result;
  for (const ffi::Any& id : ids) {
    if (tensors == 0) Refuse(what + " names a tensor, and there is none");
    result.push_back(static_cast<uint32_t>(Number(id, tensors - 1, what)));
  }
  return result;
}

/*! \brief Inputs and outputs exist once for each frame in flight, so their memory serves nothing
 * else. */
void CheckInterface(const GraphSpec& graph) {
  std::map<uint32_t, std::string> owner;
  for (size_t i = 0; i < graph.inputs.size() + graph.outputs.size(); ++i) {
    bool input = i < graph.inputs.size();
    uint32_t id = input ? graph.inputs[i] : graph.outputs[i - graph.inputs.size()];
    std::string name = input ? "input " + graph.input_names[i]
                             : "output " + graph.output_names[i - graph.inputs.size()];
    if (!owner.emplace(graph.tensors[id].storage, name).second) {
      Refuse(name + " shares its memory with " + owner[graph.tensors[id].storage]);
    }
  }
  for (const auto& [name, id] : graph.params) {
    auto found = owner.find(graph.tensors[id].storage);
    if (found != owner.end()) {
      Refuse("parameter " + name + " shares its memory with " + found->second);
    }
  }
}

std::vector<std::string> ReadNames(const json::Object& top, const char* key, size_t count) {
  std::vector<std::string> names;
  auto found = top.find(ffi::String(key));
  bool specs = found != top.end() && (*found).second.try_cast<json::Array>().has_value();
  if (specs) {
    for (const ffi::Any& spec : (*found).second.cast<json::Array>()) {
      auto object = spec.try_cast<json::Object>();
      if (!object.has_value()) break;
      names.push_back(Text(Field(*object, "name", key), "a name"));
    }
  }
  // A graph on its own has ids here, no names.
  if (names.empty()) {
    for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  }
  if (names.size() != count) Refuse(std::string("names and tensors of \"") + key + "\" differ");
  return names;
}

size_t FindName(const std::vector<std::string>& names, const std::string& name, const char* what) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  std::ostringstream known;
  for (size_t i = 0; i < names.size(); ++i) known << (i == 0 ? "" : ", ") << names[i];
  TVM_VISION_THROW(InputError) << "the network has no " << what << " \"" << name << "\"; it has "
                               << known.str();
}

}  // namespace

size_t GraphSpec::FindInput(const std::string& name) const {
  return FindName(input_names, name, "input");
}

size_t GraphSpec::FindOutput(const std::string& name) const {
  return FindName(output_names, name, "output");
}

GraphSpec ReadGraph(const std::string& text) {
  ffi::String error;
  json::Value parsed = json::Parse(text, &error);
  if (!error.empty()) Refuse("it is no JSON");
  json::Object top = ObjectAt(parsed, "it");
  auto member = top.find(ffi::String("graph"));
  json::Object object = member == top.end() ? top : ObjectAt((*member).second, "\"graph\"");

  GraphSpec graph;
  for (const ffi::Any& bytes : ArrayOf(object, "storages")) {
    graph.storages.push_back(Number(bytes, kMostBytes, "a storage's size"));
  }
  for (const ffi::Any& tensor : ArrayOf(object, "tensors")) {
    graph.tensors.push_back(ReadTensor(tensor, graph.storages, graph.tensors.size()));
  }
  size_t tensors = graph.tensors.size();
  for (const auto& item : ObjectAt(Field(object, "params", "it"), "\"params\"")) {
    std::string name = Text(item.first, "a parameter's name");
    graph.params[name] = ReadIds({item.second}, tensors, "parameter " + name).front();
  }
  graph.inputs = ReadIds(ArrayOf(object, "inputs"), tensors, "an input");
  graph.outputs = ReadIds(ArrayOf(object, "outputs"), tensors, "an output");
  graph.input_names = ReadNames(top, "inputs", graph.inputs.size());
  graph.output_names = ReadNames(top, "outputs", graph.outputs.size());
  for (const ffi::Any& item : ArrayOf(object, "kernels")) {
    json::Object kernel = ObjectAt(item, "a kernel");
    std::string function = Text(Field(kernel, "function", "a kernel"), "a kernel's function");
    std::vector<uint32_t> args =
        ReadIds(ArrayOf(kernel, "args"), tensors, "an argument of " + function);
    uint64_t outputs = Number(Field(kernel, "num_outputs", "a kernel"), args.size(),
                              "the number of results of " + function);
    graph.kernels.push_back({function, std::move(args), static_cast<uint32_t>(outputs)});
  }
  CheckInterface(graph);
  return graph;
}

}  // namespace runtime
}  // namespace tvm_vision
