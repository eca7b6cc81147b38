// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../runtime/error.h"
#include "../runtime/platform.h"
#include "mapped_file.h"

namespace qmm {
namespace {

qmm_status fail_by_system(const char* function, const char* path) {
  return fail(QMM_INVALID_PACKED, "%s: %s: Windows error %lu", function, path, GetLastError());
}

}  // namespace

qmm_status binary_path(const char* function, const void* address, char (&path)[kMaxPath]) {
  HMODULE module;
  constexpr DWORD kHow = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(kHow, static_cast<const wchar_t*>(address), &module))
    return fail(QMM_INVALID_ARGUMENT, "%s: the file is not described by a binary", function);
  wchar_t wide[kMaxPath];
  const DWORD length = GetModuleFileNameW(module, wide, kMaxPath);
  if (length == 0 || length == kMaxPath ||
      WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, int{kMaxPath}, nullptr, nullptr) == 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: a path is longer than %zu bytes", function, kMaxPath);
  return QMM_OK;
}

qmm_status map_file(const char* function, const char* path, MappedFile* file) {
  wchar_t wide[kMaxPath];
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, int{kMaxPath}) == 0)
    return fail_by_system(function, path);
  const HANDLE handle =
      CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return fail_by_system(function, path);
  LARGE_INTEGER size;
  HANDLE mapping = nullptr;
  const void* data = nullptr;
  bool done = GetFileSizeEx(handle, &size);
  if (done && size.QuadPart > 0) {
    mapping = CreateFileMappingW(handle, nullptr, PAGE_READONLY, 0, 0, nullptr);
    data = mapping != nullptr ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : nullptr;
    done = data != nullptr;
  }
  const qmm_status status = done ? QMM_OK : fail_by_system(function, path);
  // The view keeps what it needs.
  if (mapping != nullptr) CloseHandle(mapping);
  CloseHandle(handle);
  if (done) *file = {data, static_cast<uint64_t>(size.QuadPart)};
  return status;
}

void unmap_file(const MappedFile& file) {
  if (file.data != nullptr) UnmapViewOfFile(file.data);
}

}  // namespace qmm
