// RMSNorm over a row: y = x / sqrt(mean(x^2) + eps) * weight.
//
// Layout   one workgroup of one wave a row; lane l has elements l, l + WAVE, ... Grids are on x alone.
// Serves   any width, any pointer aligned to its element.
// Traffic  x is read twice, neighbouring lanes reading neighbours.
#include "../../../kernels/common/witness.h"

using T = HIPBOOK_T;

extern "C" __global__ __launch_bounds__(WAVE) void rms_norm_wave(const T* __restrict__ x,
                                                                 const float* __restrict__ weight,
                                                                 T* __restrict__ y, int* __restrict__ witness,
                                                                 int64_t row_stride, int width, float eps) {
  store_witness(witness, 0x10);
  const T* from = x + blockIdx.x * row_stride;
  float squares[1] = {};
  for (int i = lane_id(); i < width; i += WAVE) {
    const float value = to_f32(from[i]);
    squares[0] += value * value;
  }
  const float factor = 1.0f / sqrtf(wave_sums(squares) / static_cast<float>(width) + eps);
  for (int i = lane_id(); i < width; i += WAVE) {
    y[int64_t{blockIdx.x} * width + i] = from_f32<T>(to_f32(from[i]) * factor * weight[i]);
  }
}
