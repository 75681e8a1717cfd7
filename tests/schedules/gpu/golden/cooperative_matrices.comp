#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require

// main_kernel
// grid 2 x 1 x 1, workgroup 32 x 2 x 1
// binding 0: matmul
// binding 1: x0
// binding 2: x1

layout(local_size_x = 32, local_size_y = 2, local_size_z = 1) in;
layout(std430, set = 0, binding = 0) writeonly buffer matmul_v4_block { f16vec4 matmul_v4[]; };
layout(std430, set = 0, binding = 1) readonly buffer x0_v4_block { f16vec4 x0_v4[]; };
layout(std430, set = 0, binding = 2) readonly buffer x1_v4_block { f16vec4 x1_v4[]; };
shared f16vec4 x0_reindex_pad_shared_v4[320];
shared f16vec4 x1_reindex_pad_shared_v4[320];
shared vec4 matmul_sum_reindex_pad_shared_v4[256];

void main() {
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  const int threadIdx_y = int(gl_LocalInvocationID.y);
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> matmul_sum_reindex_pad_shared_wmma_accumulator[2];
  f16vec4 x0_reindex_pad_shared_local_v4[4];
  f16vec4 x1_reindex_pad_shared_local_v4[4];
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> x0_reindex_pad_shared_wmma_matrix_a[2];
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> x1_reindex_pad_shared_wmma_matrix_b[1];
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> x0_reindex_pad_shared_wmma_matrix_a_1[2];
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> x1_reindex_pad_shared_wmma_matrix_b_1[1];
  matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  const int cse_v1 = threadIdx_y * 2;
  const int cse_v2 = threadIdx_x >> 4;
  const int cse_v4 = threadIdx_x >> 2;
  const int cse_v5 = threadIdx_x & 3;
  [[unroll]]
  for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
    f16vec4 t_1;
    f16vec4 t_2;
    if (ax0_ax1_fused_0 * 4 + cse_v1 + cse_v2 < 5) {
      const int at = ax0_ax1_fused_0 * 384 + threadIdx_y * 192 + cse_v4 * 24 + cse_v5 * 2;
      t_1 = x0_v4[at];
      t_2 = x0_v4[at + 1];
    }
    else {
      const float16_t t = float16_t(0.0);
      t_1 = f16vec4(t);
      t_2 = f16vec4(t);
    }
    const int at_1 = ax0_ax1_fused_0 * 2;
    x0_reindex_pad_shared_local_v4[at_1] = t_1;
    x0_reindex_pad_shared_local_v4[at_1 + 1] = t_2;
  }
  const int cse_v6 = blockIdx_x * 2;
  const int cse_v18 = cse_v6 + (cse_v5 >> 1);
  [[unroll]]
  for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
    f16vec4 t_4;
    f16vec4 t_5;
    if (cse_v18 < 3) {
      const int at_2 = ax0_ax1_fused_0_1 * 192 + threadIdx_y * 96 + cse_v4 * 12 + blockIdx_x * 8 + cse_v5 * 2;
      t_4 = x1_v4[at_2];
      t_5 = x1_v4[at_2 + 1];
    }
    else {
      const float16_t t_3 = float16_t(0.0);
      t_4 = f16vec4(t_3);
      t_5 = f16vec4(t_3);
    }
    const int at_3 = ax0_ax1_fused_0_1 * 2;
    x1_reindex_pad_shared_local_v4[at_3] = t_4;
    x1_reindex_pad_shared_local_v4[at_3 + 1] = t_5;
  }
  for (int ax3_0 = 0; ax3_0 < 2; ++ax3_0) {
    barrier();
    [[unroll]]
    for (int ax0_ax1_fused_0_2 = 0; ax0_ax1_fused_0_2 < 2; ++ax0_ax1_fused_0_2) {
      const int at_4 = ax0_ax1_fused_0_2 * 2;
      const int at_5 = ax0_ax1_fused_0_2 * 160 + threadIdx_y * 80 + cse_v4 * 10 + cse_v5 * 2;
      x0_reindex_pad_shared_v4[at_5] = x0_reindex_pad_shared_local_v4[at_4];
      x0_reindex_pad_shared_v4[at_5 + 1] = x0_reindex_pad_shared_local_v4[at_4 + 1];
    }
    [[unroll]]
    for (int ax0_ax1_fused_0_3 = 0; ax0_ax1_fused_0_3 < 2; ++ax0_ax1_fused_0_3) {
      f16vec4 t_7;
      f16vec4 t_8;
      if (ax0_ax1_fused_0_3 * 4 + cse_v1 + cse_v2 < 5) {
        const int at_6 = ax0_ax1_fused_0_3 * 384 + threadIdx_y * 192 + cse_v4 * 24 + ax3_0 * 8 + cse_v5 * 2 + 8;
        t_7 = x0_v4[at_6];
        t_8 = x0_v4[at_6 + 1];
      }
      else {
        const float16_t t_6 = float16_t(0.0);
        t_7 = f16vec4(t_6);
        t_8 = f16vec4(t_6);
      }
      const int at_7 = ax0_ax1_fused_0_3 * 2;
      x0_reindex_pad_shared_local_v4[at_7] = t_7;
      x0_reindex_pad_shared_local_v4[at_7 + 1] = t_8;
    }
    [[unroll]]
    for (int ax0_ax1_fused_0_4 = 0; ax0_ax1_fused_0_4 < 2; ++ax0_ax1_fused_0_4) {
      const int at_8 = ax0_ax1_fused_0_4 * 2;
      const int at_9 = ax0_ax1_fused_0_4 * 160 + threadIdx_y * 80 + cse_v4 * 10 + cse_v5 * 2;
      x1_reindex_pad_shared_v4[at_9] = x1_reindex_pad_shared_local_v4[at_8];
      x1_reindex_pad_shared_v4[at_9 + 1] = x1_reindex_pad_shared_local_v4[at_8 + 1];
    }
    [[unroll]]
    for (int ax0_ax1_fused_0_5 = 0; ax0_ax1_fused_0_5 < 2; ++ax0_ax1_fused_0_5) {
      f16vec4 t_10;
      f16vec4 t_11;
      if (cse_v18 < 3) {
        const int at_10 = ax3_0 * 384 + ax0_ax1_fused_0_5 * 192 + threadIdx_y * 96 + cse_v4 * 12 + blockIdx_x * 8 + cse_v5 * 2 + 384;
        t_10 = x1_v4[at_10];
        t_11 = x1_v4[at_10 + 1];
      }
      else {
        const float16_t t_9 = float16_t(0.0);
        t_10 = f16vec4(t_9);
        t_11 = f16vec4(t_9);
      }
      const int at_11 = ax0_ax1_fused_0_5 * 2;
      x1_reindex_pad_shared_local_v4[at_11] = t_10;
      x1_reindex_pad_shared_local_v4[at_11 + 1] = t_11;
    }
    barrier();
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[0], x0_reindex_pad_shared_v4, 0, 10, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[1], x0_reindex_pad_shared_v4, 160, 10, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b[0], x1_reindex_pad_shared_v4, threadIdx_y * 4, 10, gl_CooperativeMatrixLayoutRowMajor);
    matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[0], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
    matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[1], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[0], x0_reindex_pad_shared_v4, 4, 10, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[1], x0_reindex_pad_shared_v4, 164, 10, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b[0], x1_reindex_pad_shared_v4, threadIdx_y * 4 + 160, 10, gl_CooperativeMatrixLayoutRowMajor);
    matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[0], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
    matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[1], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
  }
  barrier();
  [[unroll]]
  for (int ax0_ax1_fused_0_6 = 0; ax0_ax1_fused_0_6 < 2; ++ax0_ax1_fused_0_6) {
    const int at_12 = ax0_ax1_fused_0_6 * 2;
    const int at_13 = ax0_ax1_fused_0_6 * 160 + threadIdx_y * 80 + cse_v4 * 10 + cse_v5 * 2;
    x0_reindex_pad_shared_v4[at_13] = x0_reindex_pad_shared_local_v4[at_12];
    x0_reindex_pad_shared_v4[at_13 + 1] = x0_reindex_pad_shared_local_v4[at_12 + 1];
  }
  [[unroll]]
  for (int ax0_ax1_fused_0_7 = 0; ax0_ax1_fused_0_7 < 2; ++ax0_ax1_fused_0_7) {
    const int at_14 = ax0_ax1_fused_0_7 * 2;
    const int at_15 = ax0_ax1_fused_0_7 * 160 + threadIdx_y * 80 + cse_v4 * 10 + cse_v5 * 2;
    x1_reindex_pad_shared_v4[at_15] = x1_reindex_pad_shared_local_v4[at_14];
    x1_reindex_pad_shared_v4[at_15 + 1] = x1_reindex_pad_shared_local_v4[at_14 + 1];
  }
  barrier();
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[0], x0_reindex_pad_shared_v4, 0, 10, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[1], x0_reindex_pad_shared_v4, 160, 10, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b_1[0], x1_reindex_pad_shared_v4, threadIdx_y * 4, 10, gl_CooperativeMatrixLayoutRowMajor);
  matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[0], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
  matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[1], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[0], x0_reindex_pad_shared_v4, 4, 10, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[1], x0_reindex_pad_shared_v4, 164, 10, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b_1[0], x1_reindex_pad_shared_v4, threadIdx_y * 4 + 160, 10, gl_CooperativeMatrixLayoutRowMajor);
  matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[0], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
  matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[1], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
  coopMatStore(matmul_sum_reindex_pad_shared_wmma_accumulator[0], matmul_sum_reindex_pad_shared_v4, threadIdx_y * 4, 8, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(matmul_sum_reindex_pad_shared_wmma_accumulator[1], matmul_sum_reindex_pad_shared_v4, threadIdx_y * 4 + 128, 8, gl_CooperativeMatrixLayoutRowMajor);
  const int cse_v11 = threadIdx_x & 7;
  const int cse_v19 = cse_v6 + (cse_v11 >> 2);
  barrier();
  if (cse_v19 < 3) {
    matmul_v4[threadIdx_y * 48 + (threadIdx_x >> 3) * 12 + blockIdx_x * 8 + cse_v11] = f16vec4(matmul_sum_reindex_pad_shared_v4[threadIdx_y * 32 + threadIdx_x]);
  }
  if (cse_v19 < 3) {
    matmul_v4[threadIdx_y * 48 + (threadIdx_x >> 3) * 12 + blockIdx_x * 8 + cse_v11 + 96] = f16vec4(matmul_sum_reindex_pad_shared_v4[threadIdx_y * 32 + threadIdx_x + 64]);
  }
  if ((cse_v19 < 3) && (threadIdx_y < 1)) {
    matmul_v4[threadIdx_y * 48 + (threadIdx_x >> 3) * 12 + blockIdx_x * 8 + cse_v11 + 192] = f16vec4(matmul_sum_reindex_pad_shared_v4[threadIdx_y * 32 + threadIdx_x + 128]);
  }
}
