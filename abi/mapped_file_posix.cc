// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../runtime/error.h"
#include "mapped_file.h"

#if defined(__APPLE__)
#include <dlfcn.h>
#else
#include <link.h>
#endif

namespace qmm {

#if defined(__APPLE__)

qmm_status binary_path(const char* function, const void* address, char (&path)[kMaxPath]) {
  Dl_info info;
  if (dladdr(address, &info) == 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: the file is not described by a binary", function);
  if (std::strlen(info.dli_fname) >= sizeof path)
    return fail(QMM_INVALID_ARGUMENT, "%s: a path is longer than %zu bytes: %s", function, kMaxPath, info.dli_fname);
  std::strcpy(path, info.dli_fname);
  return QMM_OK;
}

#else

namespace {

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
bool mapped_path(uintptr_t address, char (&path)[kMaxPath]) {
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

}  // namespace

qmm_status binary_path(const char* function, const void* address, char (&path)[kMaxPath]) {
  Binary binary = {reinterpret_cast<uintptr_t>(address), 0};
  if (dl_iterate_phdr(find_binary, &binary) == 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: the file is not described by a binary", function);
  if (!mapped_path(binary.first, path))
    return fail(QMM_INVALID_ARGUMENT, "%s: /proc/self/maps does not tell the path of the binary", function);
  return QMM_OK;
}

#endif

qmm_status map_file(const char* function, const char* path, MappedFile* file) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (descriptor < 0) return fail(QMM_INVALID_PACKED, "%s: %s: %s", function, path, std::strerror(errno));
  void* data = nullptr;
  bool done = fstat(descriptor, &status) == 0;
  if (done && S_ISDIR(status.st_mode)) {
    done = false;
    errno = EISDIR;
  }
  if (done && status.st_size > 0) {
    data = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    done = data != MAP_FAILED;
  }
  const int error = errno;
  close(descriptor);
  if (!done)
    return fail(error == ENOMEM ? QMM_OUT_OF_MEMORY : QMM_INVALID_PACKED, "%s: %s: %s", function, path,
                std::strerror(error));
  *file = {data, static_cast<uint64_t>(status.st_size)};
  return QMM_OK;
}

void unmap_file(const MappedFile& file) {
  if (file.data != nullptr) munmap(const_cast<void*>(file.data), static_cast<size_t>(file.size));
}

}  // namespace qmm
