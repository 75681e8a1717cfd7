// The module's bytes and the shader reader, fed with good, foreign and damaged input; no GPU.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cache_file.h"
#include "check.h"
#include "module_format.h"
#include "spirv_reader.h"

using namespace tvm_vision::vulkan;

namespace {

constexpr uint32_t kMagic = 0x07230203;

void Add(std::vector<uint32_t>* words, uint32_t op, std::vector<uint32_t> operands) {
  words->push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | op);
  words->insert(words->end(), operands.begin(), operands.end());
}

/*! \brief Declarations of a shader: binding 0 is only read, binding 1 is viewed twice, once
 * read-only. */
std::vector<uint32_t> Shader() {
  std::vector<uint32_t> w = {kMagic, 0x10500, 0, 100, 0};
  Add(&w, 17, {1});
  Add(&w, 17, {9});
  uint32_t name[2];
  std::memcpy(name, "kernel\0\0", 8);
  Add(&w, 15, {5, 50, name[0], name[1]});
  Add(&w, 16, {50, 17, 8, 4, 2});
  Add(&w, 71, {20, 34, 0});
  Add(&w, 71, {20, 33, 0});
  Add(&w, 71, {21, 33, 1});
  Add(&w, 71, {22, 33, 1});
  Add(&w, 71, {21, 24});
  Add(&w, 72, {10, 0, 24});
  Add(&w, 30, {10, 5});
  Add(&w, 30, {11, 5});
  Add(&w, 32, {30, 12, 10});
  Add(&w, 32, {31, 12, 11});
  Add(&w, 59, {30, 20, 12});
  Add(&w, 59, {31, 21, 12});
  Add(&w, 59, {31, 22, 12});
  return w;
}

KernelMap Kernels() {
  KernelMap kernels;
  for (const char* name : {"b", "a"}) {
    KernelRecord& k = kernels[name];
    k.name = name;
    k.arg_types = {{kDLOpaqueHandle, 64, 1}, {kDLInt, 32, 1}, {kDLFloat, 32, 1}};
    k.launch_param_tags = {"blockIdx.x", "threadIdx.x"};
    k.flags = kFlagFoldedGrid | 32u << kSubgroupSizeShift;
    k.words = Shader();
  }
  return kernels;
}

}  // namespace

TEST(ReadsTheInterfaceOfAShader) {
  ShaderInterface s = ReadShaderInterface("k", Shader());
  CHECK(s.entry_point == "kernel");
  CHECK((s.local_size == std::array<uint32_t, 3>{8, 4, 2}));
  CHECK((s.capabilities == std::vector<uint32_t>{1, 9}));
  CHECK(s.bindings.at(0).reads && !s.bindings.at(0).writes);
  CHECK(s.bindings.at(1).reads && s.bindings.at(1).writes);
}

TEST(RefusesWhatIsNoShader) {
  CHECK_THROWS(ReadShaderInterface("k", {1, 2}), "shorter than a SPIR-V header");
  CHECK_THROWS(ReadShaderInterface("k", {0, 0, 0, 0, 0}), "magic number");
  CHECK_THROWS(ReadShaderInterface("k", {kMagic, 0, 0, 0, 0}), "no compute entry point");
  CHECK_THROWS(ReadShaderInterface("k", {kMagic, 0, 0, 0, 0, 0}), "runs past its end");
  std::vector<uint32_t> longer = Shader();
  longer.push_back(9u << 16 | 17);
  CHECK_THROWS(ReadShaderInterface("k", longer), "runs past its end");
  std::vector<uint32_t> set_one = Shader();
  Add(&set_one, 71, {20, 34, 1});
  CHECK_THROWS(ReadShaderInterface("k", set_one), "descriptor set other than 0");
}

TEST(AnyDamageToAShaderIsRefusedOrHarmless) {
  std::vector<uint32_t> good = Shader();
  int refused = 0;
  for (size_t i = 0; i < good.size() * 32; ++i) {
    std::vector<uint32_t> bad = good;
    bad[i / 32] ^= 1u << (i % 32);
    try {
      ReadShaderInterface("k", bad);
    } catch (const tvm::ffi::Error&) {
      ++refused;
    }
  }
  CHECK(refused > 32);
}

