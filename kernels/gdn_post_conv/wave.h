// wave: a wave a piece of work: one q or k head, one stretch of V, or the gates of as many heads as lanes.
//
// Layout   workgroups of up to 4 waves over tokens * (2 * num_k_heads + stretches + gates) pieces, a stretch
//          being WAVE * VECTOR elements of the V row.
// Build    HIPBOOK_DK is dk; HIPBOOK_VECTOR elements a load or store: as many as every row of conv, q, k and
//          v is aligned to, up to 16 bytes; it divides dk and the V row.
// Serves   any pointer aligned to its element, any dk up to 1024.
// Traffic  each element is read once, neighbouring lanes reading neighbouring vectors. No LDS, no barrier.
// Idea     all lanes share a norm, and meet by lane moves.
#pragma once

#include "common.h"

namespace wave {

constexpr int DK = HIPBOOK_DK, VECTOR = HIPBOOK_VECTOR;
constexpr int STRETCH = WAVE * VECTOR;

// A head's vectors are narrower where wide ones would leave lanes without one.
constexpr int head_vector() {
  int elements = VECTOR;
  while (elements > 1 && elements * WAVE > DK) {
    elements /= 2;
  }
  return elements;
}
constexpr int HEAD_VECTOR = head_vector(), HEAD_STRETCH = WAVE * HEAD_VECTOR;
constexpr int PARTS = (DK + HEAD_STRETCH - 1) / HEAD_STRETCH;  // vectors of a head a lane holds
static_assert(DK >= 1 && DK <= 1024, "wave serves dk from 1 to 1024");
static_assert(DK % VECTOR == 0, "vectors end with the head");

template <int N>
__device__ __forceinline__ void store(T* to, const Elements<T, N>& from) {
  if constexpr (Elements<T, N>::BYTES == 16) {
    *reinterpret_cast<uint4*>(to) = {from.word[0], from.word[1], from.word[2], from.word[3]};
  } else if constexpr (Elements<T, N>::BYTES == 8) {
    *reinterpret_cast<uint2*>(to) = {from.word[0], from.word[1]};
  } else if constexpr (Elements<T, N>::BYTES == 4) {
    *reinterpret_cast<uint32_t*>(to) = from.word[0];
  } else {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(from.word[0]);
  }
}

template <class E>  // a template, so that only the branch of the element's size is compiled
__device__ __forceinline__ void set_element(uint32_t* word, int i, E value) {
  if constexpr (sizeof(E) == 4) {
    word[i] = __float_as_uint(value);
  } else {
    const uint32_t bits = value.bits, pair = word[i / 2];
    word[i / 2] = i % 2 ? (pair & 0xffffu) | (bits << 16) : (pair & 0xffff0000u) | bits;
  }
}

// Element i times factor; i is a constant after unrolling.
template <int N>
__device__ __forceinline__ void scale_element(Elements<T, N>& vector, int i, float factor) {
  set_element(vector.word, i, from_f32<T>(vector.at(i) * factor));
}

__device__ __forceinline__ void normalise_by_wave(const T* __restrict__ from, T* __restrict__ to) {
  Elements<T, HEAD_VECTOR> part[PARTS] = {};
  float squares[1] = {};
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
    const int at = p * HEAD_STRETCH + lane_id() * HEAD_VECTOR;
    if (at < DK) {
      part[p].load(from + at);
    }
#pragma unroll
    for (int i = 0; i < HEAD_VECTOR; ++i) {
      squares[0] += part[p].at(i) * part[p].at(i);
    }
  }
  const float factor = norm_factor(wave_sums(squares));
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
#pragma unroll
    for (int i = 0; i < HEAD_VECTOR; ++i) {
      scale_element(part[p], i, factor);
    }
    const int at = p * HEAD_STRETCH + lane_id() * HEAD_VECTOR;
    if (at < DK) {
      store(to + at, part[p]);
    }
  }
}

}  // namespace wave

extern "C" __global__ __launch_bounds__(4 * WAVE) void gdn_post_conv_wave(GDN_POST_CONV_PARAMETERS) {
  using namespace wave;
  store_witness(witness, 0x30);
  const int waves = static_cast<int>(blockDim.x) / WAVE, lane = lane_id();
  const int width = num_v_heads * dv, stretches = (width + STRETCH - 1) / STRETCH;
  const int gates = (num_v_heads + WAVE - 1) / WAVE, pieces = 2 * num_k_heads + stretches + gates;
  const int64_t step = int64_t{gridDim.x} * waves;
  for (int64_t at = int64_t{blockIdx.x} * waves + uniform(static_cast<int>(threadIdx.x) / WAVE);
       at < int64_t{tokens} * pieces; at += step) {
    const int64_t token = at / pieces;
    const int piece = static_cast<int>(at - token * pieces), stretch = piece - 2 * num_k_heads;
    const T* row = conv + token * conv_stride;
    if (stretch < 0) {
      const bool is_k = piece >= num_k_heads;
      const int head = is_k ? piece - num_k_heads : piece;
      normalise_by_wave(row + int64_t{piece} * DK, (is_k ? k : q) + (token * num_k_heads + head) * DK);
    } else if (stretch < stretches) {
      const int first = stretch * STRETCH + lane * VECTOR;
      if (first < width) {
        Elements<T, VECTOR> vector;
        vector.load(row + 2 * num_k_heads * DK + first);
        store(v + token * width + first, vector);
      }
    } else {
      const int head = (stretch - stretches) * WAVE + lane;
      if (head < num_v_heads) {
        gate(token, head, GDN_POST_CONV_ARGUMENTS);
      }
    }
  }
}
