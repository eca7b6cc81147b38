/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * libqmm: matmul with 4-bit and 8-bit weights on CPUs.
 *
 *     Y[M,N] = X[M,K] * W[N,K]^T (+ bias[N])
 *
 * X is the lhs (activations), W the rhs (weights). Weights are stored as integer codes with one scale per `group`
 * consecutive k:
 *
 *     QMM_SYMMETRIC  w = (code - 8) * scale  (4 bits),  code * scale  (8 bits)
 *     QMM_ZEROS      w = (code - zero) * scale          zero: an integer per group
 *     QMM_MINS       w = code * scale + min             min: a float per group
 *
 * 4-bit codes are unsigned, 0..15; 8-bit codes are signed, -128..127.
 *
 * The result is a function of the inputs alone: the same bits on every CPU, for every thread count, batch size and
 * kernel (the payload and sign of a NaN aside).
 *
 * Conventions of every function here
 *   Errors    A function that can fail returns a qmm_status. On failure nothing is written to any output, and
 *             qmm_last_error() holds a sentence with the numbers, for this thread.
 *   Strides   int64_t, in elements of the array they belong to, never negative (checked even where nothing is read).
 *   Alignment Any address works that the element type allows; packed weights at a multiple of 64 are fastest.
 *   Threads   Every function may be called from any number of threads at once. What is passed as const is only read.
 *             The process-wide settings (qmm_set_*) are atomic, and calls already running keep the old value.
 *   Structs   Start with `struct_size`: zero the struct, then set it to sizeof(the struct). Later versions only append
 *             fields; one that is set but that this version does not know is refused with QMM_UNSUPPORTED.
 *   Floating  Every call computes with round-to-nearest and with denormals, and restores the caller's environment.
 */
#ifndef QMM_QMM_H
#define QMM_QMM_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(QMM_BUILDING)
#define QMM_API __declspec(dllexport)
#elif defined(_WIN32)
#define QMM_API
#else
#define QMM_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version and status ------------------------------------------------------------------------------------- */

#define QMM_ABI_VERSION 1
#define QMM_VERSION "0.1.0"

typedef int32_t qmm_status;
enum {
  QMM_OK = 0,
  QMM_INVALID_ARGUMENT = 1, /* a null pointer, a shape, stride or group that does not fit, overlapping X and Y ... */
  QMM_INVALID_PACKED = 2,   /* packed weights that are cut off, damaged, or of another version or byte order */
  QMM_UNSUPPORTED = 3,      /* a valid request that this version does not implement */
  QMM_OUT_OF_MEMORY = 4
};

/** Returns QMM_ABI_VERSION of the library that is linked. */
QMM_API int32_t qmm_abi_version(void);

/** Returns QMM_VERSION of the library that is linked, a static string. */
QMM_API const char* qmm_version(void);

/** Returns the name of `status` ("QMM_OK" ...), a static string; "unknown qmm_status" for any other number. */
QMM_API const char* qmm_status_name(qmm_status status);

/** Returns the sentence of this thread's last failed call, "" if none failed. Valid until the next failure here. */
QMM_API const char* qmm_last_error(void);

/* ---- weights ------------------------------------------------------------------------------------------------ */

enum { QMM_F32 = 0, QMM_F16 = 1, QMM_BF16 = 2 };                /* dtypes */
enum { QMM_SYMMETRIC = 0, QMM_ZEROS = 1, QMM_MINS = 2 };        /* what a code is relative to */
enum { QMM_LHS_F32 = 0, QMM_LHS_S8 = 1, QMM_LHS_S8_TOKEN = 2 }; /* how the lhs meets the codes: see qmm_matmul */

/** The shape and format of a weight matrix W[n,k]. */
typedef struct qmm_rhs_desc {
  size_t struct_size;
  int64_t n;           /* rows of W, columns of Y; >= 0 */
  int64_t k;           /* columns of W and X; >= 0 */
  int64_t group;       /* k per scale: a multiple of 8 below k (which need not divide by it), or k: per channel */
  int32_t bits;        /* 4 or 8 */
  int32_t offset;      /* QMM_SYMMETRIC, QMM_ZEROS or QMM_MINS */
  int32_t scale_dtype; /* of scales and mins: QMM_F32, QMM_F16 or QMM_BF16 */
  int32_t reserved;    /* 0 */
} qmm_rhs_desc;

