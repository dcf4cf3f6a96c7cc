// Small kernels with one fault each, and their faultless kin.
#include <hip/hip_runtime.h>

extern "C" __global__ void copy(const float* in, float* out, int n, int read_at, int write_at) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i + write_at] = in[i + read_at];
}

extern "C" __global__ void add_into(float* x, float v) {
  x[threadIdx.x] += v;
}

extern "C" __global__ void neighbour(const int* in, int* out, int barrier, int slots) {
  __shared__ int s[256];
  int t = threadIdx.x;
  if (t < slots) s[t] = in[t];
  if (barrier) __syncthreads();
  out[t] = s[(t + 32) % blockDim.x];
}

extern "C" __global__ void write_after_read(int* out, int barrier) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  int v = s[t ^ 32];
  if (barrier) __syncthreads();
  s[t] = v + 1;
  __syncthreads();
  out[t] = s[t];
}

extern "C" __global__ void write_twice(int* out, int same) {
  __shared__ int s[4];
  s[0] = same ? 7 : threadIdx.x / 32;
  __syncthreads();
  out[threadIdx.x] = s[0];
}

extern "C" __global__ void halves(unsigned* out) {  // two waves write the two halves of one word
  __shared__ unsigned short s[2];
  if ((threadIdx.x & 31) == 0) s[threadIdx.x / 32] = threadIdx.x + 1;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = s[0] | s[1] << 16;
}

extern "C" __global__ void many_epochs(int* out, int rounds) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;
  for (int r = 0; r < rounds; r++) {
    __syncthreads();
    int v = s[(t + 1) % 64];
    __syncthreads();
    s[t] = v;
  }
  __syncthreads();
  out[t] = s[t];
}

extern "C" __global__ void vote(unsigned* counts) {  // LDS atomics of several waves, no race
  __shared__ unsigned s[2];
  if (threadIdx.x < 2) s[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&s[threadIdx.x & 1], 1u);
  __syncthreads();
  if (threadIdx.x < 2) counts[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void barrier_in_branch(int* out, int lanes, int waves) {
  if ((threadIdx.x & 31) < lanes && threadIdx.x / 32 < waves) {
    __builtin_amdgcn_s_barrier();
    out[threadIdx.x] = 1;
  }
  out[threadIdx.x + 64] = 2;
}

extern "C" __global__ void spin(const volatile int* flag, int* out) {
  while (!*flag) {
  }
  out[0] = 1;
}

extern "C" __global__ void where(int* out) {  // one work-item a row: its place in the grid
  int g = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int* row = out + 12 * (g * blockDim.x * blockDim.y * blockDim.z + t);
  row[0] = blockIdx.x, row[1] = blockIdx.y, row[2] = blockIdx.z;
  row[3] = threadIdx.x, row[4] = threadIdx.y, row[5] = threadIdx.z;
  row[6] = gridDim.x, row[7] = gridDim.y, row[8] = gridDim.z;
  row[9] = blockDim.x, row[10] = blockDim.y, row[11] = blockDim.z;
}

extern "C" __global__ void dynamic_lds(int* out) {
  extern __shared__ int d[];
  d[threadIdx.x] = threadIdx.x * 3;
  __syncthreads();
  out[threadIdx.x] = d[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void gather(const int* table, const long* index, int* out) {
  out[threadIdx.x] = table[index[threadIdx.x]];
}

extern "C" __global__ void strided_lds(int* out, int stride) {
  __shared__ int s[1024];
  for (int i = threadIdx.x; i < 1024; i += 32) s[i] = i;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x * stride % 1024];
}

extern "C" __global__ void ticket(int* counter, int* order) {
  if (threadIdx.x == 0) order[atomicAdd(counter, 1)] = blockIdx.x;
}

extern "C" __global__ void histogram(const int* in, int* bins) {
  atomicAdd(&bins[in[blockIdx.x * blockDim.x + threadIdx.x] & 15], 1);
}

extern "C" __global__ void last_writer(int* out) {  // schedule-dependent, on purpose
  __shared__ int s[1];
  s[0] = threadIdx.x / 32;
  __syncthreads();
  out[0] = s[0];
}

__device__ __attribute__((noinline)) int twice(int x) {
  return x + x + 1;
}
extern "C" __global__ void calls(int* out, int n) {
  int (*f)(int) = twice;
  out[threadIdx.x] = n > 100 ? 0 : f(twice(threadIdx.x));
}

__constant__ int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
extern "C" __global__ void constants(int* out) {
  out[threadIdx.x] = primes[threadIdx.x & 7];
}

extern "C" __global__ void spills(const int* in, int* out, int n) {  // a private array indexed at run time
  int a[40];
  for (int i = 0; i < 40; i++) a[i] = in[i] + threadIdx.x;
  for (int i = 0; i < n; i++) a[in[i] % 40] += i;
  out[threadIdx.x] = a[n % 40];
}

extern "C" __global__ void second_wave_writes(int* out, int barrier) {  // what the first wave has read
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  int v = s[t ^ 32];
  if (barrier) __syncthreads();
  if (t >= 32) s[t] = v;
  __syncthreads();
  out[t] = s[t];
}

extern "C" __global__ void long_ago(int* out, int rounds) {  // one wave touches a word, much later the other
  __shared__ int s[1];
  if (threadIdx.x == 0) s[0] = 1;
  for (int r = 0; r < rounds; r++) __syncthreads();
  if (threadIdx.x == 32) s[0] = 2;
  __syncthreads();
  out[threadIdx.x] = s[0];
}

extern "C" __global__ void traps(const int* in) {  // its last instruction is the trap
  if (in[threadIdx.x] != 3) __builtin_trap();
}

__device__ __attribute__((noinline)) int peek(const int* in, long at) {
  return in[at];
}
extern "C" __global__ void peeks(const int* in, int* out, long at) {
  int (*f)(const int*, long) = peek;
  out[threadIdx.x] = f(in, at + threadIdx.x);
}

extern "C" __global__ void private_array(const int* in, int* out, int filled, int read) {
  int a[40];
  for (int i = 0; i < filled; i++) a[in[i]] = in[i] + threadIdx.x;
  out[threadIdx.x] = a[in[read]];
}

extern "C" __global__ void add_at(char* x, int at) {
  atomicAdd((int*)(x + at), 1);
}

extern "C" __global__ void far_shared(int* out, int at) {  // LDS of 64 words
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x + at];
}

extern "C" __global__ void uncovered(int* out) {  // an instruction that is not emulated, after a store
  out[0] = 1;
  asm volatile("v_movrels_b32 v1, v2" ::: "v1");
  out[1] = 2;
}
