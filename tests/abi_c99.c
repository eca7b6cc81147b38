/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * A C99 program that knows the public headers alone: quantizes weights, packs them, and multiplies by them in every
 * way. Also the program that tests/install builds against the installed package.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qmm/qmm.h"
#include "qmm/xla.h"

enum { M = 3, N = 37, K = 64, GROUP = 32, G = K / GROUP };

static float x[M * K], w[N * K], expected[M * N], y[M * N], bias[N];
static uint8_t codes[N * K / 2];
static float scales[N * G], mins[N * G];

static void check(qmm_status status, const char* what) {
  if (status == QMM_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, qmm_status_name(status), qmm_last_error());
  exit(1);
}

/* What this program has for the status of a custom call. */
struct XlaCustomCallStatus_ {
  char message[200];
};

static void set_failure(struct XlaCustomCallStatus_* status, const char* message, size_t size) {
  if (size < sizeof status->message) memcpy(status->message, message, size);
}

/* y against the f32 product; the tolerance covers codes of 4 and 8 bits. */
static void compare(const char* what) {
  float worst = 0;
  int i;
  for (i = 0; i < M * N; ++i) worst = fmaxf(worst, fabsf(y[i] - expected[i]));
  printf("%s: off by %g at most\n", what, (double)worst);
  if (!(worst < 1.0f)) exit(1);
  memset(y, 0xff, sizeof y);
}

int main(void) {
  static const char* const kinds[] = {"f32 lhs", "s8 lhs", "s8 lhs by token"};
  qmm_rhs_desc desc = {sizeof desc, N, K, GROUP, 4, QMM_MINS, QMM_F32, 0};
  qmm_weights weights = {sizeof weights, codes, K / 2, scales, G, mins, G};
  qmm_rhs rhs;
  qmm_matmul_args args;
  const int64_t ids[1] = {N - 1};
  const void* operands[2] = {x, NULL};
  struct XlaCustomCallStatus_ status;
  const char* kernel;
  size_t packed_size, lhs_size, scratch_size;
  void *packed, *lhs, *scratch;
  int i, j, k, kind;

  if (qmm_abi_version() != QMM_ABI_VERSION || strcmp(qmm_version(), QMM_VERSION) != 0) return 1;
  for (i = 0; i < M * K; ++i) x[i] = (float)(i * 7 % 23 - 11) / 11;
  for (i = 0; i < N * K; ++i) w[i] = (float)(i * 5 % 31 - 12) / 15;
  for (i = 0; i < N; ++i) bias[i] = (float)i;
  for (i = 0; i < M; ++i)
    for (j = 0; j < N; ++j) {
      expected[i * N + j] = bias[j];
      for (k = 0; k < K; ++k) expected[i * N + j] += x[i * K + k] * w[j * K + k];
    }

  check(qmm_quantize(&desc, w, K, &weights), "qmm_quantize");
  check(qmm_packed_size(&desc, &packed_size), "qmm_packed_size");
  packed = malloc(packed_size);
  check(qmm_pack(&desc, &weights, packed, packed_size), "qmm_pack");
  memset(&rhs, 0, sizeof rhs);
  rhs.struct_size = sizeof rhs;
  check(qmm_rhs_open(packed, packed_size, &rhs), "qmm_rhs_open");
  check(qmm_rhs_verify(&rhs), "qmm_rhs_verify");
  check(qmm_dequantize_rows(&rhs, ids, 1, y, K), "qmm_dequantize_rows");
  for (k = 0; k < K; ++k)
    if (!(fabsf(y[k] - w[(N - 1) * K + k]) < 0.1f)) return 1;

  for (kind = QMM_LHS_F32; kind <= QMM_LHS_S8_TOKEN; ++kind) {
    check(qmm_kernel_name(kind, &desc, M, &kernel), "qmm_kernel_name");
    printf("%s: %s\n", kinds[kind], kernel);
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.lhs_kind = kind;
    args.m = M;
    args.x = x;
    args.x_row_stride = K;
    args.rhs = &rhs;
    args.bias = bias;
    args.y = y;
    args.y_row_stride = N;
    check(qmm_matmul(&args), "qmm_matmul");
    compare("  packed weights");

    check(qmm_scratch_size(&args, &scratch_size), "qmm_scratch_size");
    scratch = malloc(scratch_size);
    args.scratch = scratch;
    args.scratch_size = scratch_size;
    check(qmm_matmul(&args), "qmm_matmul with scratch");
    compare("  the caller's scratch");
    args.scratch = NULL;
    free(scratch);

    args.rhs = NULL;
    args.desc = &desc;
    args.weights = &weights;
    check(qmm_matmul(&args), "qmm_matmul of canonical weights");
    compare("  canonical weights");

    if (kind == QMM_LHS_F32) continue;
    check(qmm_lhs_size(&args, &lhs_size), "qmm_lhs_size");
    lhs = malloc(lhs_size);
    check(qmm_quantize_lhs(&args, lhs, lhs_size), "qmm_quantize_lhs");
    args.x = NULL;
    args.lhs = lhs;
    args.lhs_size = lhs_size;
    check(qmm_matmul(&args), "qmm_matmul of a quantized lhs");
    compare("  lhs quantized before");
    free(lhs);
  }

  if (qmm_matmul(NULL) != QMM_INVALID_ARGUMENT) return 1;
  printf("an error: %s\n", qmm_last_error());
  memset(&status, 0, sizeof status);
  qmm_xla_set_status_setter(set_failure);
  qmm_xla_opaque_matmul_packed(y, operands, "hello", 5, &status);
  if (strcmp(status.message, qmm_last_error()) != 0) return 1;
  printf("an error of a custom call: %s\n", status.message);
  free(packed);
  return 0;
}