/**
 * Weights in canonical form: plain row-major arrays. G = ceil(k / group).
 * Functions that take canonical weights as an input only read them.
 */
typedef struct qmm_weights {
  size_t struct_size;
  void* codes;            /* [n, ceil(k*bits/8)] bytes; 4 bits: two codes a byte, the even k in the low nibble */
  int64_t codes_stride;   /* bytes from row to row */
  void* scales;           /* [n, G] of desc.scale_dtype */
  int64_t scales_stride;  /* elements */
  void* offsets;          /* QMM_ZEROS: int8_t [n, G], 0..16 at 4 bits; QMM_MINS: [n, G] of desc.scale_dtype; or NULL */
  int64_t offsets_stride; /* elements */
} qmm_weights;

/**
 * Packed weights, opened: a small value. Made by qmm_rhs_open (desc and its struct_size too); refers to the caller's
 * bytes and owns nothing. A copy is as good.
 */
typedef struct qmm_rhs {
  size_t struct_size;
  const void* packed;
  size_t packed_size;
  int64_t reserved[4];
  qmm_rhs_desc desc; /* what the weights are; last, so that it can grow */
} qmm_rhs;

/**
 * Quantizes f32 weights by round-to-nearest into canonical form. Per group, with lo = min(w, 0) and hi = max(w, 0), for
 * QMM_MINS the plain extremes, and B = 0 at 4 bits, 128 at 8:
 *   QMM_SYMMETRIC  scale = max(-lo, hi) / (4 bits: 7, 8 bits: 127);  code = round(w / scale) + (4 bits: 8, 8 bits: 0)
 *   QMM_ZEROS      scale = (hi - lo) / (2^bits - 1);  zero = round(-lo / scale) - B;  code = round(w / scale) + zero
 *   QMM_MINS       scale = (hi - lo) / (2^bits - 1);  min = lo + B * scale;  code = round((w - min) / scale)
 *
 * The scale, and then the min, are rounded to scale_dtype before they are used; round is half to even; codes are
 * clamped to their range. Where the scale rounds to 0 (a group of zeros, or too small for scale_dtype), codes stand for
 * 0, or for min. QMM_INVALID_ARGUMENT for weights that are not finite and scales or mins too large for scale_dtype.
 * @param w         [n, k] f32, `w_stride` elements from row to row (>= k)
 * @param weights   arrays to write, sizes as in qmm_weights
 */
QMM_API qmm_status qmm_quantize(const qmm_rhs_desc* desc, const float* w, int64_t w_stride, const qmm_weights* weights);

/** Writes the number of bytes that qmm_pack needs for `desc` to `*size`. */
QMM_API qmm_status qmm_packed_size(const qmm_rhs_desc* desc, size_t* size);

/**
 * Packs canonical weights, losslessly, into the one layout that every CPU reads (runtime/layout.h describes it).
 * The bytes are the same whatever machine wrote them; they may be written to a file and mapped anywhere.
 * @param packed       `packed_size` bytes to write, at least qmm_packed_size
 */
QMM_API qmm_status qmm_pack(const qmm_rhs_desc* desc, const qmm_weights* weights, void* packed, size_t packed_size);

/** Unpacks opened weights to canonical form, losslessly; unused bits of the last byte of a row of codes are 0. */
QMM_API qmm_status qmm_unpack(const qmm_rhs* rhs, const qmm_weights* weights);

/**
 * Opens packed weights: checks magic, version, byte order, format and sizes in O(1), and fills `rhs` (rhs->desc tells
 * what they are). Refuses cut-off or foreign bytes with QMM_INVALID_PACKED and reads nothing past `packed_size`.
 * Bytes after the packed weights are ignored. The bytes must stay valid and unchanged while `rhs` is used. What the
 * payload holds can not cause an access outside.
 */
QMM_API qmm_status qmm_rhs_open(const void* packed, size_t packed_size, qmm_rhs* rhs);

/**
 * Reads all of the packed weights and compares with their checksum: QMM_INVALID_PACKED if they were damaged. A change
 * within 8 bytes (aligned) is always found, any other but for a chance of about 2^-64.
 */
QMM_API qmm_status qmm_rhs_verify(const qmm_rhs* rhs);

