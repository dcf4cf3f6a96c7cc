// How fast a board copies memory, and how long a launch of nothing takes: what kernels that read and write
// as much, or next to nothing, are held to.
//
// Layout   any grid; as read.hip: AT_ONCE runs of blockDim.x quads (16 bytes) a round, rounds apart by the
//          whole grid's. The best of several kernels and grids is the board's rate.
// Build    hipbook build bandwidth/copy.hip
// Traffic  16 * quads bytes read and as many written.

#include "../common/hip.h"

template <int AT_ONCE>
__device__ __forceinline__ void copy_all(const uint4* __restrict__ from, uint4* __restrict__ to,
                                         int64_t quads) {
  const int64_t threads = blockDim.x, step = threads * AT_ONCE * gridDim.x;
  for (int64_t at = threads * AT_ONCE * blockIdx.x + threadIdx.x; at < quads; at += step) {
    uint4 quad[AT_ONCE] = {};
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (at + i * threads < quads) {
        quad[i] = from[at + i * threads];
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (at + i * threads < quads) {
        to[at + i * threads] = quad[i];
      }
    }
  }
}

extern "C" __global__ void copy_1(const uint4* from, uint4* to, int64_t quads) {
  copy_all<1>(from, to, quads);
}
extern "C" __global__ void copy_4(const uint4* from, uint4* to, int64_t quads) {
  copy_all<4>(from, to, quads);
}
extern "C" __global__ void copy_8(const uint4* from, uint4* to, int64_t quads) {
  copy_all<8>(from, to, quads);
}
extern "C" __global__ void nothing() {}
