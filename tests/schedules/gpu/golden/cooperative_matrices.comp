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
layout(std430, set = 0, binding = 1) readonly buffer x0_v4_block { uvec4 x0_v4[]; };
layout(std430, set = 0, binding = 2) readonly buffer x1_v4_block { uvec4 x1_v4[]; };
shared uvec4 shared_words[320];

void main() {
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
  const int threadIdx_y = int(gl_LocalInvocationID.y);
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> matmul_sum_reindex_pad_shared_wmma_accumulator[2];
  uvec4 x0_reindex_pad_shared_local_v4[2];
  uvec4 x1_reindex_pad_shared_local_v4[2];
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
    uvec4 t;
    if (threadIdx_y * 2 + cse_v2 + ax0_ax1_fused_0 * 4 < 5) {
      const uvec4 words = x0_v4[threadIdx_y * 96 + cse_v4 * 12 + cse_v5 + ax0_ax1_fused_0 * 192];
      t = words;
    }
    else {
      t = uvec4(uvec2(0u), uvec2(0u));
    }
    x0_reindex_pad_shared_local_v4[ax0_ax1_fused_0] = t;
  }
  const int cse_v6 = blockIdx_x * 2;
  const int cse_v17 = (cse_v5 >> 1) + cse_v6;
  [[unroll]]
  for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
    uvec4 t_1;
    if (cse_v17 < 3) {
      const uvec4 words_1 = x1_v4[threadIdx_y * 48 + cse_v4 * 6 + cse_v5 + blockIdx_x * 4 + ax0_ax1_fused_0_1 * 96];
      t_1 = words_1;
    }
    else {
      t_1 = uvec4(uvec2(0u), uvec2(0u));
    }
    x1_reindex_pad_shared_local_v4[ax0_ax1_fused_0_1] = t_1;
  }
  for (int ax3_0 = 0; ax3_0 < 2; ++ax3_0) {
    barrier();
    [[unroll]]
    for (int ax0_ax1_fused_0_2 = 0; ax0_ax1_fused_0_2 < 2; ++ax0_ax1_fused_0_2) {
      const uvec4 words_2 = x0_reindex_pad_shared_local_v4[ax0_ax1_fused_0_2];
      shared_words[threadIdx_y * 40 + cse_v4 * 5 + cse_v5 + ax0_ax1_fused_0_2 * 80] = words_2;
    }
    [[unroll]]
    for (int ax0_ax1_fused_0_3 = 0; ax0_ax1_fused_0_3 < 2; ++ax0_ax1_fused_0_3) {
      uvec4 t_2;
      if (threadIdx_y * 2 + cse_v2 + ax0_ax1_fused_0_3 * 4 < 5) {
        const uvec4 words_3 = x0_v4[threadIdx_y * 96 + cse_v4 * 12 + cse_v5 + ax3_0 * 4 + ax0_ax1_fused_0_3 * 192 + 4];
        t_2 = words_3;
      }
      else {
        t_2 = uvec4(uvec2(0u), uvec2(0u));
      }
      x0_reindex_pad_shared_local_v4[ax0_ax1_fused_0_3] = t_2;
    }
    [[unroll]]
    for (int ax0_ax1_fused_0_4 = 0; ax0_ax1_fused_0_4 < 2; ++ax0_ax1_fused_0_4) {
      const uvec4 words_4 = x1_reindex_pad_shared_local_v4[ax0_ax1_fused_0_4];
      shared_words[threadIdx_y * 40 + cse_v4 * 5 + cse_v5 + ax0_ax1_fused_0_4 * 80 + 160] = words_4;
    }
    [[unroll]]
    for (int ax0_ax1_fused_0_5 = 0; ax0_ax1_fused_0_5 < 2; ++ax0_ax1_fused_0_5) {
      uvec4 t_3;
      if (cse_v17 < 3) {
        const uvec4 words_5 = x1_v4[threadIdx_y * 48 + cse_v4 * 6 + cse_v5 + (ax3_0 * 192 + blockIdx_x * 4) + ax0_ax1_fused_0_5 * 96 + 192];
        t_3 = words_5;
      }
      else {
        t_3 = uvec4(uvec2(0u), uvec2(0u));
      }
      x1_reindex_pad_shared_local_v4[ax0_ax1_fused_0_5] = t_3;
    }
    barrier();
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[0], shared_words, 0, 5, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[1], shared_words, 80, 5, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b[0], shared_words, cse_v1 + 160, 5, gl_CooperativeMatrixLayoutRowMajor);
    matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[0], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
    matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[1], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[0], shared_words, 2, 5, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a[1], shared_words, 82, 5, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b[0], shared_words, cse_v1 + 240, 5, gl_CooperativeMatrixLayoutRowMajor);
    matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[0], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
    matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a[1], x1_reindex_pad_shared_wmma_matrix_b[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
  }
  barrier();
  [[unroll]]
  for (int ax0_ax1_fused_0_6 = 0; ax0_ax1_fused_0_6 < 2; ++ax0_ax1_fused_0_6) {
    const uvec4 words_6 = x0_reindex_pad_shared_local_v4[ax0_ax1_fused_0_6];
    shared_words[threadIdx_y * 40 + cse_v4 * 5 + cse_v5 + ax0_ax1_fused_0_6 * 80] = words_6;
  }
  [[unroll]]
  for (int ax0_ax1_fused_0_7 = 0; ax0_ax1_fused_0_7 < 2; ++ax0_ax1_fused_0_7) {
    const uvec4 words_7 = x1_reindex_pad_shared_local_v4[ax0_ax1_fused_0_7];
    shared_words[threadIdx_y * 40 + cse_v4 * 5 + cse_v5 + ax0_ax1_fused_0_7 * 80 + 160] = words_7;
  }
  barrier();
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[0], shared_words, 0, 5, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[1], shared_words, 80, 5, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b_1[0], shared_words, cse_v1 + 160, 5, gl_CooperativeMatrixLayoutRowMajor);
  matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[0], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
  matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[1], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[0], shared_words, 2, 5, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x0_reindex_pad_shared_wmma_matrix_a_1[1], shared_words, 82, 5, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(x1_reindex_pad_shared_wmma_matrix_b_1[0], shared_words, cse_v1 + 240, 5, gl_CooperativeMatrixLayoutRowMajor);
  matmul_sum_reindex_pad_shared_wmma_accumulator[0] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[0], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[0]);
  matmul_sum_reindex_pad_shared_wmma_accumulator[1] = coopMatMulAdd(x0_reindex_pad_shared_wmma_matrix_a_1[1], x1_reindex_pad_shared_wmma_matrix_b_1[0], matmul_sum_reindex_pad_shared_wmma_accumulator[1]);
  barrier();
  coopMatStore(matmul_sum_reindex_pad_shared_wmma_accumulator[0], shared_words, threadIdx_y * 4, 8, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(matmul_sum_reindex_pad_shared_wmma_accumulator[1], shared_words, threadIdx_y * 4 + 128, 8, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (int ax0_ax1_fused_0_8 = 0; ax0_ax1_fused_0_8 < 3; ++ax0_ax1_fused_0_8) {
    const int cse_v11 = threadIdx_x & 7;
    if (((cse_v11 >> 2) + cse_v6 < 3) && (threadIdx_y + ax0_ax1_fused_0_8 * 2 < 5)) {
      matmul_v4[threadIdx_y * 48 + (threadIdx_x >> 3) * 12 + cse_v11 + (ax0_ax1_fused_0_8 * 96 + blockIdx_x * 8)] = f16vec4(uintBitsToFloat(shared_words[threadIdx_y * 32 + threadIdx_x + ax0_ax1_fused_0_8 * 64]));
    }
  }
}
