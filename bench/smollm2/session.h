// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The host's side of the compiled programs: hands them weights and caches, calls them layer by layer, and runs
// attention on the library's threads.
#pragma once

#include <qmm/qmm.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "decode.h"
#include "model.h"
#include "prefill.h"
#include "profile.h"
#include "weights.h"

namespace smollm2 {

/// A result of a compiled entry, which is ours to free.
struct Rows : qmm_tensor_f32_2d {
  Rows() : qmm_tensor_f32_2d{} {}
  explicit Rows(const qmm_tensor_f32_2d& result) : qmm_tensor_f32_2d(result) {}
  Rows(Rows&& other) noexcept : qmm_tensor_f32_2d(other) { other.allocated = nullptr; }
  Rows& operator=(Rows&& other) noexcept {
    std::swap(static_cast<qmm_tensor_f32_2d&>(*this), static_cast<qmm_tensor_f32_2d&>(other));
    return *this;
  }
  ~Rows() { std::free(allocated); }
};

/// Zeros that are never moved.
class Floats {
 public:
  explicit Floats(int64_t count) : data_(static_cast<float*>(std::calloc(static_cast<size_t>(count), sizeof(float)))) {
    if (!data_) throw std::bad_alloc();
  }
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float, Free> data_;
};

inline qmm_tensor_f32_2d matrix(float* data, int64_t rows, int64_t columns) {
  return {data, data, 0, {rows, columns}, {columns, 1}};
}

inline qmm_tensor_f32_3d cube(float* data, int64_t a, int64_t b, int64_t c) {
  return {data, data, 0, {a, b, c}, {b * c, c, 1}};
}

inline void check(qmm_status status) {
  if (status != QMM_OK) throw std::runtime_error(qmm_last_error());
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

  /// Takes `count` tokens, at most kChunk. Returns the last layer's output, f32 [count, kWidth].
  Rows advance(const int64_t* ids, int64_t count) {
    if (count > kContext - position_)
      throw std::runtime_error("the cache holds " + std::to_string(kContext) + " tokens; " +
                               std::to_string(position_ + count) + " are too many");
    return count == 1 ? run(kDecode, ids, count) : run(kPrefill, ids, count);
  }

  /// Returns the logits, f32 [1, kVocabulary], of one row of what `advance` returned.
  Rows logits(const Rows& x, int64_t row) const {
    const qmm_tensor_f32_2d one = matrix(x.aligned + row * kWidth, 1, kWidth);
    Rows y;
    _mlir_ciface_head(&y, &one, &model_.norm, &model_.embedding);
    return y;
  }

 private:
  /// The entries of decode.h or prefill.h.
  template <class Embedded, auto embed_entry, auto project_entry, auto attend_entry, auto finish_entry>
  struct Program {
    int64_t tokens;  // that `heads` has room for
    int64_t block;   // those whose attention it computes at a time
    using Results = Embedded;
    static constexpr auto embed = embed_entry;
    static constexpr auto project = project_entry;
    static constexpr auto attend = attend_entry;
    static constexpr auto finish = finish_entry;
  };
  static constexpr Program<decode_embed_results, _mlir_ciface_decode_embed, _mlir_ciface_decode_project,
                           _mlir_ciface_decode_attend, _mlir_ciface_decode_finish>
      kDecode = {1, 1};
  static constexpr Program<prefill_embed_results, _mlir_ciface_prefill_embed, _mlir_ciface_prefill_project,
                           _mlir_ciface_prefill_attend, _mlir_ciface_prefill_finish>
      kPrefill = {kChunk + kBlock, kBlock};

  template <class Program>
  Rows run(const Program& program, const int64_t* ids, int64_t count) {
    auto* data = const_cast<int64_t*>(ids);
    const qmm_tensor_i64_1d tokens = {data, data, 0, {count}, {1}};
    typename Program::Results embedded;
    program.embed(&embedded, &tokens, position_, &model_.embedding);
    Rows x(embedded.result0);
    const Rows cos(embedded.result1), sin(embedded.result2);
    qmm_tensor_f32_3d heads = cube(heads_.data(), kKvHeads, program.tokens * kShared, kHeadDim);
    float* cache = caches_.data();
    for (const Model::Layer& layer : model_.layers) {
      qmm_tensor_f32_3d keys = cube(cache, kKvHeads, kHeadDim, kContext);
      qmm_tensor_f32_3d values = cube(cache + kCache, kKvHeads, kContext, kHeadDim);
      cache += 2 * kCache;
      const auto& [qkv, output, gate_up, down] = layer.matrices;
      const auto& [attn_norm, ffn_norm] = layer.norms;
      program.project(&x, &cos, &sin, position_, &heads, &keys, &values, &qkv, &attn_norm);
      attend(program, heads, keys, values, count);
      Rows y;
      program.finish(&y, &x, &heads, &output, &gate_up, &down, &ffn_norm);
      x = std::move(y);
    }
    position_ += count;
    return x;
  }

  /// Attention of `count` tokens: a task for each block of tokens and key head.
  template <class Program>
  void attend(const Program& program, const qmm_tensor_f32_3d& heads, const qmm_tensor_f32_3d& keys,
              const qmm_tensor_f32_3d& values, int64_t count) const {
    const Timer timer(profile.attention);
    const auto task = [&](int64_t index) {
      const int64_t head = index % kKvHeads, first = index / kKvHeads * program.block;
      const int64_t rows = program.block * kShared, last = std::min(first + program.block, count);
      // The block may reach beyond the last token, and `end` beyond the last key: what is there is finite, and ignored.
      const int64_t end = (position_ + last + kKeys - 1) / kKeys * kKeys;
      qmm_tensor_f32_2d block =
          matrix(heads.aligned + head * heads.strides[0] + first * kShared * kHeadDim, rows, kHeadDim);
      const qmm_tensor_f32_2d k = matrix(keys.aligned + head * keys.strides[0], kHeadDim, kContext);
      const qmm_tensor_f32_2d v = matrix(values.aligned + head * values.strides[0], kContext, kHeadDim);
      program.attend(&block, position_ + first, end, &k, &v);
    };
    const int64_t blocks = (count + program.block - 1) / program.block;
    check(qmm_run([](void* arg, int64_t index) { (*static_cast<decltype(&task)>(arg))(index); },
                  const_cast<void*>(static_cast<const void*>(&task)), blocks * kKvHeads));
  }

  static constexpr int64_t kKeys = 16;  // a whole vector of keys, or a tile of them
  static constexpr int64_t kCache = kKvHeads * kHeadDim * kContext;
  static_assert(kContext % kKeys == 0 && kChunk % kBlock == 0);
  const Model& model_;
  const Floats caches_{2 * kLayers * kCache};
  const Floats heads_{kKvHeads * kPrefill.tokens * kShared * kHeadDim};  // queries, then what they attend to
  int64_t position_ = 0;
};

}  // namespace smollm2
