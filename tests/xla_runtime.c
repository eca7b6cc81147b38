/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What makes untyped calls from a library of its own: one that has XLA's setter of a status, or (QMM_NO_SETTER) none.
 */
#include <string.h>

#include "qmm/xla.h"

typedef void handler(void* out, const void** in, const char* opaque, size_t opaque_len,
                     struct XlaCustomCallStatus_* status);

#ifndef QMM_NO_SETTER
void XlaCustomCallStatusSetFailure(struct XlaCustomCallStatus_* status, const char* message, size_t size);
void XlaCustomCallStatusSetFailure(struct XlaCustomCallStatus_* status, const char* message, size_t size) {
  memcpy(status, message, size);
}
#endif

int call_from_here(handler* call, void* out, const void** in, const char* opaque, size_t opaque_len,
                   struct XlaCustomCallStatus_* status);
int call_from_here(handler* call, void* out, const void** in, const char* opaque, size_t opaque_len,
                   struct XlaCustomCallStatus_* status) {
  call(out, in, opaque, opaque_len, status);
  return 0; /* which makes it no tail call: those come from where the caller is */
}
