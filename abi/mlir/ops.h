// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of ops for compilers in C++: whether arguments fit an op, and the call that it becomes. The rows are in
// ops.inc, which is generated of abi/python/libqmm/ops.py. Needs nothing but the standard library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qmm::ops {

/// An extent of a tensor, or an integer: 64 bits, or not known. What is computed of an unknown one is unknown (so is
/// what overflows), and comparisons with it hold: a condition holds unless it is known to fail.
class Extent {
 public:
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();  // as mlir::ShapedType::kDynamic

  constexpr Extent(int64_t value = kUnknown) : value_(value) {}  // NOLINT: as good as the integer
  constexpr bool known() const { return value_ != kUnknown; }
  constexpr int64_t value() const { return value_; }

  friend constexpr Extent operator+(Extent a, Extent b) {
    return of(a, b, [](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); });
  }
  friend constexpr Extent operator-(Extent a, Extent b) {
    return of(a, b, [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); });
  }
  friend constexpr Extent operator*(Extent a, Extent b) {
    return of(a, b, [](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); });
  }
  friend constexpr Extent operator-(Extent a) { return Extent(0) - a; }
  friend constexpr Extent operator%(Extent a, Extent b) { return a - floordiv(a, b) * b; }
  /// Rounds towards minus infinity, as Python does.
  friend constexpr Extent floordiv(Extent a, Extent b) {
    if (!a.known() || !b.known() || b.value_ == 0 || b.value_ == -1) return b.value_ == -1 ? -a : Extent();
    const int64_t quotient = a.value_ / b.value_;
    return quotient - (a.value_ % b.value_ != 0 && (a.value_ < 0) != (b.value_ < 0));
  }
  friend constexpr Extent max(Extent a, Extent b) {
    return !a.known() || !b.known() ? Extent() : std::max(a.value_, b.value_);
  }

  friend constexpr bool operator==(Extent a, Extent b) { return unknown(a, b) || a.value_ == b.value_; }
  friend constexpr bool operator!=(Extent a, Extent b) { return unknown(a, b) || a.value_ != b.value_; }
  friend constexpr bool operator<(Extent a, Extent b) { return unknown(a, b) || a.value_ < b.value_; }
  friend constexpr bool operator<=(Extent a, Extent b) { return unknown(a, b) || a.value_ <= b.value_; }
  friend constexpr bool operator>(Extent a, Extent b) { return unknown(a, b) || a.value_ > b.value_; }
  friend constexpr bool operator>=(Extent a, Extent b) { return unknown(a, b) || a.value_ >= b.value_; }

  friend std::ostream& operator<<(std::ostream& out, Extent extent) {
    return extent.known() ? out << extent.value_ : out << "?";
  }

 private:
  static constexpr bool unknown(Extent a, Extent b) { return !a.known() || !b.known(); }
  template <class Function>
  static constexpr Extent of(Extent a, Extent b, Function function) {
    int64_t result = 0;
    return unknown(a, b) || function(a.value_, b.value_, &result) ? Extent() : Extent(result);
  }

  int64_t value_;
};

/// An argument of an op.
struct Argument {
  enum Kind { kTensor, kInt, kChoice };
  std::string_view name;
  Kind kind;
  bool optional = false;            // a tensor that need not be given
  bool has_leading = false;         // of a tensor: any number of extents may lead, which the call folds into one
  int extents = 0;                  // of a tensor: the others
  std::string_view passed_as = {};  // the dtype in which the call takes a tensor, where it is not the tensor's own
  std::vector<std::pair<std::string_view, int64_t>> choices = {};  // the strings, and what the call takes for each
  std::string_view default_choice = {};                            // "" where one has to be given

  int rank() const { return has_leading + extents; }  // of the memref that the call takes

  /// Returns what the call takes for the string; nullptr if it is none of the choices.
  const int64_t* number(std::string_view string) const {
    for (const auto& choice : choices)
      if (choice.first == string) return &choice.second;
    return nullptr;
  }
};

