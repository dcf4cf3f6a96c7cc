// Which kernel ran, in its own words.
#pragma once

#include "hip.h"

// Thread 0 of every workgroup stores the code of its arm, before anything can return. `witness` holds an
// int32 for each workgroup (x fastest), or is null.
__device__ __forceinline__ void store_witness(int* __restrict__ witness, int code) {
  if (witness != nullptr && threadIdx.x == 0) {
    witness[blockIdx.x + int64_t{gridDim.x} * (blockIdx.y + int64_t{gridDim.y} * blockIdx.z)] = code;
  }
}
