// Workgroups that meet in global memory: with and without an order.
#include <hip/hip_runtime.h>

extern "C" __global__ void rows(int* out, int stride) {  // rows of blockDim.x, `stride` apart
  out[blockIdx.x * stride + threadIdx.x] = blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void flags(int* out) {  // everybody stores the same value
  out[threadIdx.x] = 7;
}

extern "C" __global__ void bytes(unsigned char* out) {  // one byte a workgroup: neighbours in a word
  if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x + 1;
}

extern "C" __global__ void shift_left(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i + 1];
}

extern "C" __global__ void next_row(int* x) {  // reads what the next workgroup writes
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[i + blockDim.x] + 1;
}

extern "C" __global__ void count(unsigned* bins, int read) {
  atomicAdd(&bins[threadIdx.x & 3], 1u);
  if (read && blockIdx.x == 1 && threadIdx.x == 0) bins[4] = bins[0];
}

extern "C" __global__ void add_and_store(unsigned* x) {  // one workgroup adds, another overwrites
  if (blockIdx.x == 0)
    atomicAdd(x, 1u);
  else
    x[0] = 5;
}

// The last workgroup to arrive adds up what all have stored. early: takes its ticket before it stores.
template <bool FENCES>
__device__ void last_arrival(float* parts, int* ticket, float* out, int early) {
  __shared__ int last;
  int n = gridDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!early) parts[i] = threadIdx.x;
  if (FENCES) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ticket, 1) == n - 1;
  __syncthreads();
  if (early) parts[i] = threadIdx.x;
  if (!last) return;
  if (FENCES) __threadfence();
  float sum = 0;
  for (int k = 0; k < n; k++) sum += parts[k * blockDim.x + threadIdx.x];
  out[threadIdx.x] = sum;
  if (threadIdx.x == 0) ticket[0] = 0;  // for the next launch
}
extern "C" __global__ void last_adds(float* parts, int* ticket, float* out, int early) {
  last_arrival<true>(parts, ticket, out, early);
}
extern "C" __global__ void last_adds_unfenced(float* parts, int* ticket, float* out, int early) {
  last_arrival<false>(parts, ticket, out, early);
}

// Each workgroup waits for the one before it and adds to its value: a chain.
extern "C" __global__ void chain(int* values, int* ready, int wait) {
  int b = blockIdx.x;
  if (b && wait)
    while (!__hip_atomic_load(&ready[b - 1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) {
    }
  values[b * 32 + threadIdx.x] = (b ? values[(b - 1) * 32 + threadIdx.x] : 0) + 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) __hip_atomic_store(&ready[b], 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}

// Tickets of two counters: ordered through a third workgroup.
extern "C" __global__ void relay(int* data, int* first, int* second, int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    data[0] = 42;
    __threadfence();
    atomicAdd(first, 1);
  } else if (blockIdx.x == 1) {
    int seen = atomicAdd(first, 1);
    __threadfence();
    out[1] = seen;
    atomicAdd(second, 1);
  } else {
    int seen = atomicAdd(second, 1);
    __threadfence();
    out[0] = seen ? data[0] : -1;
  }
}
