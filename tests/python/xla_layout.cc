// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// abi/xla_ffi.h beside the header of an installed jaxlib: the same sizes, offsets and numbers. Only compiled.
#include "abi/xla_ffi.h"
#include "qmm/xla.h"
#include "xla/ffi/api/c_api.h"

using namespace qmm;

#define SAME_SIZE(theirs, ours) static_assert(sizeof(theirs) == sizeof(ours) && alignof(theirs) == alignof(ours))
#define SAME_FIELD(theirs, their_field, ours, our_field)                      \
  static_assert(offsetof(theirs, their_field) == offsetof(ours, our_field) && \
                sizeof(theirs::their_field) == sizeof(ours::our_field))
#define SAME_VALUE(theirs, ours) static_assert(static_cast<int>(theirs) == static_cast<int>(ours))

SAME_VALUE(XLA_FFI_API_MAJOR, ffi::kMajor);
SAME_VALUE(XLA_FFI_API_MINOR, ffi::kMinor);

SAME_SIZE(XLA_FFI_Extension_Base, ffi::Extension);
SAME_FIELD(XLA_FFI_Extension_Base, struct_size, ffi::Extension, struct_size);
SAME_FIELD(XLA_FFI_Extension_Base, type, ffi::Extension, type);
SAME_FIELD(XLA_FFI_Extension_Base, next, ffi::Extension, next);
SAME_VALUE(XLA_FFI_Extension_Metadata, ffi::kMetadataExtension);

SAME_SIZE(XLA_FFI_Api_Version, ffi::ApiVersion);
SAME_FIELD(XLA_FFI_Api_Version, struct_size, ffi::ApiVersion, struct_size);
SAME_FIELD(XLA_FFI_Api_Version, extension_start, ffi::ApiVersion, extensions);
SAME_FIELD(XLA_FFI_Api_Version, major_version, ffi::ApiVersion, major);
SAME_FIELD(XLA_FFI_Api_Version, minor_version, ffi::ApiVersion, minor);

SAME_FIELD(XLA_FFI_Metadata, struct_size, ffi::Metadata, struct_size);
SAME_FIELD(XLA_FFI_Metadata, api_version, ffi::Metadata, version);
SAME_FIELD(XLA_FFI_Metadata, traits, ffi::Metadata, traits);
SAME_SIZE(XLA_FFI_Metadata_Extension, ffi::MetadataExtension);
SAME_FIELD(XLA_FFI_Metadata_Extension, extension_base, ffi::MetadataExtension, base);
SAME_FIELD(XLA_FFI_Metadata_Extension, metadata, ffi::MetadataExtension, metadata);

SAME_SIZE(XLA_FFI_Error_Create_Args, ffi::ErrorCreateArgs);
SAME_FIELD(XLA_FFI_Error_Create_Args, struct_size, ffi::ErrorCreateArgs, struct_size);
SAME_FIELD(XLA_FFI_Error_Create_Args, extension_start, ffi::ErrorCreateArgs, extensions);
SAME_FIELD(XLA_FFI_Error_Create_Args, message, ffi::ErrorCreateArgs, message);
SAME_FIELD(XLA_FFI_Error_Create_Args, errc, ffi::ErrorCreateArgs, code);
SAME_VALUE(XLA_FFI_Error_Code_INVALID_ARGUMENT, ffi::ErrorCode::InvalidArgument);
SAME_VALUE(XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, ffi::ErrorCode::ResourceExhausted);
SAME_VALUE(XLA_FFI_Error_Code_UNIMPLEMENTED, ffi::ErrorCode::Unimplemented);

SAME_FIELD(XLA_FFI_Api, struct_size, ffi::Api, struct_size);
SAME_FIELD(XLA_FFI_Api, extension_start, ffi::Api, extensions);
SAME_FIELD(XLA_FFI_Api, api_version, ffi::Api, version);
SAME_FIELD(XLA_FFI_Api, internal_api, ffi::Api, internal);
SAME_FIELD(XLA_FFI_Api, XLA_FFI_Error_Create, ffi::Api, create_error);

