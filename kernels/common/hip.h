// What differs between hipcc, clang's HIP and nvcc, and nothing else: the wave, moves across its lanes,
// the element types and vector loads of them, and the fast exponential.
//
// HIPBOOK_WAVE (lanes of a wave) comes from the build; nothing in kernels/ writes a width.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__) && !defined(__HIP__)
#define HIPBOOK_NVIDIA 1
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#define HIPBOOK_NVIDIA 0
#include <hip/hip_runtime.h>
#endif

#ifndef HIPBOOK_WAVE
#error "HIPBOOK_WAVE is not defined: build with hipbook.build, or pass the board's wave width"
#endif

constexpr int WAVE = HIPBOOK_WAVE;
constexpr float LOG2E = 1.44269504088896340736f;
constexpr float NEVER = -INFINITY;  // the running maximum before any key: exp2(NEVER - finite) is 0

// --- lanes ----------------------------------------------------------------------------------------

__device__ __forceinline__ int lane_id() {
  return static_cast<int>(threadIdx.x) % WAVE;
}

// The value of the first lane, for values that all lanes share: lets the compiler keep them, and the
// addresses made from them, in scalar registers.
__device__ __forceinline__ int uniform(int value) {
#if HIPBOOK_NVIDIA
  return value;
#else
  return __builtin_amdgcn_readfirstlane(value);
#endif
}

__device__ __forceinline__ float read_lane(float value, int lane) {
#if HIPBOOK_NVIDIA
  return __shfl_sync(0xffffffffu, value, lane);
#else
  return __uint_as_float(__builtin_amdgcn_readlane(__float_as_uint(value), lane));
#endif
}

// As read_lane, of a lane that may be another for every lane that asks.
__device__ __forceinline__ float shuffle(float value, int lane) {
#if HIPBOOK_NVIDIA
  return __shfl_sync(0xffffffffu, value, lane);
#else
  return __shfl(value, lane);
#endif
}

// The value of the lane whose number differs in the bits of MASK.
template <int MASK>
__device__ __forceinline__ float lane_xor(float value) {
#if HIPBOOK_NVIDIA
  return __shfl_xor_sync(0xffffffffu, value, MASK);
#elif defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
  const int bits = static_cast<int>(__float_as_uint(value));
  if constexpr (MASK < 16) {  // within a row of 16 lanes: a modifier of the instruction that uses it
    constexpr int row_xmask = 0x160;
    return __uint_as_float(__builtin_amdgcn_update_dpp(bits, bits, row_xmask + MASK, 0xf, 0xf, true));
  } else if constexpr (MASK == 16) {
    return __uint_as_float(__builtin_amdgcn_permlanex16(bits, bits, 0x76543210, 0xfedcba98, false, false));
  } else {
    return __shfl_xor(value, MASK);
  }
#else
  return __shfl_xor(value, MASK);
#endif
}

// Whether any lane says so.
__device__ __forceinline__ bool wave_any(bool said) {
#if HIPBOOK_NVIDIA
  return __any_sync(0xffffffffu, said);
#else
  return __builtin_amdgcn_ballot_w64(said) != 0;
#endif
}

template <int BIT = 1>
__device__ __forceinline__ float wave_max(float value) {
  if constexpr (BIT < WAVE) {
    return wave_max<BIT * 2>(fmaxf(value, lane_xor<BIT>(value)));
  } else {
    return value;
  }
}

// Sums over the wave of N values at once (N a power of two, at most WAVE): lane l gets the sum of
// value[l % N]. Each step halves the values: a lane keeps one of two and sends the other, so N values
// take about N moves, where N sums one by one would take N * log2(WAVE).
template <int N, int BIT = 1>
__device__ __forceinline__ float wave_sums(const float (&value)[N]) {
  if constexpr (N > 1) {
    const bool odd = lane_id() & BIT;
    float half[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float keep = odd ? value[2 * i + 1] : value[2 * i];
      const float send = odd ? value[2 * i] : value[2 * i + 1];
      half[i] = keep + lane_xor<BIT>(send);
    }
    return wave_sums<N / 2, BIT * 2>(half);
  } else if constexpr (BIT < WAVE) {
    const float sum[1] = {value[0] + lane_xor<BIT>(value[0])};
    return wave_sums<1, BIT * 2>(sum);
  } else {
    return value[0];
  }
}

// --- workgroups of one launch ---------------------------------------------------------------------

