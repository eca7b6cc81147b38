// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The host's side of the compiled programs: hands them weights and caches, calls them layer by layer, and runs
// attention on the library's threads.
#pragma once

#include <qmm/qmm.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "profile.h"
#include "weights.h"

namespace smollm2 {

/// The result of a compiled entry, which is ours to free.
struct Logits : qmm_tensor_f32_2d {
  Logits() : qmm_tensor_f32_2d{} {}
  Logits(Logits&& other) noexcept : qmm_tensor_f32_2d(other) { other.allocated = nullptr; }
  Logits& operator=(Logits&& other) noexcept {
    std::swap(static_cast<qmm_tensor_f32_2d&>(*this), static_cast<qmm_tensor_f32_2d&>(other));
    return *this;
  }
  ~Logits() { std::free(allocated); }
};

/// An array of zeros, in huge pages if the system has them: caches are read from end to end, again and again.
template <class T>
class Zeros {
 public:
  explicit Zeros(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(T)) {
    void* map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    madvise(map, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<T*>(map);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() { munmap(data_, bytes_); }
  T* data() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

template <class Matrix = qmm_tensor_f32_2d>
Matrix matrix(decltype(Matrix::aligned) data, int64_t rows, int64_t columns) {
  return {data, data, 0, {rows, columns}, {columns, 1}};
}

inline CacheCube cube(CacheElement* data, int64_t a, int64_t b, int64_t c) {
  return {data, data, 0, {a, b, c}, {b * c, c, 1}};
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline void check(qmm_status status) {
  if (status != QMM_OK) throw std::runtime_error(qmm_last_error());
}

/// Calls task(i) for i = 0 .. count-1 on the library's threads.
template <class Task>
void run_tasks(int64_t count, Task task) {
  if (count == 1) return task(0);
  const qmm_task run = [](void* arg, int64_t index) {
    in_task = true;
    (*static_cast<Task*>(arg))(index);
    in_task = false;
  };
  check(qmm_run(run, &task, count));
}

/// The weights of the model as arguments of its programs, checked against the shapes they were compiled for.
class Model {
 public:
  explicit Model(const Weights& weights) {
    embedding = packed(weights, "token_embd", kVocabulary, kWidth);
    norm = vector(weights, "output_norm");
    for (int64_t l = 0; l < kLayers; l++) {
      const std::string block = "blk." + std::to_string(l) + ".";
      Layer& layer = layers[static_cast<size_t>(l)];
      for (size_t i = 0; i < kMatrices.size(); i++)
        layer.matrices[i] = packed(weights, block + kMatrices[i].name, kMatrices[i].n, kMatrices[i].k);
      for (size_t i = 0; i < kNorms.size(); i++) layer.norms[i] = vector(weights, block + kNorms[i]);
    }
  }

  struct Layer {
    std::array<qmm_tensor_u8_1d, kMatrices.size()> matrices;
    std::array<qmm_tensor_f32_1d, kNorms.size()> norms;
  };
  qmm_tensor_u8_1d embedding;
  qmm_tensor_f32_1d norm;
  std::array<Layer, kLayers> layers;

  /// Returns the names of the kernels that run where layers take `m` rows; the head takes one.
  std::set<std::string> kernels(int64_t m) const {
    std::set<std::string> names;
    for (size_t i = 0; i < descs_.size(); i++) {
      const char* name = nullptr;
      check(qmm_kernel_name(kLhs, &descs_[i], i == 0 ? 1 : m, &name));
      names.insert(name);
    }
    return names;
  }

 private:
  qmm_tensor_u8_1d packed(const Weights& weights, const std::string& name, int64_t n, int64_t k) {
    const Blob blob = weights[name];
    qmm_rhs rhs{};
    rhs.struct_size = sizeof rhs;
    check(qmm_rhs_open(blob.data, blob.size, &rhs));
    if (rhs.desc.n != n || rhs.desc.k != k)
      throw std::runtime_error(name + " is [" + std::to_string(rhs.desc.n) + ", " + std::to_string(rhs.desc.k) +
                               "]; the program is compiled for [" + std::to_string(n) + ", " + std::to_string(k) + "]");
    descs_.push_back(rhs.desc);
    auto* data = const_cast<uint8_t*>(blob.data);  // the programs only read it
    return {data, data, 0, {static_cast<int64_t>(blob.size)}, {1}};
  }

  static qmm_tensor_f32_1d vector(const Weights& weights, const std::string& name) {
    const Blob blob = weights[name];
    if (blob.size != kWidth * sizeof(float))
      throw std::runtime_error(name + " has " + std::to_string(blob.size) + " bytes; it must be f32 [" +
                               std::to_string(kWidth) + "]");
    auto* data = reinterpret_cast<float*>(const_cast<uint8_t*>(blob.data));
    return {data, data, 0, {kWidth}, {1}};
  }

  std::vector<qmm_rhs_desc> descs_;  // of the head, then of the layers
};

/// One sequence: its KV cache, and where it stands.
class Session {
 public:
  explicit Session(const Model& model) : model_(model) {}

  int64_t position() const { return position_; }

  /// Forgets all tokens, but keeps the memory.
  void restart() { position_ = 0; }

  /// Takes `count` tokens, at most kChunk.
  void advance(const int64_t* ids, int64_t count) {
    if (count > kContext - position_)
      throw std::runtime_error("the cache holds " + std::to_string(kContext) + " tokens; " +
                               std::to_string(position_ + count) + " are too many");
    count == 1 ? run(kDecode, ids, count) : run(kPrefill, ids, count);
    position_ += count;
  }

  /// Returns the logits, f32 [1, kVocabulary], of one of the tokens that `advance` took last.
  Logits logits(int64_t token) const {
    const qmm_tensor_f32_2d x = matrix(x_.data() + token * kWidth, 1, kWidth);
    Logits y;
    _mlir_ciface_head(&y, &x, &model_.norm, &model_.embedding);
    return y;
  }

 private:
  /// The entries of decode.h or prefill.h, and how many tokens are a block of attention.
  template <auto embed_entry, auto project_entry, auto attend_entry, auto finish_entry, int64_t block_tokens>
  struct Program {
    static constexpr auto embed = embed_entry;
    static constexpr auto project = project_entry;
    static constexpr auto attend = attend_entry;
    static constexpr auto finish = finish_entry;
    static constexpr int64_t block = block_tokens;
  };
  static constexpr Program<_mlir_ciface_decode_embed, _mlir_ciface_decode_project, _mlir_ciface_decode_attend,
                           _mlir_ciface_decode_finish, 1>
      kDecode = {};
  static constexpr Program<_mlir_ciface_prefill_embed, _mlir_ciface_prefill_project, _mlir_ciface_prefill_attend,
                           _mlir_ciface_prefill_finish, kBlock>
      kPrefill = {};

  template <class Program>
  void run(Program program, const int64_t* ids, int64_t count) {
    // Few tokens go through together, and each matmul runs on all threads. Where every thread has its own part of them,
    // so does all that lies between matmuls.
    const int64_t threads = qmm_num_threads();
    const int64_t parts = count < threads * kPart / 2 ? 1 : threads * ceil_div(count, threads * kPart);
    const auto for_each_part = [&](auto use) {
      run_tasks(parts, [&](int64_t part) {
        const int64_t first = count * part / parts, end = count * (part + 1) / parts;
        use(first, end - first, matrix(x_.data() + first * kWidth, end - first, kWidth),
            matrix(cos_.data() + first * kHeadDim / 2, end - first, kHeadDim / 2),
            matrix(sin_.data() + first * kHeadDim / 2, end - first, kHeadDim / 2));
      });
    };

    for_each_part([&](int64_t first, int64_t tokens, auto x, auto cos, auto sin) {
      auto* data = const_cast<int64_t*>(ids + first);
      const qmm_tensor_i64_1d words = {data, data, 0, {tokens}, {1}};
      program.embed(&words, position_ + first, &x, &cos, &sin, &model_.embedding);
    });
    qmm_tensor_f32_4d heads = {heads_.data(),
                               heads_.data(),
                               0,
                               {kKvHeads, kRoom, kShared, kHeadDim},
                               {kRoom * kShared * kHeadDim, kShared * kHeadDim, kHeadDim, 1}};
    CacheElement* cache = caches_.data();
    for (const Model::Layer& layer : model_.layers) {
      CacheCube keys = cube(cache, kKvHeads, kHeadDim, kContext);
      CacheCube values = cube(cache + kCache, kKvHeads, kContext, kHeadDim);
      cache += 2 * kCache;
      const auto& [qkv, output, gate_up, down] = layer.matrices;
      const auto& [attn_norm, ffn_norm] = layer.norms;
      for_each_part([&](int64_t first, int64_t, auto x, auto cos, auto sin) {
        program.project(&x, &cos, &sin, position_ + first, first, &heads, &keys, &values, &qkv, &attn_norm);
      });
      // A task for each block of tokens and key head.
      run_tasks(ceil_div(count, program.block) * kKvHeads, [&](int64_t index) {
        const int64_t head = index % kKvHeads, first = index / kKvHeads * program.block;
        const int64_t last = std::min(first + program.block, count);
        // The block may reach beyond the last token, and `end` beyond the last key: what lies there is finite, and
        // ignored.
        const int64_t end = ceil_div(position_ + last, kKeys) * kKeys;
        auto rows = matrix(heads.aligned + head * heads.strides[0] + first * heads.strides[1], program.block * kShared,
                           kHeadDim);
        const auto k = matrix<CacheMatrix>(keys.aligned + head * keys.strides[0], kHeadDim, kContext);
        const auto v = matrix<CacheMatrix>(values.aligned + head * values.strides[0], kContext, kHeadDim);
        const Timer timer(profile.attention);
        prefetch(k.aligned, kHeadDim, kContext, end);
        prefetch(v.aligned, 1, 0, end * kHeadDim);
        program.attend(&rows, position_ + first, end, &k, &v);
      });
      for_each_part([&](int64_t first, int64_t, auto x, auto, auto) {
        program.finish(&x, first, &heads, &output, &gate_up, &down, &ffn_norm);
      });
    }
  }

  /// Asks memory for rows of a cache, for all at once, where the loops would have few requests under way.
  static void prefetch(const CacheElement* cache, int64_t rows, int64_t row_stride, int64_t columns) {
    constexpr int64_t kLine = 64 / sizeof(CacheElement);
    for (int64_t row = 0; row < rows; row++)
      for (int64_t i = 0; i < columns; i += kLine) __builtin_prefetch(cache + row * row_stride + i);
  }

  static constexpr int64_t kKeys = 16;  // a whole tile of keys
  static constexpr int64_t kCache = kKvHeads * kHeadDim * kContext;
  static_assert(kContext % kKeys == 0 && kChunk % kBlock == 0);
  const Model& model_;
  const Zeros<CacheElement> caches_{2 * kLayers * kCache};
  const Zeros<float> x_{kChunk * kWidth}, cos_{kChunk * kHeadDim / 2}, sin_{kChunk * kHeadDim / 2};
  const Zeros<float> heads_{kKvHeads * kRoom * kShared * kHeadDim};  // queries, then what they attend to
  int64_t position_ = 0;
};

}  // namespace smollm2