SAME_SIZE(XLA_FFI_Buffer, ffi::Buffer);
SAME_FIELD(XLA_FFI_Buffer, struct_size, ffi::Buffer, struct_size);
SAME_FIELD(XLA_FFI_Buffer, extension_start, ffi::Buffer, extensions);
SAME_FIELD(XLA_FFI_Buffer, dtype, ffi::Buffer, dtype);
SAME_FIELD(XLA_FFI_Buffer, data, ffi::Buffer, data);
SAME_FIELD(XLA_FFI_Buffer, rank, ffi::Buffer, rank);
SAME_FIELD(XLA_FFI_Buffer, dims, ffi::Buffer, extents);
SAME_VALUE(XLA_FFI_DataType_S8, ffi::Dtype::S8);
SAME_VALUE(XLA_FFI_DataType_S32, ffi::Dtype::S32);
SAME_VALUE(XLA_FFI_DataType_S64, ffi::Dtype::S64);
SAME_VALUE(XLA_FFI_DataType_U8, ffi::Dtype::U8);
SAME_VALUE(XLA_FFI_DataType_F16, ffi::Dtype::F16);
SAME_VALUE(XLA_FFI_DataType_F32, ffi::Dtype::F32);
SAME_VALUE(XLA_FFI_DataType_BF16, ffi::Dtype::BF16);

// Arguments and results are one struct here.
SAME_SIZE(XLA_FFI_Args, ffi::Values);
SAME_FIELD(XLA_FFI_Args, struct_size, ffi::Values, struct_size);
SAME_FIELD(XLA_FFI_Args, extension_start, ffi::Values, extensions);
SAME_FIELD(XLA_FFI_Args, size, ffi::Values, size);
SAME_FIELD(XLA_FFI_Args, types, ffi::Values, types);
SAME_FIELD(XLA_FFI_Args, args, ffi::Values, values);
SAME_SIZE(XLA_FFI_Rets, ffi::Values);
SAME_FIELD(XLA_FFI_Rets, size, ffi::Values, size);
SAME_FIELD(XLA_FFI_Rets, types, ffi::Values, types);
SAME_FIELD(XLA_FFI_Rets, rets, ffi::Values, values);
static_assert(sizeof(XLA_FFI_ArgType) == sizeof(int) && sizeof(XLA_FFI_RetType) == sizeof(int));
SAME_VALUE(XLA_FFI_ArgType_BUFFER, ffi::kBuffer);
SAME_VALUE(XLA_FFI_RetType_BUFFER, ffi::kBuffer);

SAME_SIZE(XLA_FFI_ByteSpan, ffi::Span);
SAME_FIELD(XLA_FFI_ByteSpan, ptr, ffi::Span, data);
SAME_FIELD(XLA_FFI_ByteSpan, len, ffi::Span, size);
SAME_SIZE(XLA_FFI_Scalar, ffi::Scalar);
SAME_FIELD(XLA_FFI_Scalar, dtype, ffi::Scalar, dtype);
SAME_FIELD(XLA_FFI_Scalar, value, ffi::Scalar, value);
SAME_SIZE(XLA_FFI_Attrs, ffi::Attributes);
SAME_FIELD(XLA_FFI_Attrs, struct_size, ffi::Attributes, struct_size);
SAME_FIELD(XLA_FFI_Attrs, extension_start, ffi::Attributes, extensions);
SAME_FIELD(XLA_FFI_Attrs, size, ffi::Attributes, size);
SAME_FIELD(XLA_FFI_Attrs, types, ffi::Attributes, types);
SAME_FIELD(XLA_FFI_Attrs, names, ffi::Attributes, names);
SAME_FIELD(XLA_FFI_Attrs, attrs, ffi::Attributes, values);
static_assert(sizeof(XLA_FFI_AttrType) == sizeof(int));
SAME_VALUE(XLA_FFI_AttrType_SCALAR, ffi::kScalar);
SAME_VALUE(XLA_FFI_AttrType_STRING, ffi::kString);

// XLA's size of a call frame ends with the attributes, though a field follows.
SAME_VALUE(XLA_FFI_CallFrame_STRUCT_SIZE, sizeof(ffi::CallFrame));
SAME_FIELD(XLA_FFI_CallFrame, struct_size, ffi::CallFrame, struct_size);
SAME_FIELD(XLA_FFI_CallFrame, extension_start, ffi::CallFrame, extensions);
SAME_FIELD(XLA_FFI_CallFrame, api, ffi::CallFrame, api);
SAME_FIELD(XLA_FFI_CallFrame, ctx, ffi::CallFrame, context);
SAME_FIELD(XLA_FFI_CallFrame, stage, ffi::CallFrame, stage);
SAME_FIELD(XLA_FFI_CallFrame, args, ffi::CallFrame, arguments);
SAME_FIELD(XLA_FFI_CallFrame, rets, ffi::CallFrame, results);
SAME_FIELD(XLA_FFI_CallFrame, attrs, ffi::CallFrame, attributes);
SAME_VALUE(XLA_FFI_ExecutionStage_EXECUTE, ffi::Stage::Execute);

// The handlers are what XLA takes them for.
XLA_FFI_Handler* const handlers[] = {qmm_xla_ffi_matmul_packed, qmm_xla_ffi_matmul_grouped, qmm_xla_ffi_rows_packed};
