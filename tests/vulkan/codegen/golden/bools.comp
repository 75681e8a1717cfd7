#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require

// main_kernel
// grid 2 x 1 x 1, workgroup 32 x 1 x 1
// binding 0: v_out
// binding 1: x0
// binding 2: x1

layout(local_size_x = 32, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) writeonly buffer v_out_v4_block { u8vec4 v_out_v4[]; };
layout(std430, set = 0, binding = 1) readonly buffer x0_v4_block { u8vec4 x0_v4[]; };
layout(std430, set = 0, binding = 2) readonly buffer x1_block { int x1[]; };

void main() {
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  const bvec4 t = notEqual(uvec4(x0_v4[threadIdx_x + blockIdx_x * 32]), uvec4(0u));
  const bvec4 t_1 = lessThan(ivec4(unpack8(x1[threadIdx_x + blockIdx_x * 32])), ivec4(3));
  v_out_v4[threadIdx_x + blockIdx_x * 32] = u8vec4(uvec4(bvec4(t.x && t_1.x, t.y && t_1.y, t.z && t_1.z, t.w && t_1.w)));
}