// Handing results from workgroup to workgroup: every thread stores and calls publish(); then a barrier;
// then one thread calls arrive(). A workgroup that arrive() tells to be the last calls observe() in every
// thread after another barrier, and may then read what the others stored.
__device__ __forceinline__ void publish() {
#if !HIPBOOK_NVIDIA  // there, barrier and arrive() order the stores of the whole workgroup
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
}

// Adds 1 and returns what was there before.
__device__ __forceinline__ int arrive(int* counter) {
#if HIPBOOK_NVIDIA
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
#else
  return __hip_atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
#endif
}

__device__ __forceinline__ void observe() {
#if !HIPBOOK_NVIDIA
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
#endif
}

// --- arithmetic -----------------------------------------------------------------------------------

// 2 to the x: the hardware's instruction (about 1 ulp; results below the normal range become 0).
__device__ __forceinline__ float exp2_fast(float x) {
#if HIPBOOK_NVIDIA
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return __builtin_amdgcn_exp2f(x);
#endif
}

// 1 / x by the hardware's instruction (about 1 ulp), for x of ordinary size.
__device__ __forceinline__ float reciprocal_fast(float x) {
#if HIPBOOK_NVIDIA
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return __builtin_amdgcn_rcpf(x);
#endif
}

// --- elements -------------------------------------------------------------------------------------

// Storage only: arithmetic is in f32. bf16 is the upper half of an f32.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
using f32 = float;

__device__ __forceinline__ float to_f32(float value) {
  return value;
}

__device__ __forceinline__ float to_f32(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ float to_f32(f16 value) {
#if HIPBOOK_NVIDIA
  return __half2float(__ushort_as_half(value.bits));
#else
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
#endif
}

// f32 to an element, rounded once to nearest even; NaN stays NaN.
template <class T>
__device__ __forceinline__ T from_f32(float value);

template <>
__device__ __forceinline__ float from_f32<float>(float value) {
  return value;
}

template <>
__device__ __forceinline__ bf16 from_f32<bf16>(float value) {
  const uint32_t bits = __float_as_uint(value);
  if (value != value) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  }
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <>
__device__ __forceinline__ f16 from_f32<f16>(float value) {
#if HIPBOOK_NVIDIA
  return {__half_as_ushort(__float2half_rn(value))};
#else
  return {__builtin_bit_cast(uint16_t, static_cast<_Float16>(value))};
#endif
}

// N neighbouring elements (a power of two) as they lie in memory. `load` needs an address aligned to
// min(16, N * sizeof(T)) bytes and reads each byte once, in loads as wide as that.
template <class T, int N>
struct Elements {
  static constexpr int BYTES = N * static_cast<int>(sizeof(T));
  static constexpr int WORDS = BYTES < 4 ? 1 : BYTES / 4;
  uint32_t word[WORDS];

  __device__ __forceinline__ void load(const T* from) {
    if constexpr (BYTES >= 16) {
#pragma unroll
      for (int i = 0; i < BYTES / 16; ++i) {
        const uint4 quad = reinterpret_cast<const uint4*>(from)[i];
        word[4 * i] = quad.x;
        word[4 * i + 1] = quad.y;
        word[4 * i + 2] = quad.z;
        word[4 * i + 3] = quad.w;
      }
    } else if constexpr (BYTES == 8) {
      const uint2 pair = *reinterpret_cast<const uint2*>(from);
      word[0] = pair.x;
      word[1] = pair.y;
    } else if constexpr (BYTES == 4) {
      word[0] = *reinterpret_cast<const uint32_t*>(from);
    } else {
      word[0] = *reinterpret_cast<const uint16_t*>(from);
    }
  }

  // load, for what is read once and is larger than the caches: on NVIDIA it takes no place in the first
  // one (reading 4 GiB on an H200 goes from 4.0 to 4.7 TB/s).
  __device__ __forceinline__ void load_once(const T* from) {
#if HIPBOOK_NVIDIA
    if constexpr (BYTES >= 16) {
#pragma unroll
      for (int i = 0; i < BYTES / 16; ++i) {
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(word[4 * i]), "=r"(word[4 * i + 1]), "=r"(word[4 * i + 2]), "=r"(word[4 * i + 3])
                     : "l"(reinterpret_cast<const uint4*>(from) + i));
      }
      return;
    }
#endif
    load(from);
  }

  // Element i in f32; i must be a constant after unrolling, or the words move to scratch memory.
  __device__ __forceinline__ float at(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(word[i]);
    } else {
      const uint32_t pair = word[i / 2];
      return to_f32(T{static_cast<uint16_t>(i % 2 ? pair >> 16 : pair & 0xffff)});
    }
  }
};
