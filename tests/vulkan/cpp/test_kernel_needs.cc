// What kernels need and devices have, row by row of the table, on descriptions; no GPU.
#include <functional>

#include "check.h"
#include "kernel_needs.h"

using namespace tvm_vision::vulkan;

namespace {

constexpr uint32_t kMagic = 0x07230203;
const ComponentType kHalf{true, true, 16};
const ComponentType kFloat{true, true, 32};

void Add(std::vector<uint32_t>* words, uint32_t op, std::vector<uint32_t> operands) {
  words->push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | op);
  words->insert(words->end(), operands.begin(), operands.end());
}

/*! \brief The beginning of any shader. */
std::vector<uint32_t> Header() {
  std::vector<uint32_t> words = {kMagic, 0x10500, 0, 100, 0};
  Add(&words, 15, {5, 50, 'k'});
  return words;
}

/*! \brief A device that has all of it. */
DeviceSnapshot Large() {
  DeviceSnapshot s;
  s.name = "Test GPU";
  s.driver_name = "driver";
  s.api_version = VK_API_VERSION_1_3;
  s.max_workgroup_invocations = 1024;
  s.max_workgroup_size = {{1024, 1024, 64}};
  s.max_shared_memory = 49152;
  s.max_push_constants = 256;
  s.max_uniform_buffer_range = 65536;
  s.max_storage_buffers_per_stage = 32;
  s.subgroup_size = s.max_subgroup_size = 64;
  s.min_subgroup_size = 32;
  s.subgroup_in_compute = true;
  s.subgroup_operations = ~0u;
  DeviceFeatures& f = s.features;
  f.shader_int16 = f.shader_int64 = f.shader_float64 = f.shader_float16 = f.shader_int8 = true;
  f.storage_buffer_8bit = f.storage_buffer_16bit = true;
  f.uniform_buffer_8bit = f.uniform_buffer_16bit = true;
  f.push_constant_8bit = f.push_constant_16bit = true;
  f.vulkan_memory_model = f.vulkan_memory_model_device_scope = true;
  f.subgroup_extended_types = f.subgroup_size_control = true;
  f.integer_dot_product = f.cooperative_matrix = true;
  s.cooperative_matrix_shapes = {{16, 16, 16, VK_COMPONENT_TYPE_FLOAT16_KHR,
                                  VK_COMPONENT_TYPE_FLOAT16_KHR, VK_COMPONENT_TYPE_FLOAT32_KHR,
                                  VK_COMPONENT_TYPE_FLOAT32_KHR}};
  return s;
}

/*! \brief A kernel that uses all of it to the brim. */
KernelCode Full() {
  KernelCode k;
  k.name = "conv";
  k.num_buffers = 32;
  k.scalar_bytes = 256;
  k.subgroup_size = 32;
  k.interface.version = 0x10600;
  k.interface.local_size = {{64, 8, 2}};
  k.interface.shared_bytes = 49152;
  k.interface.capabilities = {0,    1,    50,   9,    10,   11,   22,   39,   61,   62,
                              63,   64,   65,   66,   67,   68,   4433, 4434, 4435, 4448,
                              4449, 4450, 5345, 5346, 6016, 6017, 6018, 6019, 6022};
  k.interface.extended_subgroup_type = "int64";
  k.interface.products = {{16, 16, 16, kHalf, kHalf, kFloat, kFloat}};
  return k;
}

struct Row {
  std::function<void(DeviceSnapshot*)> smaller;
  const char* needed;
  const char* found;
};

