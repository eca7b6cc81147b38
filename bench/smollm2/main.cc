// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs SmolLM2: token ids from stdin, greedy continuation to stdout, one id a line. The programs are compiled from
// PyTorch (build.py): decode.o takes one token, prefill.o takes 2 .. kChunk; this is the loop over tokens and layers.

#include <malloc.h>
#include <qmm/qmm.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "decode.h"
#include "model.h"
#include "prefill.h"
#include "weights.h"

namespace smollm2 {
namespace {

constexpr const char* kUsage =
    "usage: smollm2 WEIGHTS [--threads N] [--max-tokens N] [--logits FILE [--prefill N]] < token ids\n"
    "  --threads N      threads of the matmuls (1)\n"
    "  --max-tokens N   stop after N tokens (until the model or the cache ends)\n"
    "  --logits FILE    generate nothing: write the logits of every token, f32 [tokens, vocabulary]\n"
    "  --prefill N      with --logits: only the first N tokens in chunks, the rest one by one\n";

/// A result of a compiled entry, which is ours to free.
struct Rows : qmm_tensor_f32_2d {
  Rows() : qmm_tensor_f32_2d{} {}
  Rows(Rows&& other) noexcept : qmm_tensor_f32_2d(other) { other.allocated = nullptr; }
  Rows& operator=(Rows&& other) noexcept {
    std::swap(static_cast<qmm_tensor_f32_2d&>(*this), static_cast<qmm_tensor_f32_2d&>(other));
    return *this;
  }
  ~Rows() { std::free(allocated); }
};

qmm_tensor_f32_2d matrix(float* data, int64_t rows, int64_t columns) {
  return {data, data, 0, {rows, columns}, {columns, 1}};
}

qmm_tensor_f32_3d cube(float* data, int64_t a, int64_t b, int64_t c) {
  return {data, data, 0, {a, b, c}, {b * c, c, 1}};
}

void check(qmm_status status) {
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
  explicit Session(const Model& model)
      : model_(model), caches_(static_cast<float*>(std::calloc(kCaches, sizeof(float)))) {
    if (!caches_) throw std::bad_alloc();
  }

  int64_t position() const { return position_; }

  /// Takes `count` tokens, at most kChunk. Returns the last layer's output, f32 [count, kWidth].
  Rows advance(const int64_t* ids, int64_t count) {
    if (count > kContext - position_)
      throw std::runtime_error("the cache holds " + std::to_string(kContext) + " tokens; " +
                               std::to_string(position_ + count) + " are too many");
    auto* data = const_cast<int64_t*>(ids);
    const qmm_tensor_i64_1d tokens = {data, data, 0, {count}, {1}};
    const auto embed = count == 1 ? _mlir_ciface_decode_embed : _mlir_ciface_prefill_embed;
    const auto run_layer = count == 1 ? _mlir_ciface_decode_layer : _mlir_ciface_prefill_layer;

    Rows x;
    embed(&x, &tokens, &model_.embedding);
    float* cache = caches_.get();
    for (const Model::Layer& layer : model_.layers) {
      qmm_tensor_f32_3d keys = cube(cache, kKvHeads, kHeadDim, kContext);
      qmm_tensor_f32_3d values = cube(cache + kCache, kKvHeads, kContext, kHeadDim);
      cache += 2 * kCache;
      const auto& [q, k, v, o, gate, up, down] = layer.matrices;
      const auto& [attn_norm, ffn_norm] = layer.norms;
      Rows y;
      run_layer(&y, &x, position_, &keys, &values, &q, &k, &v, &o, &gate, &up, &down, &attn_norm, &ffn_norm);
      x = std::move(y);
    }
    position_ += count;
    return x;
  }

  /// Returns the logits, f32 [1, kVocabulary], of one row of what `advance` returned.
  Rows logits(const Rows& x, int64_t row) const {
    const qmm_tensor_f32_2d one = matrix(x.aligned + row * kWidth, 1, kWidth);
    Rows y;
    _mlir_ciface_head(&y, &one, &model_.norm, &model_.embedding);
    return y;
  }

 private:
  static constexpr int64_t kCache = kKvHeads * kHeadDim * kContext;
  static constexpr size_t kCaches = static_cast<size_t>(2 * kLayers * kCache);
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  const Model& model_;
  std::unique_ptr<float, Free> caches_;
  int64_t position_ = 0;
};

struct Options {
  std::string weights;
  std::string logits;
  int64_t threads = 1;
  int64_t max_tokens = kContext;
  int64_t prefill = kContext;
};

int64_t number(const std::string& text, int64_t least) {
  size_t end = 0;
  long long value = 0;
  try {
    value = std::stoll(text, &end);
  } catch (const std::exception&) {
  }
  if (end == 0 || end != text.size() || value < least)
    throw std::runtime_error("'" + text + "' is not a number from " + std::to_string(least) + " up");
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (name.rfind("--", 0) != 0 && options.weights.empty()) {
      options.weights = name;
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error("'" + name + "' is unknown or needs a value\n" + kUsage);
    const std::string value = argv[++i];
    if (name == "--threads")
      options.threads = number(value, 1);
    else if (name == "--max-tokens")
      options.max_tokens = number(value, 0);
    else if (name == "--prefill")
      options.prefill = number(value, 0);
    else if (name == "--logits")
      options.logits = value;
    else
      throw std::runtime_error("'" + name + "' is unknown\n" + kUsage);
  }
  if (options.weights.empty()) throw std::runtime_error(kUsage);
  return options;
}

std::vector<int64_t> read_tokens(std::istream& in) {
  std::vector<int64_t> tokens;
  for (std::string word; in >> word;) {
    const int64_t token = number(word, 0);
    if (token >= kVocabulary)
      throw std::runtime_error("token " + word + " is not below " + std::to_string(kVocabulary));
    tokens.push_back(token);
  }
  if (tokens.empty()) throw std::runtime_error("there are no token ids on stdin");
  if (static_cast<int64_t>(tokens.size()) > kContext)
    throw std::runtime_error("the prompt has " + std::to_string(tokens.size()) + " tokens; the cache holds " +
                             std::to_string(kContext));
  return tokens;
}

/// Feeds `tokens` in chunks as long as `prefill` lasts, then one by one; `visit(x, rows)` sees the output of each
/// chunk.
template <typename Visit>
void feed(Session& session, const std::vector<int64_t>& tokens, int64_t prefill, Visit visit) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  for (int64_t done = 0; done < count;) {
    const int64_t rows = done < prefill ? std::min({kChunk, count - done, prefill - done}) : 1;
    visit(session.advance(tokens.data() + done, rows), rows);
    done += rows;
  }
}

void write_logits(const Options& options, const Model& model, const std::vector<int64_t>& tokens) {
  std::ofstream file(options.logits, std::ios::binary);
  Session session(model);
  feed(session, tokens, options.prefill, [&](const Rows& x, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
      const Rows logits = session.logits(x, row);
      file.write(reinterpret_cast<const char*>(logits.aligned), kVocabulary * sizeof(float));
    }
  });
  file.flush();
  if (!file) throw std::runtime_error(options.logits + " can not be written");
}

