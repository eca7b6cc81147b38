// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What XLA's CPU client passes to a typed handler: the binary interface of its FFI, version 0.3 and up, as far as it is
// used here. Each struct starts with its size, and later versions append; the first field not here is `future`, by
// which a handler would go on after it returns. tests/python/xla_layout.cc compares all of it with the header of
// jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>

struct XLA_FFI_Error;  // made by XLA, freed by XLA

namespace qmm::ffi {

constexpr int kMajor = 0;
constexpr int kMinor = 3;  // the one that was compared

struct Extension {
  size_t struct_size;
  int type;
  Extension* next;
};
constexpr int kMetadataExtension = 1;

struct ApiVersion {
  size_t struct_size;
  Extension* extensions;
  int major, minor;
};

// A frame with this extension asks what the handler is, and is no call.
struct Metadata {
  size_t struct_size;
  ApiVersion version;
  uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

enum class ErrorCode : int { InvalidArgument = 3, ResourceExhausted = 8, Unimplemented = 12 };
struct ErrorCreateArgs {
  size_t struct_size;
  Extension* extensions;
  const char* message;  // copied
  ErrorCode code;
};

// The runtime's functions, of which this one is the first.
struct Api {
  size_t struct_size;
  Extension* extensions;
  ApiVersion version;
  const void* internal;
  XLA_FFI_Error* (*create_error)(ErrorCreateArgs*);
};

enum class Dtype : int { S8 = 2, S32 = 4, S64 = 5, U8 = 6, F16 = 10, F32 = 11, BF16 = 16 };

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  Dtype dtype;
  void* data;
  int64_t rank;
  int64_t* extents;
};
constexpr int kBuffer = 1;  // the only type of arguments and results

// Arguments, or results.
struct Values {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  void** values;
};

struct Span {
  const char* data;
  size_t size;
};
struct Scalar {
  Dtype dtype;
  void* value;
};
constexpr int kScalar = 3;  // types of attributes
constexpr int kString = 4;  // a Span

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Span** names;
  void** values;
};

enum class Stage : int { Execute = 3 };

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  Stage stage;
  Values arguments;
  Values results;
  Attributes attributes;
};

}  // namespace qmm::ffi