#define WITHOUT(feature) [](DeviceSnapshot* s) { s->features.feature = false; }
#define WITHOUT_SUBGROUP(bit) \
  [](DeviceSnapshot* s) { s->subgroup_operations &= ~VK_SUBGROUP_FEATURE_##bit##_BIT; }

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {[](DeviceSnapshot* s) { s->max_workgroup_size[0] = 63; },
       "64 invocations in axis x of a workgroup", "63 (maxComputeWorkGroupSize)"},
      {[](DeviceSnapshot* s) { s->max_workgroup_size[1] = 7; },
       "8 invocations in axis y of a workgroup", "7 (maxComputeWorkGroupSize)"},
      {[](DeviceSnapshot* s) { s->max_workgroup_size[2] = 1; },
       "2 invocations in axis z of a workgroup", "1 (maxComputeWorkGroupSize)"},
      {[](DeviceSnapshot* s) { s->max_workgroup_invocations = 256; },
       "1024 invocations in a workgroup", "256 (maxComputeWorkGroupInvocations)"},
      {[](DeviceSnapshot* s) { s->max_shared_memory = 16384; }, "49152 bytes of shared memory",
       "16384 (maxComputeSharedMemorySize)"},
      {[](DeviceSnapshot* s) { s->max_storage_buffers_per_stage = 8; }, "32 storage buffers",
       "8 (maxPerStageDescriptorStorageBuffers)"},
      {[](DeviceSnapshot* s) { s->max_push_constants = 128; }, "256 bytes of push constants",
       "128 (maxPushConstantsSize)"},
      {WITHOUT(shader_float16), "shaderFloat16", "none"},
      {WITHOUT(shader_float64), "shaderFloat64", "none"},
      {WITHOUT(shader_int64), "shaderInt64", "none"},
      {WITHOUT(shader_int16), "shaderInt16", "none"},
      {WITHOUT(shader_int8), "shaderInt8", "none"},
      {WITHOUT(storage_buffer_16bit), "storageBuffer16BitAccess", "none"},
      {WITHOUT(uniform_buffer_16bit), "uniformAndStorageBuffer16BitAccess", "none"},
      {WITHOUT(push_constant_16bit), "storagePushConstant16", "none"},
      {WITHOUT(storage_buffer_8bit), "storageBuffer8BitAccess", "none"},
      {WITHOUT(uniform_buffer_8bit), "uniformAndStorageBuffer8BitAccess", "none"},
      {WITHOUT(push_constant_8bit), "storagePushConstant8", "none"},
      {WITHOUT(vulkan_memory_model), "vulkanMemoryModel", "none"},
      {WITHOUT(vulkan_memory_model_device_scope), "vulkanMemoryModelDeviceScope", "none"},
      {WITHOUT(integer_dot_product), "shaderIntegerDotProduct", "none"},
      {WITHOUT(cooperative_matrix), "cooperativeMatrix (VK_KHR_cooperative_matrix)", "none"},
      {WITHOUT(subgroup_extended_types),
       "subgroup operations on int64 (shaderSubgroupExtendedTypes)", "none"},
      {WITHOUT(subgroup_size_control), "subgroups of 32 lanes", "64"},
      {[](DeviceSnapshot* s) { s->min_subgroup_size = 64, s->max_subgroup_size = 128; },
       "subgroups of 32 lanes", "64 to 128"},
      {WITHOUT_SUBGROUP(BASIC), "subgroup basic operations", "none"},
      {WITHOUT_SUBGROUP(VOTE), "subgroup vote operations", "none"},
      {WITHOUT_SUBGROUP(ARITHMETIC), "subgroup arithmetic operations", "none"},
      {WITHOUT_SUBGROUP(BALLOT), "subgroup ballot operations", "none"},
      {WITHOUT_SUBGROUP(SHUFFLE), "subgroup shuffle operations", "none"},
      {WITHOUT_SUBGROUP(SHUFFLE_RELATIVE), "subgroup relative shuffle operations", "none"},
      {WITHOUT_SUBGROUP(CLUSTERED), "subgroup clustered operations", "none"},
      {WITHOUT_SUBGROUP(QUAD), "subgroup quad operations", "none"},
      {[](DeviceSnapshot* s) { s->api_version = VK_API_VERSION_1_2; }, "SPIR-V 1.6", "1.5"},
      {[](DeviceSnapshot* s) { s->cooperative_matrix_shapes[0].k = 8; },
       "cooperative matrices of 16x16x16 of float16 added up in float32",
       "16x16x8 of float16 added up in float32"},
      {[](DeviceSnapshot* s) {
         s->cooperative_matrix_shapes[0].c_type = VK_COMPONENT_TYPE_FLOAT16_KHR;
       },
       "cooperative matrices of 16x16x16 of float16 added up in float32",
       "16x16x16 of float16 added up in float16 into float32"},
      {[](DeviceSnapshot* s) { s->cooperative_matrix_shapes.clear(); },
       "cooperative matrices of 16x16x16 of float16 added up in float32", "none"},
  };
  return rows;
}

}  // namespace

