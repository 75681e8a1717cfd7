#include "shader_types.h"

#include <algorithm>

namespace tvm_vision {
namespace vulkan {

namespace {

// Numbers of the SPIR-V specification, section 3, and of SPV_KHR_cooperative_matrix.
enum Op : uint32_t {
  kOpTypeBool = 20,
  kOpTypeInt = 21,
  kOpTypeFloat = 22,
  kOpTypeVector = 23,
  kOpTypeArray = 28,
  kOpTypeStruct = 30,
  kOpTypePointer = 32,
  kOpConstant = 43,
  kOpSpecConstant = 50,
  kOpVariable = 59,
  kOpGroupNonUniformFirst = 333,
  kOpGroupNonUniformLast = 366,
  kOpTypeCooperativeMatrix = 4456,
  kOpCooperativeMatrixMulAdd = 4459,
};
constexpr uint32_t kStorageClassWorkgroup = 4;
constexpr uint32_t kBoolBits = 32;
constexpr uint32_t kByteBits = 8;
// Which operands of a product are signed; integers only.
constexpr uint32_t kSignedA = 1, kSignedB = 2, kSignedC = 4, kSignedResult = 8;

/*! \brief Beyond what any device has; sizes of damaged shaders stay there. */
constexpr uint64_t kHuge = uint64_t{1} << 40;

uint64_t Times(uint64_t a, uint64_t b) {
  return a != 0 && b > kHuge / a ? kHuge : std::min(a * b, kHuge);
}

uint64_t RoundUp(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

std::string ComponentType::Name() const {
  return (is_float ? "float" : is_signed ? "int" : "uint") + std::to_string(bits);
}

void ShaderTypes::Read(const uint32_t* at, uint32_t length) {
  uint32_t opcode = at[0] & 0xffff;
  auto has = [&](uint32_t words) { return length >= words; };
  // Only an instruction that gives a value has a type as its first operand, among those after it.
  if (has(3) && matrices_.count(at[2]) == 0) {
    const Type* type = Find(at[1]);
    if (type != nullptr && type->rows != 0) matrices_[at[2]] = at[1];
  }
  switch (opcode) {
    case kOpTypeBool:
      if (has(2)) ReadNumber(at[1], false, false, kBoolBits);
      break;
    case kOpTypeInt:
      if (has(4)) ReadNumber(at[1], false, at[3] != 0, at[2]);
      break;
    case kOpTypeFloat:
      if (has(3)) ReadNumber(at[1], true, true, at[2]);
      break;
    case kOpTypeVector:
    case kOpTypeArray:
    case kOpTypeStruct:
    case kOpTypeCooperativeMatrix:
      ReadAggregate(opcode, at, length);
      break;
    case kOpTypePointer:
      if (has(4) && at[2] == kStorageClassWorkgroup) shared_pointers_[at[1]] = at[3];
      break;
    case kOpConstant:
    case kOpSpecConstant:
      if (has(4)) constants_[at[2]] = at[3];
      break;
    case kOpVariable: {
      auto pointer = has(4) ? shared_pointers_.find(at[1]) : shared_pointers_.end();
      const Type* type = pointer == shared_pointers_.end() ? nullptr : Find(pointer->second);
      if (type == nullptr) break;
      shared_bytes_ = std::min(RoundUp(shared_bytes_, type->alignment) + type->bytes, kHuge);
      break;
    }
    case kOpCooperativeMatrixMulAdd:
      ReadProduct(at, length);
      break;
    default:
      if (opcode >= kOpGroupNonUniformFirst && opcode <= kOpGroupNonUniformLast && has(2)) {
        const Type* type = Find(at[1]);
        if (type == nullptr || type->component.bits == 0) break;
        const ComponentType& c = type->component;
        bool extended = c.is_float ? c.bits == 16 : c.bits != 32;
        if (extended) extended_subgroup_type_ = c.Name();
      }
  }
}

void ShaderTypes::ReadNumber(uint32_t id, bool is_float, bool is_signed, uint32_t bits) {
  Type& type = types_[id];
  type.bytes = type.alignment = std::max(1u, bits / kByteBits);
  type.component = {is_float, is_signed, bits};
}

void ShaderTypes::ReadAggregate(uint32_t opcode, const uint32_t* at, uint32_t length) {
  Type made;
  if (opcode == kOpTypeStruct) {
    for (uint32_t i = 2; i < length; ++i) {
      const Type* member = Find(at[i]);
      if (member == nullptr) continue;
      made.alignment = std::max(made.alignment, member->alignment);
      made.bytes = std::min(RoundUp(made.bytes, member->alignment) + member->bytes, kHuge);
    }
    made.bytes = RoundUp(made.bytes, made.alignment);
  } else {
    bool matrix = opcode == kOpTypeCooperativeMatrix;
    const Type* element = length >= (matrix ? 7u : 4u) ? Find(at[2]) : nullptr;
    if (element == nullptr) return;
    made.alignment = element->alignment;
    made.component = element->component;
    if (matrix) {
      made.rows = Constant(at[4]);
      made.columns = Constant(at[5]);
    } else {
      uint64_t count = opcode == kOpTypeArray ? Constant(at[3]) : at[3];
      made.bytes = Times(element->bytes, count);
      if (opcode == kOpTypeArray) made.component = {};
    }
  }
  types_[at[1]] = made;
}

void ShaderTypes::ReadProduct(const uint32_t* at, uint32_t length) {
  if (length < 6) return;
  const Type* result = Find(at[1]);
  const Type* a = MatrixOf(at[3]);
  const Type* b = MatrixOf(at[4]);
  const Type* c = MatrixOf(at[5]);
  if (result == nullptr || a == nullptr || b == nullptr || c == nullptr) return;
  uint32_t is_signed = length > 6 ? at[6] : 0;
  auto component = [&](const Type* type, uint32_t bit) {
    ComponentType found = type->component;
    found.is_signed = found.is_float || (is_signed & bit) != 0;
    return found;
  };
  MatrixProduct product{a->rows,
                        b->columns,
                        a->columns,
                        component(a, kSignedA),
                        component(b, kSignedB),
                        component(c, kSignedC),
                        component(result, kSignedResult)};
  if (std::find(products_.begin(), products_.end(), product) == products_.end()) {
    products_.push_back(product);
  }
}

const ShaderTypes::Type* ShaderTypes::Find(uint32_t id) const {
  auto found = types_.find(id);
  return found == types_.end() ? nullptr : &found->second;
}

const ShaderTypes::Type* ShaderTypes::MatrixOf(uint32_t value) const {
  auto found = matrices_.find(value);
  return found == matrices_.end() ? nullptr : Find(found->second);
}

uint32_t ShaderTypes::Constant(uint32_t id) const {
  auto found = constants_.find(id);
  return found == constants_.end() ? 0 : found->second;
}

}  // namespace vulkan
}  // namespace tvm_vision
