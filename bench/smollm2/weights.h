// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps a weight file; weights.py describes the format.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

namespace smollm2 {

struct Blob {
  const uint8_t* data;
  uint64_t size;
};

/// The blobs of a mapped file, by name. A file that is cut off or of another kind is refused before a blob is read.
class Weights {
 public:
  explicit Weights(const std::string& path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::runtime_error(path + " can not be opened");
    struct stat status = {};
    const bool known = fstat(file, &status) == 0;
    const uint64_t size = known ? static_cast<uint64_t>(status.st_size) : 0;
    void* map = size < sizeof(Header) ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED)
      refuse("it has " + std::to_string(size) + " bytes, too few for a header, or can not be mapped");
    map_.data = static_cast<const uint8_t*>(map);
    map_.size = size;
    read_index(map_.data, size);
  }

  /// Throws where there is no blob of that name.
  Blob operator[](const std::string& name) const {
    const auto found = blobs_.find(name);
    if (found == blobs_.end()) refuse("it has no blob " + name);
    return found->second;
  }

 private:
  struct Header {
    char magic[8];
    uint32_t version;
    uint32_t count;
    uint64_t file_size;
    uint8_t reserved[40];
  };
  struct Entry {
    char name[40];
    uint64_t offset;
    uint64_t size;
    uint8_t reserved[8];
  };
  /// A member of its own, so that it is unmapped where the constructor throws.
  struct Map {
    Map() = default;
    Map(const Map&) = delete;
    Map& operator=(const Map&) = delete;
    ~Map() {
      if (data) munmap(const_cast<uint8_t*>(data), size);
    }
    const uint8_t* data = nullptr;
    uint64_t size = 0;
  };
  static_assert(sizeof(Header) == 64 && sizeof(Entry) == 64);

  void read_index(const uint8_t* data, uint64_t size) {
    Header header;
    std::memcpy(&header, data, sizeof header);
    if (std::memcmp(header.magic, "qmmblobs", 8) != 0) refuse("it does not start with \"qmmblobs\"");
    if (header.version != 1) refuse("it has version " + std::to_string(header.version) + ", not 1");
    if (header.file_size != size)
      refuse("it has " + std::to_string(size) + " bytes, its header says " + std::to_string(header.file_size));
    if (header.count > size / sizeof(Entry) - 1) refuse("its index does not fit");
    for (uint64_t i = 0; i < header.count; i++) {
      Entry entry;
      std::memcpy(&entry, data + sizeof header + i * sizeof entry, sizeof entry);
      const bool named = std::memchr(entry.name, 0, sizeof entry.name) != nullptr;
      if (!named || entry.offset % 64 != 0 || entry.offset > size || entry.size > size - entry.offset)
        refuse("entry " + std::to_string(i) + " of its index is damaged");
      blobs_[entry.name] = {data + entry.offset, entry.size};
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(path_ + " is not a weight file of this program: " + why);
  }

  std::string path_;
  Map map_;
  std::map<std::string, Blob> blobs_;
};

}  // namespace smollm2
