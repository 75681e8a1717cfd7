#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// main_kernel
// grid 1 x 1 x 1, workgroup 1 x 1 x 1
// binding 0: a
// binding 1: v_out

layout(local_size_x = 1, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) readonly buffer a_block { float a[]; };
layout(std430, set = 0, binding = 1) writeonly buffer v_out_block { int64_t v_out[]; };

void main() {
  int at;
  float best;
  at = -1;
  best = -1e+30;
  for (int i = 0; i < 100; ++i) {
    at = best < a[i] ? i : at;
    best = max(best, a[i]);
  }
  v_out[0] = int64_t(at);
}
