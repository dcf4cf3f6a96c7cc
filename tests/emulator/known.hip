// Small programs with known answers: compared with the host.
#include <hip/hip_runtime.h>

extern "C" __global__ void softmax(const float* in, float* out, int n) {  // a row a workgroup
  __shared__ float part[256];
  const float* row = in + blockIdx.x * n;
  float top = -__builtin_inff();
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, row[i]);
  part[threadIdx.x] = top;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]);
    __syncthreads();
  }
  top = part[0];
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - top);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  sum = part[0];
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = expf(row[i] - top) / sum;
}

extern "C" __global__ void divide(const float* a, const float* b, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] / b[i];
}
extern "C" __global__ void divide_doubles(const double* a, const double* b, double* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] / b[i];
}

extern "C" __global__ void functions(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = expf(x[i]);
  out[n + i] = logf(fabsf(x[i]));
  out[2 * n + i] = sqrtf(fabsf(x[i]));
  out[3 * n + i] = tanhf(x[i]);
}

// add, multiply, multiply high, divide, remainder, shift, signed divide
extern "C" __global__ void wide(const unsigned long* a, const unsigned long* b, unsigned long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long x = a[i], y = b[i];
  out[i] = x + y;
  out[n + i] = x * y;
  out[2 * n + i] = __umul64hi(x, y);
  out[3 * n + i] = y ? x / y : 0;
  out[4 * n + i] = y ? x % y : 0;
  out[5 * n + i] = x << (y & 63);
  out[6 * n + i] = (unsigned long)((long)x >> (y & 63));
  out[7 * n + i] = y && !(x == 1ul << 63 && y == ~0ul) ? (unsigned long)((long)x / (long)y) : 0;
}

extern "C" __global__ void sort(int* x) {  // a bitonic network over 256 values in LDS
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      int other = t ^ j;
      if (other > t) {
        int a = s[t], b = s[other];
        if ((a > b) == ((t & k) == 0)) s[t] = b, s[other] = a;
      }
    }
  __syncthreads();
  x[blockIdx.x * 256 + t] = s[t];
}
