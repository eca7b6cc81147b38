// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files in memory, and where a binary lies: what operating systems differ in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qmm/qmm.h"

namespace qmm {

constexpr size_t kMaxPath = 4096;  // bytes of the longest path and its end; in UTF-8 on Windows

// What ends the folders of a path.
#if defined(_WIN32)
constexpr char kSeparators[] = "/\\:";
#else
constexpr char kSeparators[] = "/";
#endif

// Writes the path of the executable or shared library that holds `address`. Failures begin with `function`.
qmm_status binary_path(const char* function, const void* address, char (&path)[kMaxPath]);

struct MappedFile {
  const void* data;  // nullptr where the file is empty
  uint64_t size;
};

// Maps a file, read-only.
qmm_status map_file(const char* function, const char* path, MappedFile* file);
void unmap_file(const MappedFile& file);

}  // namespace qmm
