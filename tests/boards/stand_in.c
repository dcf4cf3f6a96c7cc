/* A stand-in for libcuda / libamdhip64: the module API's functions under either vendor's names. It keeps
   what it was given, fails on request, and hands launches to a function the test sets. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef AMD
#define NAME(cuda, hip) hip
#else
#define NAME(cuda, hip) cuda
#endif

typedef int (*launched_t)(uintptr_t function, const unsigned* extents, uintptr_t stream, void** params,
                          void** extra);

static launched_t launched;
static char calls[4096];
static const char* fail_name = "";
static int fail_code;
static char loaded[64], kernel[64];

void stand_in_reset(launched_t f, const char* failing, int code) {
  launched = f, fail_name = failing, fail_code = code, calls[0] = 0;
}
const char* stand_in_calls(void) {
  return calls;
}
const char* stand_in_loaded(void) {
  return loaded;
}
const char* stand_in_kernel(void) {
  return kernel;
}

static int called(const char* name) {
  strcat(strcat(calls, name), " ");
  return strcmp(name, fail_name) ? 0 : fail_code;
}

int NAME(cuInit, hipInit)(unsigned flags) {
  return called("init") ? fail_code : (int)flags;
}
int NAME(cuDeviceGetCount, hipGetDeviceCount)(int* count) {
  return *count = 3, called("device_count");
}
int NAME(cuModuleLoadData, hipModuleLoadData)(void** module, const void* image) {
  memcpy(loaded, image, 8);
  return *module = (void*)(uintptr_t)0xab00000001, called("module_load");
}
int NAME(cuModuleUnload, hipModuleUnload)(void* module) {
  return called("module_unload") ? fail_code : module != (void*)(uintptr_t)0xab00000001;
}
int NAME(cuModuleGetFunction, hipModuleGetFunction)(void** function, void* module, const char* name) {
  strncpy(kernel, name, sizeof kernel - 1);
  *function = (void*)(uintptr_t)0xcd00000002;
  return called("get_function") ? fail_code : module != (void*)(uintptr_t)0xab00000001;
}
int NAME(cuLaunchKernel, hipModuleLaunchKernel)(void* function, unsigned gx, unsigned gy, unsigned gz,
                                                unsigned bx, unsigned by, unsigned bz, unsigned lds,
                                                void* stream, void** params, void** extra) {
  const unsigned extents[7] = {gx, gy, gz, bx, by, bz, lds};
  if (called("launch")) return fail_code;
  return launched((uintptr_t)function, extents, (uintptr_t)stream, params, extra);
}
int NAME(cuGetErrorString, hipDrvGetErrorString)(int code, const char** text) {
  return *text = code == 77 ? "the words for 77" : NULL, code == 77 ? 0 : 1;
}
