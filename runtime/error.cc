// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

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

qmm_status check_struct(const char* function, const char* name, const void* object, size_t known) {
  constexpr size_t kRoomToGrow = 4096;  // more is not a size, but memory that was never set
  if (object == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: %s is null", function, name);
  size_t size;
  std::memcpy(&size, object, sizeof size);
  if (size < known || size > known + kRoomToGrow)
    return fail(QMM_INVALID_ARGUMENT, "%s: the struct_size of %s is %zu; it must be its sizeof, at least %zu", function,
                name, size, known);
  for (size_t i = known; i < size; ++i)
    if (static_cast<const char*>(object)[i] != 0)
      return fail(QMM_UNSUPPORTED, "%s: byte %zu of %s is set; this version knows the first %zu", function, i, name,
                  known);
  return QMM_OK;
}

const char* last_error() { return sentence; }

}  // namespace qmm
