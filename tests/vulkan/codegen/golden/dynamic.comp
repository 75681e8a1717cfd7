#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require

// main_kernel
// grid n x 1 x 1, folded, workgroup 64 x 1 x 1
// binding 0: a
// binding 1: b

layout(local_size_x = 64, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) readonly buffer a_block { float16_t a[]; };
layout(std430, set = 0, binding = 1) writeonly buffer b_block { float b[]; };
layout(push_constant) uniform Scalars {
  layout(offset = 8) float scale;
  layout(offset = 16) uint shift;
  layout(offset = 24) uint grid_x;
  layout(offset = 32) uint grid_y;
  layout(offset = 40) uint grid_z;
};

void main() {
  const uint workgroup = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (workgroup >= grid_x * grid_y * grid_z) return;
  const int blockIdx_x = int(workgroup % grid_x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  b[threadIdx_x + blockIdx_x * 64] = float(a[threadIdx_x + blockIdx_x * 64]) * scale + float(int8_t(shift));
}
