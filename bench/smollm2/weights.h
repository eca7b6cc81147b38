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
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) throw std::runtime_error(path + " can not be opened");
    size_ = static_cast<uint64_t>(status.st_size);
    void* map = size_ < sizeof(Header) ? MAP_FAILED : mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED)
      refuse("it has " + std::to_string(size_) + " bytes, too few for a header, or can not be mapped");
    data_ = static_cast<const uint8_t*>(map);
    read_index();
  }

  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() { munmap(const_cast<uint8_t*>(data_), size_); }

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
  static_assert(sizeof(Header) == 64 && sizeof(Entry) == 64);

  void read_index() {
    Header header;
    std::memcpy(&header, data_, sizeof header);
    if (std::memcmp(header.magic, "qmmblobs", 8) != 0) refuse("it does not start with \"qmmblobs\"");
    if (header.version != 1) refuse("it has version " + std::to_string(header.version) + ", not 1");
    if (header.file_size != size_)
      refuse("it has " + std::to_string(size_) + " bytes, its header says " + std::to_string(header.file_size));
    if (header.count > size_ / sizeof(Entry) - 1) refuse("its index does not fit");
    for (uint64_t i = 0; i < header.count; i++) {
      Entry entry;
      std::memcpy(&entry, data_ + sizeof header + i * sizeof entry, sizeof entry);
      const bool named = std::memchr(entry.name, 0, sizeof entry.name) != nullptr;
      if (!named || entry.offset % 64 != 0 || entry.offset > size_ || entry.size > size_ - entry.offset)
        refuse("entry " + std::to_string(i) + " of its index is damaged");
      blobs_[entry.name] = {data_ + entry.offset, entry.size};
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(path_ + " is not a weight file of this program: " + why);
  }

  std::string path_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  std::map<std::string, Blob> blobs_;
};

}  // namespace smollm2