TEST(WhatFitsToTheBrimRuns) {
  CHECK(UnmetNeeds(Large(), Full()).empty());
  CheckRunnable(Large(), {});
}

TEST(EachRowIsRefusedAlone) {
  for (const Row& row : Rows()) {
    DeviceSnapshot s = Large();
    row.smaller(&s);
    std::vector<UnmetNeed> unmet = UnmetNeeds(s, Full());
    bool right = unmet.size() == 1 && unmet[0].needed == row.needed && unmet[0].found == row.found;
    if (!right) {
      std::cout << "  of " << row.needed << ":\n";
      for (const UnmetNeed& u : unmet) std::cout << "    " << u.needed << " | " << u.found << "\n";
    }
    CHECK(right);
    KernelCode code = Full();
    CHECK_THROWS(CheckRunnable(s, {&code}), "kernel conv cannot run on Test GPU (driver): needed " +
                                                std::string(row.needed) + ", found " + row.found +
                                                "; compile the network for this device");
  }
}

TEST(EveryCapabilityOfTheKernelIsInTheTable) {
  DeviceSnapshot nothing;
  for (uint32_t capability : Full().interface.capabilities) {
    std::string missing = MissingForCapability(nothing, capability);
    CHECK(missing.find("SPIR-V capability") == std::string::npos);
    CHECK(missing.empty() == (capability == 0 || capability == 1 || capability == 50));
  }
  CHECK(MissingForCapability(Large(), 77777) == "SPIR-V capability 77777");
}

TEST(ScalarsInAUniformBufferAreNoPushConstants) {
  DeviceSnapshot s = Large();
  KernelCode code = Full();
  code.scalars_in_uniform_buffer = true;
  s.max_push_constants = 128;
  CHECK(UnmetNeeds(s, code).empty());
  s.max_uniform_buffer_range = 128;
  CHECK(UnmetNeeds(s, code).at(0).needed == "256 bytes in a uniform buffer");
}

TEST(OneLineForManyKernels) {
  DeviceSnapshot s = Large();
  s.max_shared_memory = 16384;
  s.max_workgroup_invocations = 256;
  KernelCode fits, code = Full(), other = Full();
  fits.name = "fits";
  CHECK_THROWS(CheckRunnable(s, {&fits, &code}),
               "needed 1024 invocations in a workgroup, found 256 "
               "(maxComputeWorkGroupInvocations); needed 49152 bytes of shared memory, found 16384 "
               "(maxComputeSharedMemorySize); compile");
  CHECK_THROWS(CheckRunnable(s, {&fits, &code, &other}), "; nor can 1 other; compile");
  CHECK_THROWS(CheckRunnable(s, {&code, &other, &code}), "; nor can 2 others; compile");
}

TEST(WhatNoDeviceRunsIsDamage) {
  KernelCode empty = Full(), unbound = Full();
  empty.interface.local_size[1] = 0;
  CHECK_THROWS(CheckRunnable(Large(), {&empty}),
               "has no invocation in axis 1; compile the network");
  unbound.interface.bindings[32] = {};
  CHECK_THROWS(CheckRunnable(Large(), {&unbound}),
               "uses binding 32, but the kernel has 32 buffers");
}

