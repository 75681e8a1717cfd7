/*!
 * \file shader_types.h
 * \brief The types of a shader as far as devices limit them: bytes of workgroup memory, matrix
 * products, types in subgroup operations. Pure: no Vulkan.
 */
#ifndef TVM_VISION_VULKAN_SHADER_TYPES_H_
#define TVM_VISION_VULKAN_SHADER_TYPES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief A number's type: SPIR-V's opcode of it, and its bits. */
struct ComponentType {
  bool is_float = false;
  bool is_signed = false;
  uint32_t bits = 0;
  bool operator==(const ComponentType& other) const {
    return is_float == other.is_float && is_signed == other.is_signed && bits == other.bits;
  }
  /*! \brief As in "float16", "int8", "uint32". */
  std::string Name() const;
};

/*! \brief What one instruction multiplies on matrix units: result[m,n] = A[m,k] * B[k,n] + C[m,n].
 */
struct MatrixProduct {
  uint32_t m = 0, n = 0, k = 0;
  ComponentType a, b, c, result;
  bool operator==(const MatrixProduct& other) const {
    return m == other.m && n == other.n && k == other.k && a == other.a && b == other.b &&
           c == other.c && result == other.result;
  }
};

/*!
 * \brief Reads a shader's instructions in their order.
 *
 * SPIR-V declares a type before it is used (specification, section 2.4), so that each size is known
 * when its declaration is read. Sizes are those of workgroup memory without an explicit layout:
 * each component at a multiple of its own size, a bool in four bytes.
 */
class ShaderTypes {
 public:
  /*! \param at An instruction of `length` words that lie within the shader. */
  void Read(const uint32_t* at, uint32_t length);

  /*! \brief Of all variables in workgroup memory. */
  uint64_t shared_bytes() const { return shared_bytes_; }
  /*! \brief Each once, in the order of the instructions. */
  const std::vector<MatrixProduct>& products() const { return products_; }
  /*! \brief A subgroup operation on integers that have not 32 bits, or on float16; "" without. */
  const std::string& extended_subgroup_type() const { return extended_subgroup_type_; }

 private:
  struct Type {
    /*! \brief Bytes of a value, and what its place is a multiple of. */
    uint64_t bytes = 0, alignment = 1;
    /*! \brief Of a number, or of what a vector or matrix is made of. */
    ComponentType component;
    /*! \brief Of a cooperative matrix. */
    uint32_t rows = 0, columns = 0;
  };

  void ReadNumber(uint32_t id, bool is_float, bool is_signed, uint32_t bits);
  void ReadAggregate(uint32_t opcode, const uint32_t* at, uint32_t length);
  void ReadProduct(const uint32_t* at, uint32_t length);
  const Type* Find(uint32_t id) const;
  /*! \brief Type of a value that is a matrix; nullptr for other values. */
  const Type* MatrixOf(uint32_t value) const;
  uint32_t Constant(uint32_t id) const;

  std::unordered_map<uint32_t, Type> types_;
  std::unordered_map<uint32_t, uint32_t> constants_;
  /*! \brief Pointers into workgroup memory, and the types they point to. */
  std::unordered_map<uint32_t, uint32_t> shared_pointers_;
  /*! \brief Values that are matrices, and their types. */
  std::unordered_map<uint32_t, uint32_t> matrices_;
  uint64_t shared_bytes_ = 0;
  std::vector<MatrixProduct> products_;
  std::string extended_subgroup_type_;
};

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_SHADER_TYPES_H_
