#include "sha256.h"

#include <cstdint>

#ifdef TVM_VISION_WITH_OPENSSL
#include <openssl/evp.h>

#include <new>
#else
#include <array>
#include <cstring>
#endif

namespace tvm_vision {

namespace {

constexpr size_t kDigestBytes = 32;

std::string Digits(const uint8_t* digest) {
  const char* digits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < kDigestBytes; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

}  // namespace

#ifdef TVM_VISION_WITH_OPENSSL

// By the processor's own instructions for it, where there are any.
std::string Sha256(const void* data, size_t bytes) {
  uint8_t digest[kDigestBytes];
  // It fails where there is no memory for its state.
  if (EVP_Digest(data, bytes, digest, nullptr, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  return Digits(digest);
}

#else

namespace {

using Words = std::array<uint32_t, 8>;
constexpr size_t kBlock = 64;

// FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t Turned(uint32_t word, int by) { return word >> by | word << (32 - by); }

/*! \brief FIPS 180-4, 6.2.2, of one block. */
void Take(const uint8_t* block, Words* state) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    uint32_t early = Turned(w[i - 15], 7) ^ Turned(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t late = Turned(w[i - 2], 17) ^ Turned(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + early + w[i - 7] + late;
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (int i = 0; i < 64; ++i) {
    uint32_t first = h + (Turned(e, 6) ^ Turned(e, 11) ^ Turned(e, 25)) + ((e & f) ^ (~e & g)) +
                     kRound[i] + w[i];
    uint32_t second =
        (Turned(a, 2) ^ Turned(a, 13) ^ Turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) (*state)[i] += added[i];
}

}  // namespace

std::string Sha256(const void* data, size_t bytes) {
  Words state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint8_t* at = static_cast<const uint8_t*>(data);
  size_t whole = bytes / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock) Take(at + i, &state);
  // What is left, a bit, zeros, and the number of bits in eight bytes.
  uint8_t last[2 * kBlock] = {};
  size_t left = bytes - whole;
  if (left != 0) std::memcpy(last, at + whole, left);
  last[left] = 0x80;
  size_t padded = left + 9 > kBlock ? 2 * kBlock : kBlock;
  for (int i = 0; i < 8; ++i) {
    last[padded - 1 - i] = static_cast<uint8_t>(uint64_t{bytes} * 8 >> (8 * i));
  }
  for (size_t i = 0; i < padded; i += kBlock) Take(last + i, &state);
  uint8_t digest[kDigestBytes];
  for (size_t i = 0; i < kDigestBytes; ++i) {
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return Digits(digest);
}

#endif

}  // namespace tvm_vision