TEST(KernelsRoundTrip) {
  std::string bytes = SerializeKernels(Kernels());
  KernelMap back = DeserializeKernels(bytes.data(), bytes.size());
  CHECK(back.size() == 2);
  CHECK(back.at("a").words == Shader());
  CHECK(back.at("a").flags == Kernels().at("a").flags);
  CHECK(back.at("b").launch_param_tags == Kernels().at("b").launch_param_tags);
  CHECK(back.at("b").arg_types.size() == 3 && back.at("b").arg_types[0].code == kDLOpaqueHandle);
  CHECK(SerializeKernels(back) == bytes);
}

TEST(BytesWithoutOurTrailerAreThoseOfTvm) {
  std::string bytes = SerializeKernels(Kernels());
  CHECK(DeserializeKernels(bytes.data(), bytes.size() - 8).size() == 2);
}

TEST(EveryTruncationIsRefused) {
  std::string bytes = SerializeKernels(Kernels());
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (size == bytes.size() - 8) continue;  // exactly TVM's form
    CHECK_THROWS(DeserializeKernels(bytes.data(), size), "damaged");
  }
}

TEST(EveryFlippedBitIsRefused) {
  std::string bytes = SerializeKernels(Kernels());
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string bad = bytes;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    CHECK_THROWS(DeserializeKernels(bad.data(), bad.size()), "damaged");
  }
}

TEST(HugeLengthsAllocateNothing) {
  std::string bytes(8, '\xff');
  CHECK_THROWS(DeserializeKernels(bytes.data(), bytes.size()), "a length runs past its end");
}

TEST(Crc32HasTheCheckValueOfTheStandard) { CHECK(Crc32("123456789", 9) == 0xcbf43926u); }

TEST(Crc32OfAnyLengthIsThatOfItsBits) {
  std::string bytes;
  for (int i = 0; i < 67; ++i) {
    uint32_t crc = 0xffffffffu;
    for (unsigned char byte : bytes) {
      crc ^= byte;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320u : 0u);
    }
    CHECK(Crc32(bytes.data(), bytes.size()) == ~crc);
    bytes.push_back(static_cast<char>(i * 89 + 200));
  }
}

TEST(CacheFilesSurviveOnlyWhole) {
  std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                 ("tvm_vision_cache_test" + std::to_string(std::rand()));
  std::string path = (folder / "deep" / "file.bin").string();
  std::vector<uint8_t> payload = {1, 2, 3, 4, 5};
  CHECK(ReadCacheFile(path).empty());
  WriteCacheFile(path, payload);
  CHECK(ReadCacheFile(path) == payload);
  std::ofstream(path, std::ios::app | std::ios::binary) << "x";
  CHECK(ReadCacheFile(path).empty());
  WriteCacheFile(path, payload);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(25).put('\x7f');
  CHECK(ReadCacheFile(path).empty());
  WriteCacheFile("/proc/no/such/place", payload);
  std::filesystem::remove_all(folder);
}

TEST(WhatAKilledProcessLeftIsRemoved) {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / ("tvm_vision_left" + std::to_string(std::rand()));
  fs::create_directories(folder);
  for (const char* name : {"p-1.bin", "p-1.bin.tmp17-0", "p-2.bin.tmp18-3", "q.bin.tmp1-0"}) {
    std::ofstream(folder / name) << "x";
  }
  int writing = open((folder / "p-2.bin.tmp18-3").c_str(), O_RDONLY);
  CHECK(flock(writing, LOCK_EX) == 0);
  RemoveLeftovers(folder, "p-");
  CHECK(fs::exists(folder / "p-1.bin") && !fs::exists(folder / "p-1.bin.tmp17-0"));
  // Another process writes the one, and the other is not ours.
  CHECK(fs::exists(folder / "p-2.bin.tmp18-3") && fs::exists(folder / "q.bin.tmp1-0"));
  close(writing);
  RemoveLeftovers(folder, "p-");
  CHECK(!fs::exists(folder / "p-2.bin.tmp18-3"));
  RemoveLeftovers("/no/such/place", "p-");
  fs::remove_all(folder);
}

int main() { return check::Run(); }
