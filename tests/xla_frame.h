// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls as XLA makes them: typed ones, a call frame of tensors and attributes, and an error that comes back; and what
// an untyped one has for a status.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "abi/xla_ffi.h"
#include "qmm/xla.h"

struct XLA_FFI_Error {
  qmm::ffi::ErrorCode code;
  std::string message;
};

struct XlaCustomCallStatus_ {
  std::optional<std::string> message;
};

namespace qmm::test {

using ffi::Dtype;
using ffi::ErrorCode;
using ffi::Stage;

inline XLA_FFI_Error* create_error(ffi::ErrorCreateArgs* args) {
  // What XLA itself asks for: the struct up to its last field, without padding.
  EXPECT_GE(args->struct_size, offsetof(ffi::ErrorCreateArgs, code) + sizeof args->code);
  return new XLA_FFI_Error{args->code, args->message};
}

inline void set_failure(XlaCustomCallStatus_* status, const char* message, size_t size) {
  status->message.emplace(message, size);
}

struct Tensor {
  Dtype dtype;
  const void* data;
  std::vector<int64_t> extents;
};

struct Attribute {
  Attribute(const char* n, const char* text) : name(n), text(text), type(ffi::kString) {}
  Attribute(const char* n, int64_t value, Dtype d = Dtype::S64)
      : name(n), s64(value), s32(static_cast<int32_t>(value)), dtype(d), type(ffi::kScalar) {}
  std::string name, text;
  int64_t s64 = 0;
  int32_t s32 = 0;
  Dtype dtype = Dtype::S64;
  int type;
};

using Typed = XLA_FFI_Error*(XLA_FFI_CallFrame*);

// A call frame as XLA builds it.
struct Frame {
  std::vector<Tensor> operands, results;
  std::vector<Attribute> attributes;
  Stage stage = Stage::Execute;
  ffi::ApiVersion version = {sizeof(ffi::ApiVersion), nullptr, ffi::kMajor, ffi::kMinor};
  size_t size = sizeof(ffi::CallFrame), api_size = sizeof(ffi::Api);
  ffi::Extension* extensions = nullptr;
  int value_type = ffi::kBuffer;

  std::optional<XLA_FFI_Error> call(Typed* handler) {
    struct Values {
      std::vector<ffi::Buffer> buffers;
      std::vector<int> types;
      std::vector<void*> pointers;
      ffi::Values values;
    } in, out;
    const auto fill = [&](Values& v, std::vector<Tensor>& tensors) {
      for (Tensor& t : tensors)
        v.buffers.push_back({sizeof(ffi::Buffer), nullptr, t.dtype, const_cast<void*>(t.data),
                             static_cast<int64_t>(t.extents.size()), t.extents.data()});
      for (ffi::Buffer& buffer : v.buffers) v.pointers.push_back(&buffer);
      v.types.assign(tensors.size(), value_type);
      v.values = {sizeof v.values, nullptr, static_cast<int64_t>(tensors.size()), v.types.data(), v.pointers.data()};
    };
    fill(in, operands);
    fill(out, results);

    std::vector<ffi::Span> names, texts;
    std::vector<std::vector<char>> characters;  // of names and texts, with no terminator behind them
    std::vector<ffi::Scalar> scalars;
    std::vector<ffi::Span*> name_pointers;
    std::vector<void*> values;
    std::vector<int> types;
    for (Attribute& a : attributes) {
      names.push_back({characters.emplace_back(a.name.begin(), a.name.end()).data(), a.name.size()});
      texts.push_back({characters.emplace_back(a.text.begin(), a.text.end()).data(), a.text.size()});
      scalars.push_back({a.dtype, a.dtype == Dtype::S32 ? static_cast<void*>(&a.s32) : &a.s64});
      types.push_back(a.type);
    }
    for (size_t i = 0; i < attributes.size(); ++i) {
      name_pointers.push_back(&names[i]);
      values.push_back(types[i] == ffi::kString ? static_cast<void*>(&texts[i]) : &scalars[i]);
    }
    const ffi::Api api = {api_size, nullptr, version, nullptr, create_error};
    ffi::CallFrame frame = {size,
                            extensions,
                            &api,
                            nullptr,
                            stage,
                            in.values,
                            out.values,
                            {sizeof frame.attributes, nullptr, static_cast<int64_t>(attributes.size()), types.data(),
                             name_pointers.data(), values.data()}};
    XLA_FFI_Error* const error = handler(reinterpret_cast<XLA_FFI_CallFrame*>(&frame));
    if (error == nullptr) return std::nullopt;
    const XLA_FFI_Error copy = *error;
    delete error;
    return copy;
  }
};

}  // namespace qmm::test
