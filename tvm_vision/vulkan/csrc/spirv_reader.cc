#include "spirv_reader.h"

#include <cstring>
#include <unordered_map>

#include "error.h"

namespace tvm_vision {
namespace vulkan {

namespace {

// Numbers of the SPIR-V specification, section 3.
enum Op : uint32_t {
  kOpEntryPoint = 15,
  kOpExecutionMode = 16,
  kOpCapability = 17,
  kOpTypeStruct = 30,
  kOpTypePointer = 32,
  kOpVariable = 59,
  kOpDecorate = 71,
  kOpMemberDecorate = 72,
};
constexpr uint32_t kMagic = 0x07230203;
constexpr uint32_t kExecutionModelGLCompute = 5;
constexpr uint32_t kExecutionModeLocalSize = 17;
constexpr uint32_t kDecorationNonWritable = 24;
constexpr uint32_t kDecorationNonReadable = 25;
constexpr uint32_t kDecorationBinding = 33;
constexpr uint32_t kDecorationDescriptorSet = 34;
constexpr uint32_t kStorageClassUniform = 2;
constexpr uint32_t kStorageClassStorageBuffer = 12;

/*! \brief Decorations that say what an id, or all members of a struct, may not do. */
struct Restriction {
  uint32_t members = 0;
  uint32_t non_writable_members = 0;
  uint32_t non_readable_members = 0;
  bool non_writable = false;
  bool non_readable = false;
};

struct Tables {
  std::unordered_map<uint32_t, uint32_t> binding_of;
  std::unordered_map<uint32_t, uint32_t> pointee_of;
  std::unordered_map<uint32_t, Restriction> restrictions;
  /*! \brief Variables of buffers: id and pointer type. */
  std::vector<std::pair<uint32_t, uint32_t>> variables;
};

[[noreturn]] void Refuse(const std::string& name, const char* why) {
  TVM_VISION_THROW(DeviceError) << "the shader of kernel " << name << " is damaged: " << why
                                << "; compile the network again";
}

std::string ReadString(const uint32_t* words, uint32_t count) {
  const char* text = reinterpret_cast<const char*>(words);
  return std::string(text, strnlen(text, count * sizeof(uint32_t)));
}

void ReadInstruction(const std::string& name, const uint32_t* at, uint32_t length,
                     ShaderInterface* result, Tables* tables) {
  auto need = [&](uint32_t words) {
    if (length < words) Refuse(name, "an instruction is too short");
  };
  switch (at[0] & 0xffff) {
    case kOpCapability:
      need(2);
      result->capabilities.push_back(at[1]);
      break;
    case kOpEntryPoint:
      need(4);
      if (at[1] == kExecutionModelGLCompute) {
        result->entry_point = ReadString(at + 3, length - 3);
      }
      break;
    case kOpExecutionMode:
      need(3);
      if (at[2] == kExecutionModeLocalSize) {
        need(6);
        result->local_size = {{at[3], at[4], at[5]}};
      }
      break;
    case kOpTypeStruct:
      need(2);
      tables->restrictions[at[1]].members = length - 2;
      break;
    case kOpTypePointer:
      need(4);
      tables->pointee_of[at[1]] = at[3];
      break;
    case kOpVariable:
      need(4);
      if (at[3] == kStorageClassUniform || at[3] == kStorageClassStorageBuffer) {
        tables->variables.emplace_back(at[2], at[1]);
      }
      break;
    case kOpDecorate:
      need(3);
      if (at[2] == kDecorationBinding) {
        need(4);
        tables->binding_of[at[1]] = at[3];
      } else if (at[2] == kDecorationDescriptorSet) {
        need(4);
        if (at[3] != 0) Refuse(name, "it uses a descriptor set other than 0");
      } else if (at[2] == kDecorationNonWritable) {
        tables->restrictions[at[1]].non_writable = true;
      } else if (at[2] == kDecorationNonReadable) {
        tables->restrictions[at[1]].non_readable = true;
      }
      break;
    case kOpMemberDecorate:
      need(4);
      if (at[3] == kDecorationNonWritable) ++tables->restrictions[at[1]].non_writable_members;
      if (at[3] == kDecorationNonReadable) ++tables->restrictions[at[1]].non_readable_members;
      break;
    default:
      break;
  }
}

}  // namespace

ShaderInterface ReadShaderInterface(const std::string& name, const std::vector<uint32_t>& words) {
  if (words.size() < 5) Refuse(name, "it is shorter than a SPIR-V header");
  if (words[0] != kMagic) Refuse(name, "it does not begin with SPIR-V's magic number");
  ShaderInterface result;
  result.version = words[1];
  Tables tables;
  ShaderTypes types;
  size_t at = 5;
  while (at < words.size()) {
    uint32_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) Refuse(name, "an instruction runs past its end");
    ReadInstruction(name, words.data() + at, length, &result, &tables);
    types.Read(words.data() + at, length);
    at += length;
  }
  if (result.entry_point.empty()) Refuse(name, "it has no compute entry point");
  result.shared_bytes = types.shared_bytes();
  result.products = types.products();
  result.extended_subgroup_type = types.extended_subgroup_type();
  for (const auto& [id, pointer_type] : tables.variables) {
    auto binding = tables.binding_of.find(id);
    if (binding == tables.binding_of.end()) continue;
    const Restriction& variable = tables.restrictions[id];
    const Restriction& type = tables.restrictions[tables.pointee_of[pointer_type]];
    bool read_only =
        variable.non_writable || (type.members != 0 && type.non_writable_members >= type.members);
    bool write_only =
        variable.non_readable || (type.members != 0 && type.non_readable_members >= type.members);
    // Several variables may view one binding as different types.
    BindingAccess& access = result.bindings[binding->second];
    access.reads = access.reads || !write_only;
    access.writes = access.writes || !read_only;
  }
  return result;
}

}  // namespace vulkan
}  // namespace tvm_vision