/**
 * Dequantizes rows of W: Y[i, :] = W[ids[i], :], w rounded once to f32 ((code - zero) * scale, or fma(code, scale,
 * min)). This is an embedding lookup on packed weights.
 * @param ids       [count], each in 0 .. n-1
 * @param y         [count, k] f32, `y_stride` elements from row to row (>= k)
 */
QMM_API qmm_status qmm_dequantize_rows(const qmm_rhs* rhs, const int64_t* ids, int64_t count, float* y,
                                       int64_t y_stride);

/* ---- threads ------------------------------------------------------------------------------------------------ */

/** Part of a parallel loop: must be called once for each index. */
typedef void (*qmm_task)(void* arg, int64_t index);

/**
 * Runs task(arg, i) for i = 0 .. count-1, each once, on whatever threads it likes (one after the other is allowed),
 * and returns when all are done. It must not throw.
 */
typedef void (*qmm_parallel_for)(void* context, qmm_task task, void* arg, int64_t count);

/** Where a call gets its threads from. */
typedef struct qmm_threads {
  size_t struct_size;
  int64_t num_threads;           /* how many parts to cut the work into, 1..1024 */
  qmm_parallel_for parallel_for; /* NULL: run on the calling thread */
  void* context;
} qmm_threads;

/** Returns how many CPUs this thread may use: its affinity mask, and its cgroup's (v2) whole CPUs; at least 1. */
QMM_API int64_t qmm_max_threads(void);

/**
 * Sets the process default to the built-in pool with `num_threads` threads, the calling one included; workers start at
 * once. It is capped at qmm_max_threads(); 1, the initial value, stops them. The pool serves one call at a time: a call
 * that finds it busy runs on its own thread. The child of a fork has one thread. QMM_OUT_OF_MEMORY: fewer could be
 * started, and those are the default. A plugin that links the static library must set 1 before it is unloaded; the
 * shared library stays loaded.
 */
QMM_API qmm_status qmm_set_num_threads(int64_t num_threads);

/**
 * Sets the process default to the caller's own threads, as many as it says; NULL goes back to one thread. `*threads` is
 * copied; its context must outlive every call that may use it. Workers of the built-in pool go on sleeping.
 */
QMM_API qmm_status qmm_set_threads(const qmm_threads* threads);

/** Returns the number of threads of the process default. */
QMM_API int64_t qmm_num_threads(void);

/**
 * Runs task(arg, i) for i = 0 .. count-1, each once, on the threads of the process default, and returns when all are
 * done: for what a host computes between matmuls. Calls of this library within a task run on its thread.
 */
QMM_API qmm_status qmm_run(qmm_task task, void* arg, int64_t count);

/* ---- matmul ------------------------------------------------------------------------------------------------- */

/**
 * One call: Y[b, i, :] = X[b, i, :] * W^T + bias.
 * Give either `x` or `lhs`, and either `rhs` or `desc` with `weights`.
 */
typedef struct qmm_matmul_args {
  size_t struct_size;
  int32_t lhs_kind;     /* QMM_LHS_F32, QMM_LHS_S8 or QMM_LHS_S8_TOKEN */
  int32_t x_dtype;      /* QMM_F32 */
  int32_t y_dtype;      /* QMM_F32 */
  int32_t activation;   /* 0 */
  int64_t m;            /* rows of a batch, >= 0 */
  int64_t batch;        /* batches; 0 is read as 1 (no rows at all: m = 0) */
  const void* x;        /* [batch, m, k] */
  int64_t x_row_stride; /* >= 0; 0 repeats one row */
  int64_t x_col_stride; /* 0 is read as 1 */
  int64_t x_batch_stride;
  const int64_t* x_rows; /* NULL (row indices: not in this version) */
  const void* lhs;       /* instead of x: an lhs from qmm_quantize_lhs, of as many rows */
  size_t lhs_size;
  const qmm_rhs* rhs;       /* packed weights */
  const qmm_rhs_desc* desc; /* instead of rhs: canonical weights, packed into scratch for every 128 rows */
  const qmm_weights* weights;
  const float* bias;    /* [n] or NULL */
  void* y;              /* [batch, m, n]; must not overlap what is read */
  int64_t y_row_stride; /* of the strides of Y, each must step over the smaller ones */
  int64_t y_col_stride; /* 0 is read as 1 */
  int64_t y_batch_stride;
  void* scratch;              /* NULL: from an arena of this thread, which grows when needed and is then reused */
  size_t scratch_size;        /* qmm_scratch_size, or as much for fewer threads; any alignment */
  const qmm_threads* threads; /* NULL: the process default */
} qmm_matmul_args;

