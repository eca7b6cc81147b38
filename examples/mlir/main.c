/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Quantizes two layers, runs the model of mlp.mlir on them, and prints a row of what comes out. */
#include <qmm/qmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model: its result first, which is the caller's to free; then its arguments. */
typedef void mlp(qmm_memref_f32_2d* y, const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* up,
                 const qmm_memref_i8_1d* down);
#ifdef LIBRARY
#include <dlfcn.h>
static mlp* model(void) {
  void* const library = dlopen(LIBRARY, RTLD_NOW);
  mlp* found = NULL;
  if (library != NULL) *(void**)&found = dlsym(library, "_mlir_ciface_mlp");
  if (found == NULL) fprintf(stderr, "%s\n", dlerror());
  return found;
}
#else
mlp _mlir_ciface_mlp;
static mlp* model(void) { return _mlir_ciface_mlp; }
#endif

static void* allocate(size_t size) {
  void* const memory = malloc(size);
  if (memory == NULL) {
    fprintf(stderr, "no memory for %zu bytes\n", size);
    exit(1);
  }
  return memory;
}

/* Packs a layer [n, k] of some weights; no bytes where that fails. */
static qmm_memref_i8_1d layer(int64_t n, int64_t k) {
  qmm_memref_i8_1d packed;
  memset(&packed, 0, sizeof packed);
  packed.strides[0] = 1;
  float* const w = allocate((size_t)(n * k) * sizeof(float));
  unsigned char* const codes = allocate((size_t)(n * k / 2));
  unsigned short* const scales = allocate((size_t)(n * k / 32) * 2);
  for (int64_t i = 0; i < n * k; ++i) w[i] = (float)(i * 7 % 23) / 23 - 0.5f;

  qmm_rhs_desc desc;
  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc;
  desc.n = n;
  desc.k = k;
  desc.group = 32;
  desc.bits = 4;
  desc.offset = QMM_SYMMETRIC;
  desc.scale_dtype = QMM_F16;
  qmm_weights weights;
  memset(&weights, 0, sizeof weights);
  weights.struct_size = sizeof weights;
  weights.codes = codes;
  weights.codes_stride = k / 2;
  weights.scales = scales;
  weights.scales_stride = k / 32;
  size_t size = 0;
  if (qmm_quantize(&desc, w, k, &weights) == QMM_OK && qmm_packed_size(&desc, &size) == QMM_OK) {
    packed.allocated = packed.aligned = allocate(size);
    if (qmm_pack(&desc, &weights, packed.aligned, size) == QMM_OK) packed.sizes[0] = (int64_t)size;
  }
  if (packed.sizes[0] == 0) fprintf(stderr, "%s\n", qmm_last_error());
  free(w);
  free(codes);
  free(scales);
  return packed;
}

int main(void) {
  enum { M = 3, K = 64 };
  float values[M * K];
  for (int i = 0; i < M * K; ++i) values[i] = (float)(i % 11) - 5;
  qmm_memref_f32_2d x = {values, values, 0, {M, K}, {K, 1}}, y;
  qmm_memref_i8_1d up = layer(128, K), down = layer(32, 128);
  mlp* const run = model();
  if (run == NULL || up.sizes[0] == 0 || down.sizes[0] == 0) return 1;

  run(&y, &x, &up, &down);
  printf("[%d, %d]: %g %g %g ...\n", (int)y.sizes[0], (int)y.sizes[1], y.aligned[0], y.aligned[1], y.aligned[2]);
  free(y.allocated);
  free(up.allocated);
  free(down.allocated);
  return 0;
}
