#version 450

// main_kernel
// grid 4 x 1 x 1, workgroup 32 x 1 x 1
// binding 0: a
// binding 1: v_out

layout(local_size_x = 32, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) readonly buffer a_block { float a[]; };
layout(std430, set = 0, binding = 1) writeonly buffer v_out_block { float v_out[]; };
shared float s[32];

void main() {
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  const int cse_v1 = threadIdx_x + blockIdx_x * 32;
  s[threadIdx_x] = a[cse_v1];
  barrier();
  const bool taken = 1 <= threadIdx_x;
  float kept;
  if (taken) {
    kept = s[threadIdx_x] + s[threadIdx_x - 1];
  }
  barrier();
  if (taken) {
    s[threadIdx_x] = kept;
  }
  barrier();
  const bool taken_1 = 2 <= threadIdx_x;
  float kept_1;
  if (taken_1) {
    kept_1 = s[threadIdx_x] + s[threadIdx_x - 2];
  }
  barrier();
  if (taken_1) {
    s[threadIdx_x] = kept_1;
  }
  barrier();
  const bool taken_2 = 4 <= threadIdx_x;
  float kept_2;
  if (taken_2) {
    kept_2 = s[threadIdx_x] + s[threadIdx_x - 4];
  }
  barrier();
  if (taken_2) {
    s[threadIdx_x] = kept_2;
  }
  barrier();
  const bool taken_3 = 8 <= threadIdx_x;
  float kept_3;
  if (taken_3) {
    kept_3 = s[threadIdx_x] + s[threadIdx_x - 8];
  }
  barrier();
  if (taken_3) {
    s[threadIdx_x] = kept_3;
  }
  barrier();
  if (16 <= threadIdx_x) {
    s[threadIdx_x] = s[threadIdx_x] + s[threadIdx_x - 16];
  }
  barrier();
  v_out[cse_v1] = s[threadIdx_x];
}