/**
 * Computes Y. What is computed, for each row x and column n, g over the groups in ascending order:
 *   QMM_LHS_F32       t = sum of fma(x[k], code - zero, t), k ascending; acc = fma(t, scale, acc)
 *                     QMM_MINS: then acc = fma(sum of x[k], min, acc)
 *   QMM_LHS_S8        x is quantized per group of the weights: amax = max |x|, a = round(x * (127 / amax)),
 *                     scale_a = amax / 127; I = sum of a * (code - zero), exact;
 *                     acc = fma(float(I) * scale_a, scale, acc)
 *                     QMM_MINS: then acc = fma(float(sum of a) * scale_a, min, acc)
 *   QMM_LHS_S8_TOKEN  as QMM_LHS_S8 with one amax and scale_a for the whole row; scale_a multiplies acc last
 *
 * An all-zero group, or one too small to scale (127 / amax overflows), counts as 0; NaN or Inf in x makes the outputs
 * of its row NaN (with QMM_LHS_F32: what IEEE arithmetic makes of it). Groups of more than 16384 are summed in segments
 * of 16384. Then bias is added. M, N or K of 0 is allowed: K = 0 gives the bias.
 *
 * No memory is allocated once the arena has grown to what the largest call needs, but by a call that a parallel-for
 * hook makes while another call of its thread waits for it.
 */
QMM_API qmm_status qmm_matmul(const qmm_matmul_args* args);

/**
 * Writes the scratch that qmm_matmul(args) needs, in bytes, to `*size`. x, y, bias and scratch may be NULL here. With
 * scratch for fewer threads than there are when it is called, qmm_matmul runs on fewer.
 */
QMM_API qmm_status qmm_scratch_size(const qmm_matmul_args* args, size_t* size);

/** Writes the size in bytes of what qmm_quantize_lhs(args) makes to `*size`. x may be NULL here. */
QMM_API qmm_status qmm_lhs_size(const qmm_matmul_args* args, size_t* size);

/**
 * Quantizes X once, for several matmuls with weights of the same k and group (Q, K and V; gate and up): as qmm_matmul
 * of these arguments would. lhs_kind (not QMM_LHS_F32), m, batch, x with its strides, threads, and the k and group of
 * rhs or desc count; y, bias and weights do not. lhs must not overlap x. The bytes are for use where they are: they can
 * not be moved, stored, or given to another version of the library.
 * @param lhs          `lhs_size` bytes to write, at least qmm_lhs_size
 */
QMM_API qmm_status qmm_quantize_lhs(const qmm_matmul_args* args, void* lhs, size_t lhs_size);

/* ---- what runs ---------------------------------------------------------------------------------------------- */

enum {                        /* bits of qmm_cpu_features; each only where the operating system has enabled it */
       QMM_CPU_AVX2 = 1 << 0, /* AVX2, FMA and F16C */
       QMM_CPU_AVXVNNI = 1 << 1,
       QMM_CPU_AVX512 = 1 << 2, /* F, BW, DQ and VL */
       QMM_CPU_AVX512VNNI = 1 << 3,
       QMM_CPU_NEON = 1 << 4,
       QMM_CPU_AVXVNNIINT8 = 1 << 5,
       QMM_CPU_AMX = 1 << 6,          /* TILE and INT8, with the kernel's permission to use them */
       QMM_CPU_NEON_DOTPROD = 1 << 7, /* SDOT and UDOT */
       QMM_CPU_NEON_I8MM = 1 << 8,    /* SMMLA, UMMLA and USMMLA */
       QMM_CPU_SVE = 1 << 9,          /* vectors of any length */
       QMM_CPU_SVE_I8MM = 1 << 10
};

/**
 * Returns the features of this CPU by which kernels are chosen (QMM_CPU_*), after QMM_MAX_ISA; 0 where that is wrong.
 * SVE with vectors of 16 bytes is not among them: NEON is faster there.
 */
