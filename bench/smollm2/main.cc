// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs SmolLM2: token ids from stdin, greedy continuation to stdout, one id a line. The programs are compiled from
// PyTorch (build.py): decode.o takes one token, prefill.o takes 2 .. kPart; session.h calls them.

#include <malloc.h>
#include <qmm/qmm.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "profile.h"
#include "session.h"
#include "weights.h"

namespace smollm2 {
namespace {

constexpr const char* kUsage =
    "usage: smollm2 WEIGHTS [--threads N] [--max-tokens N] [--logits FILE | --timings FILE [--prefill N]] < token ids\n"
    "  --threads N      threads of the matmuls and of attention (1)\n"
    "  --max-tokens N   stop after N tokens (until the model or the cache ends)\n"
    "  --logits FILE    generate nothing: write the logits of every token, f32 [tokens, vocabulary]\n"
    "  --timings FILE   generate nothing: write how long the tokens took, after a shorter run to warm up, as JSON\n"
    "  --prefill N      with either: only the first N tokens in chunks, the rest one by one\n";

using Clock = std::chrono::steady_clock;

int64_t ns_since(Clock::time_point start) { return std::chrono::nanoseconds(Clock::now() - start).count(); }

struct Options {
  std::string weights;
  std::string logits;
  std::string timings;
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
    else if (name == "--timings")
      options.timings = value;
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

/// Feeds `tokens` in chunks as long as `prefill` lasts, then one by one; visit(count) is called after each chunk.
template <typename Visit>
void feed(Session& session, const std::vector<int64_t>& tokens, int64_t prefill, Visit visit) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  for (int64_t done = 0; done < count;) {
    const int64_t rows = done < prefill ? std::min({kChunk, count - done, prefill - done}) : 1;
    session.advance(tokens.data() + done, rows);
    visit(rows);
    done += rows;
  }
}

void write_logits(const Options& options, const Model& model, const std::vector<int64_t>& tokens) {
  std::ofstream file(options.logits, std::ios::binary);
  Session session(model);
  feed(session, tokens, options.prefill, [&](int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
      const Logits logits = session.logits(row);
      file.write(reinterpret_cast<const char*>(logits.aligned), kVocabulary * sizeof(float));
    }
  });
  file.flush();
  if (!file) throw std::runtime_error(options.logits + " can not be written");
}

/// What a phase of a run took, as JSON; starts the profile anew.
std::string describe(const char* phase, int64_t tokens, int64_t ns) {
  std::ostringstream text;
  text << '"' << phase << "\": {\"tokens\": " << tokens << ", \"ns\": " << ns
       << ", \"attention_ns\": " << profile.attention.ns << ", \"matmuls\": [";
  const char* separator = "";
  for (const auto& [shape, calls] : profile.matmuls) {
    text << separator << "{\"n\": " << shape.first << ", \"k\": " << shape.second << ", \"calls\": " << calls.count
         << ", \"ns\": " << calls.ns << '}';
    separator = ", ";
  }
  text << "]}";
  profile.attention = {};
  profile.matmuls.clear();
  return text.str();
}

/// Takes `tokens`, the first `prefill` of them as a prompt. Only the last token of a prompt needs logits.
std::string measure(Session& session, const std::vector<int64_t>& tokens, int64_t prefill) {
  std::string text;
  session.restart();
  auto start = Clock::now();
  feed(session, tokens, prefill, [&](int64_t rows) {
    if (session.position() >= prefill) session.logits(rows - 1);
    if (session.position() == prefill) {
      text = describe("prefill", prefill, ns_since(start));
      start = Clock::now();
    }
  });
  return text + ", " + describe("decode", session.position() - prefill, ns_since(start));
}

void write_timings(const Options& options, const Model& model, const std::vector<int64_t>& tokens) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (options.prefill < 1 || options.prefill >= count)
    throw std::runtime_error("--timings needs --prefill from 1 to " + std::to_string(count - 1));
  Session session(model);
  // Once for pages and arenas.
  const int64_t warm = std::min(options.prefill, kPart * qmm_num_threads());
  measure(session, {tokens.begin(), tokens.begin() + std::min(count, warm + 8)}, warm);
  profile.on = true;
  std::ofstream file(options.timings);
  file << "{\"threads\": " << qmm_num_threads() << ", " << measure(session, tokens, options.prefill) << "}\n";
  file.flush();
  if (!file) throw std::runtime_error(options.timings + " can not be written");
}

void generate(const Options& options, const Model& model, const std::vector<int64_t>& tokens) {
  Session session(model);
  auto start = Clock::now();
  Logits logits;
  feed(session, tokens, kContext, [&](int64_t rows) {
    if (session.position() == static_cast<int64_t>(tokens.size())) logits = session.logits(rows - 1);
  });
  const double prefill_seconds = 1e-9 * static_cast<double>(ns_since(start));

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
    session.advance(&token, 1);
    logits = session.logits(0);
    steps++;
  }
  const double decode_seconds = 1e-9 * static_cast<double>(ns_since(start));

  const double count = static_cast<double>(tokens.size());
  std::fprintf(stderr, "prefill  %6.1f tokens/s  (%zu tokens)\n", count / prefill_seconds, tokens.size());
  if (steps > 0)
    std::fprintf(stderr, "decode   %6.1f tokens/s  (%lld tokens)\n", static_cast<double>(steps) / decode_seconds,
                 static_cast<long long>(steps));
  std::fprintf(stderr, "threads  %lld\n", static_cast<long long>(qmm_num_threads()));
  const int64_t part = std::min(kPart, static_cast<int64_t>(tokens.size()));
  for (const auto& [name, rows] : {std::pair{"prefill", part}, std::pair{"decode", int64_t{1}}})
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
  if (!options.timings.empty())
    write_timings(options, model, tokens);
  else if (!options.logits.empty())
    write_logits(options, model, tokens);
  else
    generate(options, model, tokens);
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
