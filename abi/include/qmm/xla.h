/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * libqmm for XLA's CPU client: custom calls.
 *
 * The targets are the entry points for compiled code of qmm.h, under their names and with their arguments:
 *
 *     target                operands                              attributes          result
 *     "qmm_matmul_packed"   x, packed                             lhs                 y  [..., n]
 *     "qmm_matmul_grouped"  x, codes, scales, zeros, mins         bits, group, lhs    y  [..., n]
 *     "qmm_rows_packed"     ids, packed                                               y  [..., k]
 *
 *     x       f32 [..., k], rank 1 or more; in y the last extent alone differs
 *     packed  u8 [bytes]: all bytes of packed weights, W[n,k]
 *     codes   u8 (8 bits: or s8) [n, ceil(k*bits/8)]
 *     scales  f32, f16 or bf16 [n, G], G = ceil(k / group)
 *     zeros   s8 (4 bits: or u8) [n, G]; where there are none, the first extent is 0
 *     mins    of the dtype of the scales [n, G]; where there are none, the first extent is 0
 *     ids     s64 [...], each in 0 .. n-1
 *     y       f32
 *     bits, group   signed integers of 32 or 64 bits
 *     lhs     a string: "f32", "s8" or "s8_token"; left out, "f32"
 *
 * All are dense and row-major, as XLA's default layouts are. A call computes the bits that qmm_matmul and
 * qmm_dequantize_rows compute, writes y only, has no side effects and may be dropped, repeated or run beside others.
 * Its threads are those of the process default (qmm_set_num_threads), not XLA's.
 *
 * Each target has a handler of either kind. In StableHLO, `api_version` says which one is meant, and both may be
 * registered, since XLA keeps them apart:
 *   api_version = 4  typed (XLA's FFI): attributes in backend_config, shapes and dtypes checked against the operands
 *
 *     %y = stablehlo.custom_call @qmm_matmul_packed(%x, %packed) {
 *       api_version = 4 : i32, backend_config = {lhs = "s8"}
 *     } : (tensor<5x64xf32>, tensor<1408xui8>) -> tensor<5x32xf32>
 *
 *   api_version = 3  untyped: backend_config is a string, the bytes of a qmm_xla_descriptor
 */
#ifndef QMM_XLA_H
#define QMM_XLA_H

#include <qmm/qmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- typed handlers ----------------------------------------------------------------------------------------- */

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/**
 * Handlers for XLA's FFI, API version 0.3 or later of major version 0, stage "execute". What does not fit (rank, dtype,
 * extents, attributes, packed weights) comes back as an XLA_FFI_Error: INVALID_ARGUMENT, UNIMPLEMENTED or
 * RESOURCE_EXHAUSTED with the sentence of qmm_last_error(); then nothing is written. A call frame of another version,
 * of which not even the way to carry an error is known, reaches the handler of qmm_set_error_handler. From any number
 * of threads at once.
 */
QMM_API struct XLA_FFI_Error* qmm_xla_ffi_matmul_packed(struct XLA_FFI_CallFrame* frame);
QMM_API struct XLA_FFI_Error* qmm_xla_ffi_matmul_grouped(struct XLA_FFI_CallFrame* frame);
QMM_API struct XLA_FFI_Error* qmm_xla_ffi_rows_packed(struct XLA_FFI_CallFrame* frame);

/* ---- untyped handlers --------------------------------------------------------------------------------------- */

#define QMM_XLA_DESCRIPTOR_VERSION 1

/**
 * The opaque bytes of an untyped call: these, little-endian, and no others. What a target has no use for is 0:
 * packed weights know their bits, group, offset and scale_dtype.
 */
typedef struct qmm_xla_descriptor {
  uint32_t version; /* QMM_XLA_DESCRIPTOR_VERSION */
  uint32_t size;    /* of the descriptor in bytes: 64 */
  int32_t lhs_kind; /* qmm_matmul_*: QMM_LHS_* */
  int32_t bits;     /* qmm_matmul_grouped: 4 or 8 */
  int32_t offset;   /* qmm_matmul_grouped: QMM_SYMMETRIC, QMM_ZEROS or QMM_MINS; says which of zeros and mins is read */
  int32_t scale_dtype; /* qmm_matmul_grouped: QMM_F32, QMM_F16 or QMM_BF16 */
  int64_t m;           /* rows of x and y, or ids: their extents but for the last of x and y multiplied */
  int64_t n;           /* qmm_matmul_*: rows of W */
  int64_t k;           /* columns of W */
  int64_t group;       /* qmm_matmul_grouped */
  int64_t packed_size; /* qmm_*_packed: bytes of packed */
} qmm_xla_descriptor;

struct XlaCustomCallStatus_;

/** Makes a status a failure with a message of `size` bytes, which it copies: XlaCustomCallStatusSetFailure of XLA. */
typedef void qmm_xla_status_setter(struct XlaCustomCallStatus_* status, const char* message, size_t size);

/**
 * Tells how untyped calls of this process fail. What a status is, XLA alone knows, and its shared libraries need not
 * export their setter: whoever registers the handlers passes it. It is called from the thread of the call, from any
 * number of threads at once. nullptr, the default: none. Takes effect for calls that fail later; from any thread.
 */
QMM_API void qmm_xla_set_status_setter(qmm_xla_status_setter* setter);

/**
 * Handlers of XLA's custom-call API version 3 (API_VERSION_STATUS_RETURNING_UNIFIED). Such a call tells neither shapes
 * nor dtypes: operands must have the extents that the descriptor gives, ids are s64. A descriptor that does not fit
 * itself, its target or the packed weights makes the call fail: nothing is written, and `status` gets the sentence.
 *
 * Where no setter was given, or `status` is a null pointer, the sentence reaches the handler of qmm_set_error_handler
 * instead, which aborts unless another one is set. From any number of threads at once.
 * @param out     y
 * @param in      the operands, in the order of the table above, of which an absent one may be any pointer
 */
QMM_API void qmm_xla_opaque_matmul_packed(void* out, const void** in, const char* opaque, size_t opaque_len,
                                          struct XlaCustomCallStatus_* status);
QMM_API void qmm_xla_opaque_matmul_grouped(void* out, const void** in, const char* opaque, size_t opaque_len,
                                           struct XlaCustomCallStatus_* status);
QMM_API void qmm_xla_opaque_rows_packed(void* out, const void** in, const char* opaque, size_t opaque_len,
                                        struct XlaCustomCallStatus_* status);

#ifdef __cplusplus
}
#endif

#endif /* QMM_XLA_H */
