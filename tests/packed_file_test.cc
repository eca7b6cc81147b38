// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of packed weights that compiled code maps: beside the binary, with the header that it was compiled with.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "qmm/qmm.h"
#include "tests/weights.h"

namespace qmm::test {
namespace {

std::string last_sentence;

class PackedFile : public testing::Test {
 protected:
  PackedFile()
      : name_("packed_file_test." + std::to_string(getpid())),
        path_(std::filesystem::read_symlink("/proc/self/exe").parent_path() / name_),
        bytes_(200) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
    const uint64_t size = bytes_.size();
    std::memcpy(&bytes_[16], &size, sizeof size);
    header_.assign(bytes_.begin(), bytes_.begin() + 64);
    write(bytes_);
    last_sentence.clear();
    qmm_set_error_handler([](void*, qmm_status, const char* sentence) { last_sentence = sentence; }, nullptr);
  }
  ~PackedFile() override {
    qmm_set_error_handler(nullptr, nullptr);
    qmm_sticky_status();
    std::filesystem::remove(path_);
  }

  void write(const std::vector<char>& bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  // What compiled code holds is a part of its binary: so is this.
  qmm_packed_file* file() const {
    static qmm_packed_file file;
    file = {sizeof file, name_.c_str(), header_.data(), nullptr};
    return &file;
  }

  std::string name_;
  std::filesystem::path path_;
  std::vector<char> bytes_, header_;
};

TEST_F(PackedFile, IsMappedOnce) {
  qmm_packed_file* const mapped = file();
  std::vector<const void*> seen(8);
  std::vector<std::thread> threads;
  for (const void*& data : seen) threads.emplace_back([&data, mapped] { data = qmm_map_packed_file(mapped); });
  for (std::thread& thread : threads) thread.join();
  for (const void* data : seen) EXPECT_EQ(data, mapped->data);
  ASSERT_NE(mapped->data, nullptr);
  EXPECT_EQ(std::memcmp(mapped->data, bytes_.data(), bytes_.size()), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped->data) % 64, 0u);
  EXPECT_EQ(last_sentence, "");
  EXPECT_EQ(qmm_sticky_status(), QMM_OK);
}

TEST_F(PackedFile, IsRefusedUnlessItIsTheOne) {
  qmm_packed_file* const refused = file();
  const auto expect = [&](qmm_status status, const std::string& sentence) {
    EXPECT_EQ(qmm_map_packed_file(refused), nullptr);
    EXPECT_EQ(refused->data, nullptr);
    EXPECT_EQ(qmm_sticky_status(), status);
    EXPECT_NE(last_sentence.find(sentence), std::string::npos) << last_sentence;
  };
  std::vector<char> other = bytes_;
  other.pop_back();
  write(other);
  expect(QMM_INVALID_PACKED, path_.string() + " has 199 bytes; the code was compiled with 200");
  other = bytes_;
  other[63] ^= 1;
  write(other);
  expect(QMM_INVALID_PACKED, path_.string() + " holds other weights");
  std::filesystem::remove(path_);
  expect(QMM_INVALID_PACKED, path_.string() + ": No such file");
  std::filesystem::create_directory(path_);
  expect(QMM_INVALID_PACKED, path_.string() + ": Is a directory");
  std::filesystem::remove(path_);
  write(bytes_);
  EXPECT_NE(qmm_map_packed_file(refused), nullptr);  // it is there now
}

// The header ties a file to the code; the weights have checksums of their own.
TEST_F(PackedFile, IsVerifiedOnRequest) {
  Weights first(make_desc(20, 72, 32, 4, QMM_ZEROS)), second(make_desc(3, 8, 8, 8));
  std::vector<char> whole(bytes_.begin(), bytes_.begin() + 64);
  std::vector<size_t> places;
  for (Weights* weights : {&first, &second}) {
    weights->randomize(1);
    const std::vector<uint8_t> blob = pack(*weights);
    places.push_back(whole.size());
    whole.insert(whole.end(), blob.begin(), blob.end());
    whole.resize((whole.size() + 63) / 64 * 64);
  }
  const uint64_t size = whole.size();
  std::memcpy(&whole[16], &size, sizeof size);
  header_.assign(whole.begin(), whole.begin() + 64);
  qmm_set_verify_packed_files(1);
  write(whole);
  EXPECT_NE(qmm_map_packed_file(file()), nullptr) << last_sentence;
  for (const size_t place : places) {
    std::vector<char> damaged = whole;
    damaged[place + 256] ^= 1;
    write(damaged);
    last_sentence.clear();
    EXPECT_EQ(qmm_map_packed_file(file()), nullptr);
    EXPECT_EQ(qmm_sticky_status(), QMM_INVALID_PACKED);
    EXPECT_NE(last_sentence.find(path_.string() + ", at byte " + std::to_string(place) + ": qmm_rhs_verify: "),
              std::string::npos)
        << last_sentence;
  }
  whole[64] ^= 1;  // the magic number of the first
  write(whole);
  EXPECT_EQ(qmm_map_packed_file(file()), nullptr);
  EXPECT_NE(last_sentence.find(", at byte 64: qmm_rhs_open: "), std::string::npos) << last_sentence;
  qmm_set_verify_packed_files(0);
  EXPECT_NE(qmm_map_packed_file(file()), nullptr) << last_sentence;
}

TEST_F(PackedFile, IsRefusedWithoutABinary) {
  qmm_packed_file outside = *file();
  EXPECT_EQ(qmm_map_packed_file(&outside), nullptr);  // on the stack
  EXPECT_NE(last_sentence.find("not described by a binary"), std::string::npos) << last_sentence;
  std::string name(5000, 'n');
  qmm_packed_file* const unnamed = file();
  unnamed->name = name.c_str();
  EXPECT_EQ(qmm_map_packed_file(unnamed), nullptr);
  EXPECT_NE(last_sentence.find("longer than"), std::string::npos) << last_sentence;
}

TEST_F(PackedFile, IsRefusedUnlessItIsDescribed) {
  qmm_packed_file* const refused = file();
  const auto expect = [&](const std::string& sentence) {
    EXPECT_EQ(qmm_map_packed_file(refused), nullptr);
    EXPECT_EQ(qmm_sticky_status(), QMM_INVALID_ARGUMENT);
    EXPECT_NE(last_sentence.find(sentence), std::string::npos) << last_sentence;
  };
  refused->struct_size = sizeof *refused - 1;
  expect("struct_size of file is 31");
  refused->struct_size = sizeof *refused;
  const std::string name = "../" + path_.parent_path().filename().string() + "/" + name_;  // it is there
  refused->name = name.c_str();
  expect("the name is " + name + "; it must be that of a file, without a folder");
  refused->name = nullptr;
  expect("the name is NULL");
}

// The loader keeps the name that a library was loaded by.
TEST_F(PackedFile, IsFoundFromAnyWorkingDirectory) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path_.parent_path());
  void* const library = dlopen("./" PACKED_FILE_FIXTURE, RTLD_NOW);
  std::filesystem::current_path("/");
  ASSERT_NE(library, nullptr) << dlerror();
  auto* const described = static_cast<qmm_packed_file*>(dlsym(library, "packed_file"));
  ASSERT_NE(described, nullptr) << dlerror();
  *described = {sizeof *described, name_.c_str(), header_.data(), nullptr};
  EXPECT_NE(qmm_map_packed_file(described), nullptr) << last_sentence;
  dlclose(library);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace qmm::test