/// An argument as a program gives it.
struct Given {
  enum Kind { kAbsent, kTensor, kInteger, kString };
  Kind kind = kAbsent;
  std::vector<Extent> shape;
  std::string dtype;  // "f32", "u8", ...; "8" where a type does not tell whether it has a sign
  Extent integer;
  std::string string;

  Extent operator[](size_t i) const { return kind == kTensor ? shape.at(i) : Extent(); }
  bool given() const { return kind != kAbsent; }

  friend std::ostream& operator<<(std::ostream& out, const Given& given) {
    if (given.kind == kInteger) return out << given.integer;
    if (given.kind != kTensor) return out << given.string;
    out << "[";
    for (size_t i = 0; i < given.shape.size(); ++i) out << (i == 0 ? "" : ", ") << given.shape[i];
    return out << "]";
  }
};

/// The call that an op with checked arguments becomes.
struct Call {
  struct Tensor {
    size_t argument;    // may be one that is absent: a tensor of extent 0 stands for it
    std::string dtype;  // in which it is passed: of the builtin type, without a sign
    int rank;
  };
  std::string callee;           // the entry point, without _mlir_ciface_
  std::vector<Tensor> tensors;  // after them the scalars, then the result, f32 [rows, columns]
  std::vector<int64_t> scalars;
  std::vector<Extent> shape;  // of the result, before leading extents are folded
  std::string dtype;          // of the result: f32 is rounded to it
};

/// What a row says beside its arguments.
struct Fit {
  std::vector<Extent> result;        // the extents of the result after the leading ones
  std::vector<std::string> allowed;  // the dtypes of each tensor, with a space between them
};

/// A row of the table.
struct Op {
  std::string_view name;                // in sentences
  std::vector<std::string_view> names;  // in programs
  std::vector<Argument> arguments;      // in the order of the schema
  std::string_view callee;              // "": the lowering makes another op of it
  int callee_dtype;                     // the tensor whose dtype ends the name of the callee, "_f16"; or -1
  std::vector<size_t> call;             // the arguments that the callee takes, in its order: tensors, then scalars
  int columns;                          // the integer that is the last extent of the result; or -1
  bool has_leading;                     // the leading extents of the result are those of the first argument
  std::string_view dtype;               // of the result
  int dtype_of;                         // instead: a tensor whose dtype is that of the result; or -1
  // Compares arguments of the right kinds and ranks. Returns "", or what does not fit; `fit` is filled in either case.
  std::string (*fit)(const std::vector<Given>& given, Fit& fit);
  // Of an op on packed weights: compares their shape, [n, k], with arguments that fit. Else nullptr.
  std::string (*fit_packed)(const std::vector<Given>& given, const Given& rhs);
};

template <class... Parts>
std::string say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

inline const std::vector<Op>& table() {
  static const std::vector<Op> rows = {
#include "ops.inc"
  };
  return rows;
}

/// Returns the op that a program means by `name`; nullptr if it is none of ours.
inline const Op* find_op(std::string_view name) {
  for (const Op& op : table())
    if (std::find(op.names.begin(), op.names.end(), name) != op.names.end()) return &op;
  return nullptr;
}

/// Whether a dtype is among `allowed`.
inline bool is_allowed(const std::string& dtype, const std::string& allowed) {
  std::istringstream in(allowed);
  for (std::string one; in >> one;)
    if (one == dtype || one.substr(1) == dtype) return true;
  return false;
}

