// How fast a board reads memory: the bound that every memory-bound figure is held to.
//
// Layout   any grid; a workgroup reads AT_ONCE runs of blockDim.x quads (16 bytes) a round, rounds apart by
//          the whole grid's. The best of several kernels and grids is the board's rate.
// Build    hipbook build bandwidth/read.hip gfx1200
// Check    the data's words are combined by xor, and `sink` gets one store when they come out as a value
//          that they do not: the loads cannot be left out, and nothing is written.

#include "../common/hip.h"

template <int AT_ONCE>
__device__ __forceinline__ void read_all(const uint4* __restrict__ data, int64_t quads, int* sink) {
  using Quad = Elements<float, 4>;
  const int64_t threads = blockDim.x, step = threads * AT_ONCE * gridDim.x;
  uint32_t seen = 0;
  for (int64_t at = threads * AT_ONCE * blockIdx.x + threadIdx.x; at < quads; at += step) {
    Quad quad[AT_ONCE] = {};
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (at + i * threads < quads) {
        quad[i].load_once(reinterpret_cast<const float*>(data + at + i * threads));
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      seen ^= quad[i].word[0] ^ quad[i].word[1] ^ quad[i].word[2] ^ quad[i].word[3];
    }
  }
  if (seen == 0x9e3779b9u) {
    *sink = static_cast<int>(seen);
  }
}

extern "C" __global__ void read_2(const uint4* data, int64_t quads, int* sink) {
  read_all<2>(data, quads, sink);
}
extern "C" __global__ void read_4(const uint4* data, int64_t quads, int* sink) {
  read_all<4>(data, quads, sink);
}
extern "C" __global__ void read_8(const uint4* data, int64_t quads, int* sink) {
  read_all<8>(data, quads, sink);
}