QMM_API uint64_t qmm_cpu_features(void);

/** Returns the name of a QMM_CPU_* bit in lower case ("avx512vnni"), a static string; NULL for any other number. */
QMM_API const char* qmm_cpu_feature_name(uint64_t feature);

/** This CPU, as the choice of kernels sees it. Strings are static. The sets hold QMM_CPU_* bits. */
typedef struct qmm_cpu_info {
  size_t struct_size;
  const char* name;    /* what it calls itself; "" where that can not be known */
  const char* max_isa; /* QMM_MAX_ISA; "" where it is not set */
  uint64_t has;        /* features of the CPU; on AArch64, where it is the system that tells, those that it enabled */
  uint64_t enabled;    /* of these, whose registers the operating system saves, and which it permits this process */
  uint64_t usable;     /* of these, those that are used and that QMM_MAX_ISA leaves: qmm_cpu_features() */
} qmm_cpu_info;

/** Describes this CPU: what holds for all of its cores, whichever calls (runtime/cpu.h tells why it does). */
QMM_API qmm_status qmm_describe_cpu(qmm_cpu_info* info);

/** A kernel of this library, usable or not. */
typedef struct qmm_kernel_info {
  size_t struct_size;
  const char* name;  /* a static string, qmm_<out>_<lhs>_<rhs>_<MR>x<NR>x<KR>_<isa> */
  int32_t lhs_kind;  /* QMM_LHS_F32, or QMM_LHS_S8, which stands for QMM_LHS_S8_TOKEN too */
  int32_t bits;      /* of the codes: 4 or 8 */
  int64_t min_m;     /* the least number of rows for which it is chosen */
  uint64_t need;     /* the QMM_CPU_* features that it needs */
  char why_not[256]; /* what keeps it from use, "the CPU lacks avx512vnni" for example; "" where it is usable */
} qmm_kernel_info;

/** Returns the number of kernels in this library. */
QMM_API int64_t qmm_num_kernels(void);

/**
 * Describes kernel `index`, 0 .. qmm_num_kernels() - 1. They are in the order of the choice, from plainest to fastest:
 * of those of one lhs_kind and bits, the last runs that is usable and whose min_m is not above the rows of a call.
 */
QMM_API qmm_status qmm_describe_kernel(int64_t index, qmm_kernel_info* info);

/**
 * Writes the name of the kernel that qmm_matmul would run for `m` rows to `*name`, a static string.
 * The environment variable QMM_MAX_ISA (read once) caps the choice: scalar; avx2, avxvnni, avxvnniint8, avx512,
 * avx512vnni, amx on x86-64; neon, neon_dotprod, neon_i8mm, sve, sve_i8mm on AArch64. "" caps nothing, any other value
 * is an error here and in qmm_matmul, qmm_scratch_size, qmm_quantize_lhs, qmm_describe_cpu and qmm_describe_kernel.
 */
QMM_API qmm_status qmm_kernel_name(int32_t lhs_kind, const qmm_rhs_desc* desc, int64_t m, const char** name);

/* ---- entry points for compiled code ------------------------------------------------------------------------- */

/**
 * A file of packed weights beside the binary of compiled code: a header, with the size of the file and a digest of what
 * follows, and packed weights at multiples of 64. libqmm.mlir.compile makes such files.
 */
typedef struct qmm_packed_file {
  size_t struct_size;
  const char* name;   /* of the file, without a folder */
  const void* header; /* its first 64 bytes; bytes 16 .. 23 are its size, little-endian */
  const void* data;   /* NULL; then where the file is mapped, for good */
} qmm_packed_file;

/**
 * Maps the file read-only, the first time that it is called, and returns where: `file->data`. The file is looked for in
 * the folder of the executable or shared library that holds `*file`. Where it can not be mapped, or has another size or
 * header, the error handler below is called; if it returns, so does this, NULL, and the next call tries again. What
 * follows the header is not looked at, unless qmm_set_verify_packed_files says so.
 */
QMM_API const void* qmm_map_packed_file(qmm_packed_file* file);

/**
 * Has files that are mapped from now on, by any thread, read as a whole, and refused where the packed weights in them
 * are damaged, as qmm_rhs_verify tells; 0, the initial value: not. Other first maps wait while a file is read.
 */
