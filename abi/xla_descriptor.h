// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The descriptor of untyped calls, for the handlers that XLA calls and for the passes that lower the same calls.
#pragma once

#include "qmm/xla.h"

namespace qmm {

// Reads the opaque bytes of an untyped call of `target`, "qmm_matmul_packed" for one, with which sentences begin.
// Checks version and size, and that all is 0 that the target has no use for; not what the rest says.
qmm_status read_descriptor(const char* target, const char* opaque, size_t opaque_len, qmm_xla_descriptor* descriptor);

}  // namespace qmm
