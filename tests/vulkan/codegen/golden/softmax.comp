#version 450

// main_kernel
// grid 8 x 1 x 1, workgroup 64 x 1 x 1
// binding 0: A
// binding 1: T_softmax_norm

layout(local_size_x = 64, local_size_y = 1, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) readonly buffer A_block { float A[]; };
layout(std430, set = 0, binding = 1) writeonly buffer T_softmax_norm_block { float T_softmax_norm[]; };
shared float red_buf0[64];
shared float T_softmax_maxelem_shared;
shared float red_buf0_1[64];
shared float T_softmax_expsum_shared;

void main() {
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  float in_thread_T_softmax_maxelem_shared;
  float in_thread_T_softmax_expsum_shared;
  in_thread_T_softmax_maxelem_shared = -3.4028235e+38;
  const int cse_v1 = threadIdx_x + blockIdx_x * 100;
  in_thread_T_softmax_maxelem_shared = max(in_thread_T_softmax_maxelem_shared, A[cse_v1]);
  const int cse_v2 = cse_v1 + 64;
  if (threadIdx_x < 36) {
    in_thread_T_softmax_maxelem_shared = max(in_thread_T_softmax_maxelem_shared, A[cse_v2]);
  }
  barrier();
  red_buf0[threadIdx_x] = in_thread_T_softmax_maxelem_shared;
  barrier();
  if (threadIdx_x < 32) {
    red_buf0[threadIdx_x] = max(red_buf0[threadIdx_x], red_buf0[threadIdx_x + 32]);
  }
  barrier();
  const bool taken = threadIdx_x < 16;
  float w_16_0;
  if (taken) {
    w_16_0 = max(red_buf0[threadIdx_x], red_buf0[threadIdx_x + 16]);
  }
  barrier();
  if (taken) {
    red_buf0[threadIdx_x] = w_16_0;
  }
  barrier();
  float w_8_0;
  if (taken) {
    w_8_0 = max(red_buf0[threadIdx_x], red_buf0[threadIdx_x + 8]);
  }
  barrier();
  if (taken) {
    red_buf0[threadIdx_x] = w_8_0;
  }
  barrier();
  float w_4_0;
  if (taken) {
    w_4_0 = max(red_buf0[threadIdx_x], red_buf0[threadIdx_x + 4]);
  }
  barrier();
  if (taken) {
    red_buf0[threadIdx_x] = w_4_0;
  }
  barrier();
  float w_2_0;
  if (taken) {
    w_2_0 = max(red_buf0[threadIdx_x], red_buf0[threadIdx_x + 2]);
  }
  barrier();
  if (taken) {
    red_buf0[threadIdx_x] = w_2_0;
  }
  barrier();
  float w_1_0;
  if (taken) {
    w_1_0 = max(red_buf0[threadIdx_x], red_buf0[threadIdx_x + 1]);
  }
  barrier();
  if (taken) {
    red_buf0[threadIdx_x] = w_1_0;
  }
  barrier();
  barrier();
  if (threadIdx_x == 0) {
    T_softmax_maxelem_shared = red_buf0[0];
  }
  barrier();
  in_thread_T_softmax_expsum_shared = 0.0;
  barrier();
  in_thread_T_softmax_expsum_shared = in_thread_T_softmax_expsum_shared + exp(A[cse_v1] - T_softmax_maxelem_shared);
  if (threadIdx_x < 36) {
    in_thread_T_softmax_expsum_shared = in_thread_T_softmax_expsum_shared + exp(A[cse_v2] - T_softmax_maxelem_shared);
  }
  barrier();
  red_buf0_1[threadIdx_x] = in_thread_T_softmax_expsum_shared;
  barrier();
  if (threadIdx_x < 32) {
    red_buf0_1[threadIdx_x] = red_buf0_1[threadIdx_x] + red_buf0_1[threadIdx_x + 32];
  }
  barrier();
  const bool taken_1 = threadIdx_x < 16;
  float w_16_0_1;
  if (taken_1) {
    w_16_0_1 = red_buf0_1[threadIdx_x] + red_buf0_1[threadIdx_x + 16];
  }
  barrier();
  if (taken_1) {
    red_buf0_1[threadIdx_x] = w_16_0_1;
  }
  barrier();
  float w_8_0_1;
  if (taken_1) {
    w_8_0_1 = red_buf0_1[threadIdx_x] + red_buf0_1[threadIdx_x + 8];
  }
  barrier();
  if (taken_1) {
    red_buf0_1[threadIdx_x] = w_8_0_1;
  }
  barrier();
  float w_4_0_1;
  if (taken_1) {
    w_4_0_1 = red_buf0_1[threadIdx_x] + red_buf0_1[threadIdx_x + 4];
  }
  barrier();
  if (taken_1) {
    red_buf0_1[threadIdx_x] = w_4_0_1;
  }
  barrier();
  float w_2_0_1;
  if (taken_1) {
    w_2_0_1 = red_buf0_1[threadIdx_x] + red_buf0_1[threadIdx_x + 2];
  }
  barrier();
  if (taken_1) {
    red_buf0_1[threadIdx_x] = w_2_0_1;
  }
  barrier();
  float w_1_0_1;
  if (taken_1) {
    w_1_0_1 = red_buf0_1[threadIdx_x] + red_buf0_1[threadIdx_x + 1];
  }
  barrier();
  if (taken_1) {
    red_buf0_1[threadIdx_x] = w_1_0_1;
  }
  barrier();
  barrier();
  if (threadIdx_x == 0) {
    T_softmax_expsum_shared = red_buf0_1[0];
  }
  barrier();
  T_softmax_norm[cse_v1] = exp(A[cse_v1] - T_softmax_maxelem_shared) / T_softmax_expsum_shared;
  if (threadIdx_x < 36) {
    T_softmax_norm[cse_v2] = exp(A[cse_v2] - T_softmax_maxelem_shared) / T_softmax_expsum_shared;
  }
}