QMM_API void qmm_set_verify_packed_files(int32_t verify);

/* MLIR's StridedMemRefType descriptors, as llvm.emit_c_interface passes them: by pointer, strides in elements. */
#define QMM_MEMREF(name, type, rank) \
  typedef struct name {              \
    type* allocated;                 \
    type* aligned;                   \
    int64_t offset;                  \
    int64_t sizes[rank];             \
    int64_t strides[rank];           \
  } name
QMM_MEMREF(qmm_memref_f32_2d, float, 2);
QMM_MEMREF(qmm_memref_u16_2d, uint16_t, 2);
QMM_MEMREF(qmm_memref_i8_1d, int8_t, 1);
QMM_MEMREF(qmm_memref_i8_2d, int8_t, 2);
QMM_MEMREF(qmm_memref_i64_1d, int64_t, 1);

/**
 * Called when an entry point below fails; compiled code has no status to look at. A handler that returns leaves the
 * outputs untouched and the status in qmm_sticky_status().
 */
typedef void (*qmm_error_handler)(void* context, qmm_status status, const char* sentence);

/** Sets the process-wide handler; NULL is the initial one, which prints the sentence to stderr and aborts. */
QMM_API void qmm_set_error_handler(qmm_error_handler handler, void* context);

/** Returns the status of this process's first entry point that failed since the last call, and resets it to QMM_OK. */
QMM_API qmm_status qmm_sticky_status(void);

/** y[m,n] = x[m,k] * W^T, W packed (all bytes of `packed`), lhs_kind as in qmm_matmul. Writes y only. */
QMM_API void _mlir_ciface_qmm_matmul_packed(const qmm_memref_f32_2d* x, const qmm_memref_i8_1d* packed,
                                            int64_t lhs_kind, const qmm_memref_f32_2d* y);

/**
 * y[m,n] = x[m,k] * W^T, W canonical: codes [n, ceil(k*bits/8)], scales [n, G] of the dtype in the name; zeros [n, G]
 * or [0, x] for none, mins [n, G] or [0, x] for none.
 */
QMM_API void _mlir_ciface_qmm_matmul_grouped_f32(const qmm_memref_f32_2d* x, const qmm_memref_i8_2d* codes,
                                                 const qmm_memref_f32_2d* scales, const qmm_memref_i8_2d* zeros,
                                                 const qmm_memref_f32_2d* mins, int64_t bits, int64_t group,
                                                 int64_t lhs_kind, const qmm_memref_f32_2d* y);
QMM_API void _mlir_ciface_qmm_matmul_grouped_f16(const qmm_memref_f32_2d* x, const qmm_memref_i8_2d* codes,
                                                 const qmm_memref_u16_2d* scales, const qmm_memref_i8_2d* zeros,
                                                 const qmm_memref_u16_2d* mins, int64_t bits, int64_t group,
                                                 int64_t lhs_kind, const qmm_memref_f32_2d* y);
QMM_API void _mlir_ciface_qmm_matmul_grouped_bf16(const qmm_memref_f32_2d* x, const qmm_memref_i8_2d* codes,
                                                  const qmm_memref_u16_2d* scales, const qmm_memref_i8_2d* zeros,
                                                  const qmm_memref_u16_2d* mins, int64_t bits, int64_t group,
                                                  int64_t lhs_kind, const qmm_memref_f32_2d* y);

/** y[i,:] = W[ids[i],:], W packed: qmm_dequantize_rows. Writes y only. */
QMM_API void _mlir_ciface_qmm_rows_packed(const qmm_memref_i64_1d* ids, const qmm_memref_i8_1d* packed,
                                          const qmm_memref_f32_2d* y);

/** As the entry points without _external, for packed weights that are no tensor to the program: `size` bytes at
 * `packed`. */
QMM_API void _mlir_ciface_qmm_matmul_packed_external(const qmm_memref_f32_2d* x, const void* packed, int64_t size,
                                                     int64_t lhs_kind, const qmm_memref_f32_2d* y);
QMM_API void _mlir_ciface_qmm_rows_packed_external(const qmm_memref_i64_1d* ids, const void* packed, int64_t size,
                                                   const qmm_memref_f32_2d* y);

#ifdef __cplusplus
}
#endif

#endif /* QMM_QMM_H */
