// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of packed weights that compiled code maps: found beside the binary, compared with what it was compiled with.
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../runtime/error.h"
#include "qmm/qmm.h"
#include "report.h"

namespace {

using qmm::fail;

constexpr size_t kHeader = 64, kSizeAt = 16, kAlignment = 64;

struct Binary {
  uintptr_t address;  // which it holds
  uintptr_t first;    // where it begins, which is mapped from its file; data need not be
};

int find_binary(dl_phdr_info* info, size_t, void* context) {
  auto& binary = *static_cast<Binary*>(context);
  uintptr_t first = 0;
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    if (first == 0) first = info->dlpi_addr + segment.p_vaddr;
    found = found || binary.address - info->dlpi_addr - segment.p_vaddr < segment.p_memsz;
  }
  if (found) binary.first = first;
  return found;
}

// Writes the path of the file that is mapped at `address`. The loader knows libraries by the names that they were
// loaded by, which mean nothing any more once the working directory has changed.
bool mapped_path(uintptr_t address, char (&path)[PATH_MAX]) {
  FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  char* line = nullptr;
  size_t room = 0;
  bool found = false;
  while (!found && getline(&line, &room, maps) > 0) {
    uintptr_t begin = 0, end = 0;
    const char* const name = std::strchr(line, '/');
    found = std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && begin <= address && address < end &&
            name != nullptr && std::strlen(name) < sizeof path;
    if (found) std::strcpy(path, name);
  }
  std::free(line);
  std::fclose(maps);
  return found;
}

// Writes the path of `name` in the folder of the binary that holds `address`.
qmm_status path_beside(const void* address, const char* name, char (&path)[PATH_MAX]) {
  if (name == nullptr || std::strchr(name, '/') != nullptr)
    return fail(QMM_INVALID_ARGUMENT,
                "qmm_map_packed_file: the name is %s; it must be that of a file, without a folder",
                name == nullptr ? "NULL" : name);
  Binary binary = {reinterpret_cast<uintptr_t>(address), 0};
  if (dl_iterate_phdr(find_binary, &binary) == 0)
    return fail(QMM_INVALID_ARGUMENT, "qmm_map_packed_file: the file is not described by a binary");
  if (!mapped_path(binary.first, path))
    return fail(QMM_INVALID_ARGUMENT, "qmm_map_packed_file: /proc/self/maps does not tell the path of the binary");
  char* end = std::strrchr(path, '/') + 1;
  const size_t room = static_cast<size_t>(path + sizeof path - end);
  if (std::strlen(name) >= room)
    return fail(QMM_INVALID_ARGUMENT, "qmm_map_packed_file: a path is longer than %d bytes: %s", PATH_MAX, name);
  std::strcpy(end, name);
  return QMM_OK;
}

std::atomic<int32_t> verifies{0};

// Compares the packed weights after the header with their checksums.
qmm_status verify(const char* path, const char* data, size_t size) {
  for (size_t at = kHeader; at < size;) {
    auto rhs = qmm::sized<qmm_rhs>();
    size_t packed_size = 0;
    qmm_status status = qmm_rhs_open(data + at, size - at, &rhs);
    if (status == QMM_OK) status = qmm_rhs_verify(&rhs);
    if (status == QMM_OK) status = qmm_packed_size(&rhs.desc, &packed_size);
    if (status != QMM_OK) {
      char reason[256];
      std::snprintf(reason, sizeof reason, "%s", qmm_last_error());
      return fail(status, "qmm_map_packed_file: %s, at byte %zu: %s", path, at, reason);
    }
    at += (packed_size + kAlignment - 1) / kAlignment * kAlignment;
  }
  return QMM_OK;
}

qmm_status map(const char* path, int descriptor, const void* header, const void** data) {
  uint64_t size;
  std::memcpy(&size, static_cast<const char*>(header) + kSizeAt, sizeof size);
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return fail(QMM_INVALID_PACKED, "qmm_map_packed_file: %s: %s", path, std::strerror(errno));
  if (static_cast<uint64_t>(status.st_size) != size || size < kHeader)
    return fail(QMM_INVALID_PACKED,
                "qmm_map_packed_file: %s has %" PRId64 " bytes; the code was compiled with %" PRIu64, path,
                static_cast<int64_t>(status.st_size), size);
  void* mapped = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) return fail(QMM_OUT_OF_MEMORY, "qmm_map_packed_file: %s: %s", path, std::strerror(errno));
  if (std::memcmp(mapped, header, kHeader) != 0) {
    munmap(mapped, static_cast<size_t>(size));
    return fail(QMM_INVALID_PACKED, "qmm_map_packed_file: %s holds other weights than the code was compiled with",
                path);
  }
  if (verifies.load(std::memory_order_relaxed) != 0) {
    const qmm_status intact = verify(path, static_cast<const char*>(mapped), static_cast<size_t>(size));
    if (intact != QMM_OK) {
      munmap(mapped, static_cast<size_t>(size));
      return intact;
    }
  }
  *data = mapped;
  return QMM_OK;
}

qmm_status map_beside(const qmm_packed_file* file, const void** data) {
  QMM_TRY(qmm::check_struct("qmm_map_packed_file", "file", file, sizeof *file));
  char path[PATH_MAX];
  QMM_TRY(path_beside(file, file->name, path));
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fail(QMM_INVALID_PACKED, "qmm_map_packed_file: %s: %s", path, std::strerror(errno));
  const qmm_status status = map(path, descriptor, file->header, data);
  close(descriptor);
  return status;
}

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

}  // namespace

const void* qmm_map_packed_file(qmm_packed_file* file) {
  const void* data = __atomic_load_n(&file->data, __ATOMIC_ACQUIRE);
  if (data != nullptr) return data;
  pthread_mutex_lock(&mutex);
  qmm_status status = QMM_OK;
  data = file->data;
  if (data == nullptr) status = map_beside(file, &data);
  __atomic_store_n(&file->data, data, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&mutex);
  qmm::report(status);
  return data;
}

void qmm_set_verify_packed_files(int32_t verify) { verifies.store(verify, std::memory_order_relaxed); }