TEST(WorkgroupMemoryIsTheSumOfItsVariables) {
  std::vector<uint32_t> w = Header();
  Add(&w, 22, {1, 32});        // float
  Add(&w, 22, {2, 16});        // half
  Add(&w, 21, {3, 32, 0});     // uint
  Add(&w, 20, {4});            // bool, in a word
  Add(&w, 43, {3, 10, 100});   // constant 100
  Add(&w, 43, {3, 11, 3});     // constant 3
  Add(&w, 28, {20, 1, 10});    // 100 floats: 400 bytes
  Add(&w, 28, {21, 20, 11});   // 3 of them: 1200 bytes
  Add(&w, 23, {22, 2, 3});     // three halves: 6 bytes
  Add(&w, 30, {23, 2, 4, 2});  // half, bool, half: 12 bytes
  Add(&w, 28, {24, 23, 11});   // 36 bytes
  uint32_t pointer = 30, variable = 40;
  for (uint32_t type : {2u, 21u, 22u, 24u}) {
    Add(&w, 32, {pointer, 4, type});
    Add(&w, 59, {pointer++, variable++, 4});
  }
  Add(&w, 32, {pointer, 7, 21});  // of a function: no workgroup memory
  Add(&w, 59, {pointer, variable, 7});
  // 2, then 1200 from 4 on, then 6, then 36 from a multiple of 4 on.
  CHECK(ReadShaderInterface("k", w).shared_bytes == 4 + 1200 + 8 + 36);
}

TEST(HugeWorkgroupMemoryStaysHuge) {
  std::vector<uint32_t> w = Header();
  Add(&w, 22, {1, 32});
  Add(&w, 21, {3, 32, 0});
  Add(&w, 43, {3, 10, 0xffffffff});
  for (uint32_t id = 20; id < 30; ++id) Add(&w, 28, {id, id == 20 ? 1 : id - 1, 10});
  Add(&w, 32, {40, 4, 29});
  Add(&w, 59, {40, 41, 4});
  CHECK(ReadShaderInterface("k", w).shared_bytes > uint64_t{1} << 32);
}

TEST(ProductsAreReadFromTheirOperands) {
  std::vector<uint32_t> w = Header();
  Add(&w, 22, {1, 32});
  Add(&w, 21, {2, 8, 0});
  Add(&w, 21, {3, 32, 1});
  uint32_t constant = 10;
  for (uint32_t value : {3u, 16u, 8u, 32u}) Add(&w, 43, {3, constant++, value});
  Add(&w, 4456, {20, 2, 10, 11, 13, 11});  // A: 16x32 of bytes
  Add(&w, 4456, {21, 2, 10, 13, 12, 11});  // B: 32x8
  Add(&w, 4456, {22, 3, 10, 11, 12, 11});  // C: 16x8 of int32
  Add(&w, 61, {20, 30, 99});
  Add(&w, 61, {21, 31, 99});
  Add(&w, 61, {22, 32, 99});
  Add(&w, 4459, {22, 33, 30, 31, 32, 0xf});
  Add(&w, 4459, {22, 34, 30, 31, 33, 0xf});
  Add(&w, 4459, {22, 35, 30, 31, 34, 0xe});
  std::vector<MatrixProduct> found = ReadShaderInterface("k", w).products;
  ComponentType int8{false, true, 8}, uint8{false, false, 8}, int32{false, true, 32};
  CHECK(found.size() == 2);
  CHECK((found[0] == MatrixProduct{16, 8, 32, int8, int8, int32, int32}));
  CHECK((found[1] == MatrixProduct{16, 8, 32, uint8, int8, int32, int32}));
}

TEST(SubgroupOperationsOnOtherThanWordsAreSeen) {
  auto with = [](uint32_t kind, uint32_t bits) {
    std::vector<uint32_t> w = Header();
    Add(&w, kind, kind == 22 ? std::vector<uint32_t>{1, bits} : std::vector<uint32_t>{1, bits, 1});
    Add(&w, 23, {2, 1, 4});
    Add(&w, 345, {2, 30, 9, 9, 9});
    return ReadShaderInterface("k", w).extended_subgroup_type;
  };
  CHECK(with(22, 16) == "float16");
  CHECK(with(21, 64) == "int64");
  CHECK(with(21, 8) == "int8");
  CHECK(with(22, 32).empty() && with(21, 32).empty() && with(22, 64).empty());
}

int main() { return check::Run(); }
