// Board check: does this board execute machine code, and does it catch a kernel that misbehaves?
//
// What     out[i] = a chain of integer operations on x[i], exchanged with the mirrored work-item through
//          LDS; votes[w] = which lanes of wave w hold an odd value; sums[w] = the wave's sum of the low
//          byte of x, by shuffles. Every answer is exact, so a board agrees with numpy to the bit or is
//          wrong.
// Launch   grid (workgroups, 1, 1), block (128, 1, 1), n = 128 * workgroups.
// Build    HIPBOOK_BREAK selects one deliberate fault, so that a notebook can show it being caught:
//          0 none; 1 reads x one element past the end; 2 leaves out the barrier between LDS store and load;
//          3 leaves the last element of out unwritten.
#include <hip/hip_runtime.h>

#ifndef HIPBOOK_BREAK
#define HIPBOOK_BREAK 0
#endif

constexpr int kThreads = 128;

__device__ unsigned mix(unsigned v) {
  v ^= v >> 16;
  v *= 0x7feb352dU;
  v = (v << 13) | (v >> 19);
  return v + 0x9e3779b9U;
}

extern "C" __global__ __launch_bounds__(kThreads) void board_check(const unsigned* x, unsigned* out,
                                                                   unsigned long long* votes, float* sums,
                                                                   int n) {
  __shared__ unsigned exchange[kThreads];
  const int thread = threadIdx.x;
  const int i = blockIdx.x * kThreads + thread;
  const int read = HIPBOOK_BREAK == 1 ? i + 1 : i;
  const unsigned mine = x[read];
  exchange[thread] = mix(mine);
  if (HIPBOOK_BREAK != 2) __syncthreads();
  const unsigned mirrored = exchange[kThreads - 1 - thread];
  const unsigned result = mix(mirrored) ^ mine;
  if (HIPBOOK_BREAK != 3 || i + 1 < n) out[i] = result;

  const unsigned long long odd = __ballot(result & 1);
  float sum = static_cast<float>(mine & 0xffU);
  for (int step = HIPBOOK_WAVE / 2; step > 0; step /= 2) sum += __shfl_xor(sum, step);
  if (thread % HIPBOOK_WAVE == 0) {
    votes[i / HIPBOOK_WAVE] = odd;
    sums[i / HIPBOOK_WAVE] = sum;
  }
}
