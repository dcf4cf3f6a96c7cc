// What the arms of GDN post-conv share: the parameter list, the gates, and one head's norm by one thread.
//
// Build macros: HIPBOOK_T (f32 | bf16), HIPBOOK_ARM_<NAME>=1; HIPBOOK_DK and HIPBOOK_VECTOR (wave only).
#pragma once

#include "../common/witness.h"

using T = HIPBOOK_T;

// conv [tokens, 2 * num_k_heads * dk + num_v_heads * dv], a row q | k | v; a, b [tokens, num_v_heads]; their
// rows lie a stride apart, in elements. q, k [tokens, num_k_heads, dk], v [tokens, num_v_heads, dv], and
// g, beta [tokens, num_v_heads] are contiguous. Grids are on x alone and may be smaller than the work.
#define GDN_POST_CONV_PARAMETERS                                                                             \
  [[maybe_unused]] const T *__restrict__ conv, [[maybe_unused]] const T *__restrict__ a,                     \
      [[maybe_unused]] const T *__restrict__ b, [[maybe_unused]] const float *__restrict__ a_log,            \
      [[maybe_unused]] const float *__restrict__ dt_bias, [[maybe_unused]] T *__restrict__ q,                \
      [[maybe_unused]] T *__restrict__ k, [[maybe_unused]] T *__restrict__ v,                                \
      [[maybe_unused]] float *__restrict__ g, [[maybe_unused]] float *__restrict__ beta,                     \
      [[maybe_unused]] int *__restrict__ witness, [[maybe_unused]] int64_t conv_stride,                      \
      [[maybe_unused]] int64_t a_stride, [[maybe_unused]] int64_t b_stride, [[maybe_unused]] int tokens,     \
      [[maybe_unused]] int num_k_heads, [[maybe_unused]] int dk, [[maybe_unused]] int num_v_heads,           \
      [[maybe_unused]] int dv

// exp(a_log) * softplus(x), softplus(x) = x past 20 and log1p(exp(x)) up to there. Below -17 log1p(y) is y to
// f32's precision, and exp(x) is taken as two halves: near -100 it is subnormal and would have lost its
// digits before a large exp(a_log) brings it back.
__device__ __forceinline__ float decay_of(float a_log, float x) {
  const float rate = expf(a_log);
  if (x < -17.0f) {
    const float half = expf(0.5f * x);
    return rate * half * half;
  }
  return rate * (x > 20.0f ? x : log1pf(expf(x)));
}

__device__ __forceinline__ void gate(int64_t token, int head, GDN_POST_CONV_PARAMETERS) {
  const float x = to_f32(a[token * a_stride + head]) + dt_bias[head];
  g[token * num_v_heads + head] = -decay_of(a_log[head], x);
  beta[token * num_v_heads + head] = 1.0f / (1.0f + expf(-to_f32(b[token * b_stride + head])));
}

__device__ __forceinline__ float norm_factor(float squares) {
  return 1.0f / sqrtf(squares + 1e-6f);
}

__device__ __forceinline__ void normalise(const T* __restrict__ from, T* __restrict__ to, int count) {
  float squares = 0.0f;
  for (int i = 0; i < count; ++i) {
    const float value = to_f32(from[i]);
    squares += value * value;
  }
  const float factor = norm_factor(squares);
  for (int i = 0; i < count; ++i) {
    to[i] = from_f32<T>(to_f32(from[i]) * factor);
  }
}

// q and k of one head.
__device__ __forceinline__ void normalise_head(int64_t token, int head, GDN_POST_CONV_PARAMETERS) {
  const T* row = conv + token * conv_stride;
  const int64_t to = (token * num_k_heads + head) * dk;
  normalise(row + head * dk, q + to, dk);
  normalise(row + (num_k_heads + head) * dk, k + to, dk);
}

#define GDN_POST_CONV_ARGUMENTS                                                                              \
  conv, a, b, a_log, dt_bias, q, k, v, g, beta, witness, conv_stride, a_stride, b_stride, tokens,            \
      num_k_heads, dk, num_v_heads, dv
