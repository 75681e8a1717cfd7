/* Loads a library and calls its function "kernel" as TVM does, with two vectors of 64 floats: the
 * second gets the results, which are printed. With the runtime's functions that code asks for, so
 * that it needs no TVM on the processor that it runs on.
 *
 * call_kernel LIBRARY VALUE: each element of the first vector is its number times VALUE. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/c_api.h>

enum { kLength = 64 };

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  fprintf(stderr, "%s:", kind);
  for (int32_t i = 0; i < count; ++i) fprintf(stderr, " %s", parts[i]);
  fputc('\n', stderr);
}

static DLTensor vector(float* data, int64_t* shape, int64_t* strides) {
  DLTensor tensor = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0};
  return tensor;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  TVMFFISafeCallType kernel = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_kernel");
  if (!kernel) return fprintf(stderr, "%s\n", dlerror()), 1;
  _Alignas(64) float in[kLength];
  _Alignas(64) float out[kLength];
  int64_t shape = kLength, stride = 1;
  for (int i = 0; i < kLength; ++i) in[i] = i * strtof(argv[2], NULL);
  DLTensor tensors[] = {vector(in, &shape, &stride), vector(out, &shape, &stride)};
  TVMFFIAny arguments[2] = {{0}}, result = {0};
  for (int i = 0; i < 2; ++i) {
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &tensors[i];
  }
  int failed = kernel(NULL, arguments, 2, &result);
  for (int i = 0; !failed && i < kLength; ++i) printf("%.9g\n", out[i]);
  return failed ? 1 : 0;
}
