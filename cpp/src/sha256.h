/*!
 * \file sha256.h
 * \brief SHA-256, FIPS 180-4: by it the members of a package are held to mod.json.
 *
 * By libcrypto where signatures are checked by it, too; else written out, since it is all that is
 * needed of such a library. With the processor's instructions libcrypto takes a fifth of the time.
 */
#ifndef TVM_VISION_CPP_SHA256_H_
#define TVM_VISION_CPP_SHA256_H_

#include <cstddef>
#include <string>

namespace tvm_vision {

/*! \brief 64 hexadecimal digits. */
std::string Sha256(const void* data, size_t bytes);

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_SHA256_H_