/// Checks the number, kinds, choices and ranks of arguments. Returns "", or what does not fit.
inline std::string check_kinds(const Op& op, const std::vector<Given>& given) {
  if (given.size() != op.arguments.size())
    return say(op.name, ": ", given.size(), " operands; it takes ", op.arguments.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const Argument& argument = op.arguments[i];
    static constexpr Given::Kind kKinds[] = {Given::kTensor, Given::kInteger, Given::kString};
    static constexpr const char* kNames[] = {"a tensor", "an integer", "a string"};
    if (given[i].kind != kKinds[argument.kind] && !(argument.optional && !given[i].given()))
      return say(op.name, ": ", argument.name, " must be ", kNames[argument.kind]);
    if (argument.kind == Argument::kChoice && argument.number(given[i].string) == nullptr) {
      std::string choice;
      for (const auto& [name, number] : argument.choices) choice += say(choice.empty() ? "'" : ", '", name, "'");
      return say(op.name, ": ", argument.name, " is '", given[i].string, "'; it must be one of ", choice);
    }
    const int rank = static_cast<int>(given[i].shape.size());
    if (given[i].kind == Given::kTensor && argument.has_leading && rank < argument.extents)
      return say(op.name, ": ", argument.name, " has rank ", rank, "; it must have at least rank ", argument.extents);
    if (given[i].kind == Given::kTensor && !argument.has_leading && rank != argument.extents)
      return say(op.name, ": ", argument.name, " has rank ", rank, ", shape ", given[i], "; it must have rank ",
                 argument.extents);
  }
  return "";
}

/// Checks the dtypes of arguments whose kinds fit. Returns "", or what does not fit.
inline std::string check_dtypes(const Op& op, const std::vector<Given>& given, const Fit& fit) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].kind != Given::kTensor || is_allowed(given[i].dtype, fit.allowed[i])) continue;
    std::string choice = fit.allowed[i];
    for (size_t at = 0; (at = choice.find(' ', at)) != std::string::npos; at += 4) choice.replace(at, 1, " or ");
    return say(op.name, ": ", op.arguments[i].name, " is ", given[i].dtype, "; it must be ", choice);
  }
  return "";
}

/// Whether kinds and dtypes of arguments fit, whatever their extents are.
inline bool has_dtypes(const Op& op, const std::vector<Given>& given) {
  Fit fit;
  return check_kinds(op, given).empty() && (op.fit(given, fit), check_dtypes(op, given, fit).empty());
}

/// Checks the arguments of an op. Returns "" and the call, or a sentence that says, with the numbers, what does not
/// fit: that of the Python table.
inline std::string check(const Op& op, const std::vector<Given>& given, Call& call) {
  if (const std::string sentence = check_kinds(op, given); !sentence.empty()) return sentence;
  Fit fit;
  if (const std::string sentence = op.fit(given, fit); !sentence.empty()) return say(op.name, ": ", sentence);
  if (const std::string sentence = check_dtypes(op, given, fit); !sentence.empty()) return sentence;

  call = Call();
  call.callee = say(op.callee, op.callee_dtype < 0 ? "" : "_" + given[static_cast<size_t>(op.callee_dtype)].dtype);
  for (const size_t i : op.call) {
    const Argument& argument = op.arguments[i];
    if (argument.kind == Argument::kTensor) {
      std::string dtype = given[i].given() ? given[i].dtype : fit.allowed[i].substr(0, fit.allowed[i].find(' '));
      if (!argument.passed_as.empty()) dtype = argument.passed_as;
      if (dtype == "8" || dtype[0] == 'u') dtype = "i" + dtype.substr(dtype[0] == 'u');
      call.tensors.push_back({i, dtype, argument.rank()});
    } else {
      call.scalars.push_back(argument.kind == Argument::kChoice ? *argument.number(given[i].string)
                                                                : given[i].integer.value());
    }
  }
  if (op.has_leading) call.shape.assign(given[0].shape.begin(), given[0].shape.end() - op.arguments[0].extents);
  call.shape.insert(call.shape.end(), fit.result.begin(), fit.result.end());
  call.dtype = op.dtype_of < 0 ? std::string(op.dtype) : given[static_cast<size_t>(op.dtype_of)].dtype;
  return "";
}

}  // namespace qmm::ops
