#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// main_kernel
// grid 1 x 1 x 1, workgroup 64 x 1 x 1
// binding 0: a
// binding 1: b
// binding 2: c

layout(local_size_x = 64, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) readonly buffer a_v4_block { vec4 a_v4[]; };
layout(std430, set = 0, binding = 1) readonly buffer b_v4_block { f16vec4 b_v4[]; };
layout(std430, set = 0, binding = 2) writeonly buffer c_v4_block { vec4 c_v4[]; };
shared float16_t buf_dyn_shmem_float16_t[256];
shared float buf_dyn_shmem[256];

void main() {
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  const int cse_v1 = threadIdx_x * 4;
  const vec4 t = a_v4[threadIdx_x];
  buf_dyn_shmem[cse_v1] = t.x;
  buf_dyn_shmem[cse_v1 + 1] = t.y;
  buf_dyn_shmem[cse_v1 + 2] = t.z;
  buf_dyn_shmem[cse_v1 + 3] = t.w;
  const f16vec4 t_1 = b_v4[threadIdx_x];
  buf_dyn_shmem_float16_t[cse_v1] = t_1.x;
  buf_dyn_shmem_float16_t[cse_v1 + 1] = t_1.y;
  buf_dyn_shmem_float16_t[cse_v1 + 2] = t_1.z;
  buf_dyn_shmem_float16_t[cse_v1 + 3] = t_1.w;
  const int cse_v2 = 255 - cse_v1;
  barrier();
  const int t_2 = 383 - cse_v1;
  c_v4[threadIdx_x] = vec4(buf_dyn_shmem[t_2 - 128], buf_dyn_shmem[t_2 - 1 - 128], buf_dyn_shmem[t_2 - 2 - 128], buf_dyn_shmem[t_2 - 3 - 128]) + vec4(f16vec4(buf_dyn_shmem_float16_t[cse_v2], buf_dyn_shmem_float16_t[cse_v2 - 1], buf_dyn_shmem_float16_t[cse_v2 - 2], buf_dyn_shmem_float16_t[cse_v2 - 3]));
}
