// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is called of XNNPACK's C API and of pthreadpool's. The package whose libraries are linked has no headers of
// theirs; the numbers and types are those of its version, which bench/requirements.txt pins.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct pthreadpool;
pthreadpool* pthreadpool_create(size_t threads);

struct xnn_subgraph;
struct xnn_runtime;

enum xnn_status { xnn_status_success = 0 };
enum xnn_datatype {
  xnn_datatype_fp32 = 1,
  xnn_datatype_qcint8 = 6,  // 8 bits, a scale for each channel
  xnn_datatype_qcint4 = 8,  // 4 bits, a scale for each channel
  xnn_datatype_qdint8 = 9,  // 8 bits, quantized as it comes, a scale for each row
  xnn_datatype_qbint4 = 12  // 4 bits, a scale for each block of a channel
};

constexpr uint32_t XNN_INVALID_VALUE_ID = UINT32_MAX;
constexpr uint32_t XNN_VALUE_FLAG_EXTERNAL_INPUT = 1;
constexpr uint32_t XNN_VALUE_FLAG_EXTERNAL_OUTPUT = 2;

struct xnn_external_value {
  uint32_t id;
  void* data;
};

// Where packed weights are kept.
struct xnn_weights_cache_provider {
  void* context;
  size_t (*look_up)(void* context, const void* key);
  void* (*reserve_space)(void* context, size_t size);
  size_t (*look_up_or_insert)(void* context, const void* key, void* packed, size_t size);
  bool (*is_finalized)(void* context);
  void* (*offset_to_addr)(void* context, size_t offset);
  xnn_status (*delete_cache)(void* context);
  xnn_status (*alias_data)(void* context, void* alias, void* original);
};

xnn_status xnn_initialize(const void* allocator);
xnn_status xnn_create_subgraph(uint32_t external_values, uint32_t flags, xnn_subgraph** subgraph);
xnn_status xnn_delete_subgraph(xnn_subgraph* subgraph);
xnn_status xnn_define_tensor_value(xnn_subgraph* subgraph, xnn_datatype type, size_t rank, const size_t* dims,
                                   const void* data, uint32_t external_id, uint32_t flags, uint32_t* id);
xnn_status xnn_define_dynamically_quantized_tensor_value(xnn_subgraph* subgraph, xnn_datatype type, size_t rank,
                                                         size_t inner_rank, const size_t* dims, uint32_t external_id,
                                                         uint32_t flags, uint32_t* id);
xnn_status xnn_define_channelwise_quantized_tensor_value_v2(xnn_subgraph* subgraph, xnn_datatype type, int32_t zero,
                                                            const float* scales, size_t rank, size_t channel_dim,
                                                            const size_t* dims, const void* data, uint32_t external_id,
                                                            uint32_t flags, uint32_t* id);
xnn_status xnn_define_blockwise_quantized_tensor_value(xnn_subgraph* subgraph, xnn_datatype type, int32_t zero,
                                                       const uint16_t* scales, size_t rank, size_t channel_dim,
                                                       size_t block, const size_t* dims, const void* data,
                                                       uint32_t external_id, uint32_t flags, uint32_t* id);
xnn_status xnn_define_convert(xnn_subgraph* subgraph, uint32_t input, uint32_t output, uint32_t flags);
xnn_status xnn_define_fully_connected(xnn_subgraph* subgraph, float output_min, float output_max, uint32_t input,
                                      uint32_t filter, uint32_t bias, uint32_t output, uint32_t flags);
xnn_status xnn_create_runtime_v3(xnn_subgraph* subgraph, xnn_weights_cache_provider* cache, pthreadpool* threads,
                                 uint32_t flags, xnn_runtime** runtime);
xnn_status xnn_reshape_runtime(xnn_runtime* runtime);
xnn_status xnn_setup_runtime_v2(xnn_runtime* runtime, size_t count, const xnn_external_value* values);
xnn_status xnn_invoke_runtime(xnn_runtime* runtime);
xnn_status xnn_delete_runtime(xnn_runtime* runtime);

}  // extern "C"
