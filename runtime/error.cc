// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "error.h"

#include <cstdarg>
#include <cstdio>

namespace qmm {
namespace {
thread_local char sentence[512];
}

qmm_status fail(qmm_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return status;
}

const char* last_error() { return sentence; }

}  // namespace qmm
