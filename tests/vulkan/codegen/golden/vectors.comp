#version 450

// main_kernel
// grid 2 x 1 x 1, workgroup 32 x 1 x 1
// binding 0: v_out
// binding 1: x0
// binding 2: x1

layout(local_size_x = 32, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) writeonly buffer v_out_v4_block { vec4 v_out_v4[]; };
layout(std430, set = 0, binding = 1) readonly buffer x0_v4_block { vec4 x0_v4[]; };
layout(std430, set = 0, binding = 2) readonly buffer x1_v4_block { vec4 x1_v4[]; };

void main() {
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  const int at = threadIdx_x * 2 + blockIdx_x * 64;
  v_out_v4[at] = mix(exp(x0_v4[at]), x0_v4[at] * x1_v4[at], lessThan(x1_v4[at], x0_v4[at]));
  v_out_v4[at + 1] = mix(exp(x0_v4[at + 1]), x0_v4[at + 1] * x1_v4[at + 1], lessThan(x1_v4[at + 1], x0_v4[at + 1]));
}
