// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of packed weights that compiled code maps: found beside the binary, compared with what it was compiled with.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "../runtime/error.h"
#include "../runtime/platform.h"
#include "mapped_file.h"
#include "qmm/qmm.h"
#include "report.h"

namespace {

using qmm::fail;

constexpr char kFunction[] = "qmm_map_packed_file";
constexpr size_t kHeader = 64, kSizeAt = 16, kAlignment = 64;

// Writes the path of `name` in the folder of the binary that holds `address`.
qmm_status path_beside(const void* address, const char* name, char (&path)[qmm::kMaxPath]) {
  if (name == nullptr || std::strpbrk(name, qmm::kSeparators) != nullptr)
    return fail(QMM_INVALID_ARGUMENT, "%s: the name is %s; it must be that of a file, without a folder", kFunction,
                name == nullptr ? "NULL" : name);
  QMM_TRY(qmm::binary_path(kFunction, address, path));
  char* end = path + std::strlen(path);
  while (end > path && std::strchr(qmm::kSeparators, end[-1]) == nullptr) --end;
  const size_t room = static_cast<size_t>(path + sizeof path - end);
  if (std::strlen(name) >= room)
    return fail(QMM_INVALID_ARGUMENT, "%s: a path is longer than %zu bytes: %s", kFunction, sizeof path, name);
  std::strcpy(end, name);
  return QMM_OK;
}

std::atomic<int32_t> verifies{0};

// Compares the packed weights after the header with their checksums.
qmm_status verify(const char* path, const char* data, size_t size) {
  for (size_t at = kHeader; at < size;) {
    auto rhs = qmm::sized<qmm_rhs>();
    qmm_status status = qmm_rhs_open(data + at, size - at, &rhs);
    if (status == QMM_OK) status = qmm_rhs_verify(&rhs);
    if (status != QMM_OK) {
      char reason[256];
      std::snprintf(reason, sizeof reason, "%s", qmm_last_error());
      return fail(status, "%s: %s, at byte %zu: %s", kFunction, path, at, reason);
    }
    at += (rhs.packed_size + kAlignment - 1) / kAlignment * kAlignment;
  }
  return QMM_OK;
}

qmm_status check_content(const char* path, const qmm::MappedFile& mapped, const void* header) {
  uint64_t size;
  std::memcpy(&size, static_cast<const char*>(header) + kSizeAt, sizeof size);
  if (mapped.size != size || size < kHeader)
    return fail(QMM_INVALID_PACKED, "%s: %s has %" PRIu64 " bytes; the code was compiled with %" PRIu64, kFunction,
                path, mapped.size, size);
  if (std::memcmp(mapped.data, header, kHeader) != 0)
    return fail(QMM_INVALID_PACKED, "%s: %s holds other weights than the code was compiled with", kFunction, path);
  if (verifies.load(std::memory_order_relaxed) != 0)
    return verify(path, static_cast<const char*>(mapped.data), static_cast<size_t>(size));
  return QMM_OK;
}

qmm_status map_beside(const qmm_packed_file* file, const void** data) {
  QMM_TRY(qmm::check_struct(kFunction, "file", file, sizeof *file));
  char path[qmm::kMaxPath];
  QMM_TRY(path_beside(file, file->name, path));
  qmm::MappedFile mapped;
  QMM_TRY(qmm::map_file(kFunction, path, &mapped));
  const qmm_status status = check_content(path, mapped, file->header);
  if (status == QMM_OK)
    *data = mapped.data;
  else
    qmm::unmap_file(mapped);
  return status;
}

constinit qmm::Mutex mutex;

}  // namespace

const void* qmm_map_packed_file(qmm_packed_file* file) {
  const void* data = __atomic_load_n(&file->data, __ATOMIC_ACQUIRE);
  if (data != nullptr) return data;
  mutex.lock();
  qmm_status status = QMM_OK;
  data = file->data;
  if (data == nullptr) status = map_beside(file, &data);
  __atomic_store_n(&file->data, data, __ATOMIC_RELEASE);
  mutex.unlock();
  qmm::report(status);
  return data;
}

void qmm_set_verify_packed_files(int32_t verify) { verifies.store(verify, std::memory_order_relaxed); }