void generate(const Options& options, const Model& model, const std::vector<int64_t>& tokens) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };

  Session session(model);
  auto start = Clock::now();
  Rows logits;
  feed(session, tokens, kContext, [&](const Rows& x, int64_t rows) {
    if (session.position() == static_cast<int64_t>(tokens.size())) logits = session.logits(x, rows - 1);
  });
  const double prefill_seconds = seconds(start);

  start = Clock::now();
  int64_t steps = 0;
  for (int64_t written = 0; written < options.max_tokens; written++) {
    const int64_t token = std::max_element(logits.aligned, logits.aligned + kVocabulary) - logits.aligned;
    if (token == kStopToken) break;
    std::printf("%lld\n", static_cast<long long>(token));
    std::fflush(stdout);
    if (written + 1 == options.max_tokens) break;
    if (session.position() == kContext) {
      std::fprintf(stderr, "\nstopped: the cache holds %lld tokens and is full\n", static_cast<long long>(kContext));
      break;
    }
    logits = session.logits(session.advance(&token, 1), 0);
    steps++;
  }
  const double decode_seconds = seconds(start);

  const double count = static_cast<double>(tokens.size());
  std::fprintf(stderr, "prefill  %6.1f tokens/s  (%zu tokens)\n", count / prefill_seconds, tokens.size());
  if (steps > 0)
    std::fprintf(stderr, "decode   %6.1f tokens/s  (%lld tokens)\n", static_cast<double>(steps) / decode_seconds,
                 static_cast<long long>(steps));
  std::fprintf(stderr, "threads  %lld\n", static_cast<long long>(qmm_num_threads()));
  const int64_t chunk = std::min(kChunk, static_cast<int64_t>(tokens.size()));
  for (const auto& [name, rows] : {std::pair{"prefill", chunk}, std::pair{"decode", int64_t{1}}})
    for (const std::string& kernel : model.kernels(rows))
      std::fprintf(stderr, "kernel   %s (%s)\n", kernel.c_str(), name);
}

void run(int argc, char** argv) {
  // Compiled code allocates the same large tensors again and again: keep their pages instead of giving them back.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);

  const Options options = parse(argc, argv);
  check(qmm_set_num_threads(options.threads));
  const Weights weights(options.weights);
  const Model model(weights);
  const std::vector<int64_t> tokens = read_tokens(std::cin);
  if (options.logits.empty())
    generate(options, model, tokens);
  else
    write_logits(options, model, tokens);
}

}  // namespace
}  // namespace smollm2

int main(int argc, char** argv) {
  try {
    smollm2::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "smollm2: %s\n", error.what());
    return 1;
  }
}
