// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.operator in generic form, its dialect not registered: names, ranks, dtypes, arguments that are not given.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --qmm-lower-ops | FileCheck %s

// CHECK-LABEL: @rank_2
// CHECK: %[[X:.*]] = "torch_c.to_builtin_tensor"(%arg0) : (!torch.vtensor<[?,64],f32>) -> tensor<?x64xf32>
// CHECK: %[[X2:.*]] = tensor.cast %[[X]] : tensor<?x64xf32> to tensor<?x?xf32>
// CHECK: %[[W:.*]] = "torch_c.to_builtin_tensor"(%arg1) : (!torch.vtensor<[1344],ui8>) -> tensor<1344xi8>
// CHECK: %[[W1:.*]] = tensor.cast %[[W]] : tensor<1344xi8> to tensor<?xi8>
// CHECK: %[[S8:.*]] = arith.constant 1 : i64
// CHECK: %[[N:.*]] = arith.constant 32 : index
// CHECK: %[[Y:.*]] = call @qmm_matmul_packed.tensors(%[[X2]], %[[W1]], %[[S8]], %[[N]]) : (tensor<?x?xf32>, tensor<?xi8>, i64, index) -> tensor<?x?xf32>
// CHECK: %[[YN:.*]] = tensor.cast %[[Y]] : tensor<?x?xf32> to tensor<?x32xf32>
// CHECK: "torch_c.from_builtin_tensor"(%[[YN]]) : (tensor<?x32xf32>) -> !torch.vtensor<[?,32],f32>
// CHECK-NOT: torch.operator
func.func @rank_2(%x: !torch.vtensor<[?,64],f32>, %w: !torch.vtensor<[1344],ui8>) -> !torch.vtensor<[?,32],f32> {
  %n = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = "s8"}> : () -> !torch.str
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[?,64],f32>, !torch.vtensor<[1344],ui8>, !torch.int, !torch.str) -> !torch.vtensor<[?,32],f32>
  return %0 : !torch.vtensor<[?,32],f32>
}

// The declaration, for C, and the wrapper.
// CHECK: func.func private @qmm_matmul_packed(memref<?x?xf32, strided<[?, ?], offset: ?>>, memref<?xi8, strided<[1], offset: ?>>, i64, memref<?x?xf32, strided<[?, ?], offset: ?>>) attributes {llvm.emit_c_interface}
// CHECK: func.func private @qmm_matmul_packed.tensors(
// CHECK-SAME: %[[T:.*]]: tensor<?x?xf32> {bufferization.buffer_layout = affine_map<(d0, d1)[s0, s1, s2] -> (d0 * s1 + s0 + d1 * s2)>}
// CHECK-SAME: %[[P:.*]]: tensor<?xi8> {bufferization.buffer_layout = affine_map<(d0)[s0, s1] -> (d0 * s1 + s0)>}
// CHECK-SAME: %[[L:.*]]: i64, %[[C:.*]]: index) -> tensor<?x?xf32>
// CHECK: %[[XM:.*]] = bufferization.to_memref %[[T]] read_only
// CHECK: %[[ANY:.*]] = bufferization.to_memref %[[P]] read_only : memref<?xi8, strided<[?], offset: ?>>
// CHECK: %[[WM:.*]] = memref.cast %[[ANY]] : memref<?xi8, strided<[?], offset: ?>> to memref<?xi8, strided<[1], offset: ?>>
// CHECK: %[[M:.*]] = tensor.dim %[[T]], %c0
// CHECK: %[[A:.*]] = memref.alloc(%[[M]], %[[C]]) {alignment = 64 : i64} : memref<?x?xf32>
// CHECK: %[[YM:.*]] = memref.cast %[[A]]
// CHECK: call @qmm_matmul_packed(%[[XM]], %[[WM]], %[[L]], %[[YM]])
// CHECK: bufferization.to_tensor %[[A]] restrict writable

// -----

// One wrapper serves all calls; names as TorchScript's importer spells them, and constants of other dialects.
// CHECK-LABEL: @ranks
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2]] : tensor<2x?x64xf32> into tensor<?x64xf32>
// CHECK: call @qmm_matmul_packed.tensors
// CHECK: %[[ROWS:.*]] = tensor.cast %{{.*}} : tensor<?x?xf32> to tensor<?x32xf32>
// CHECK: tensor.expand_shape %[[ROWS]] {{\[\[}}0, 1], [2]] output_shape [2, %{{.*}}, 32] : tensor<?x32xf32> into tensor<2x?x32xf32>
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0, 1]] output_shape [1, 64] : tensor<64xf32> into tensor<1x64xf32>
// CHECK: call @qmm_matmul_packed.tensors
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1]] : tensor<1x32xf32> into tensor<32xf32>
// CHECK-COUNT-1: func.func private @qmm_matmul_packed.tensors
func.func @ranks(%x3: tensor<2x?x64xf32>, %x1: tensor<64xf32>, %w: tensor<?xi8>) -> (tensor<2x?x32xf32>, tensor<32xf32>) {
  %n = arith.constant 32 : i64
  %lhs = "torch.constant.str"() <{value = "f32"}> : () -> !torch.str
  %0 = "torch.operator"(%x3, %w, %n, %lhs) {name = "quantized.matmul.packed"} : (tensor<2x?x64xf32>, tensor<?xi8>, i64, !torch.str) -> tensor<2x?x32xf32>
  %1 = "torch.operator"(%x1, %w, %n, %lhs) {name = "quantized.matmul"} : (tensor<64xf32>, tensor<?xi8>, i64, !torch.str) -> tensor<32xf32>
  return %0, %1 : tensor<2x?x32xf32>, tensor<32xf32>
}

// -----

// What is not given is an empty tensor; half precision is widened, and the result rounded.
// CHECK-LABEL: @grouped
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} ins(%{{.*}} : tensor<3x64xf16>) outs(%{{.*}} : tensor<3x64xf32>)
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: %[[ZEROS:.*]] = tensor.empty() : tensor<0x0xi8>
// CHECK: %[[ZEROS2:.*]] = tensor.cast %[[ZEROS]]
// CHECK: %[[BITS:.*]] = arith.constant 4 : i64
// CHECK: %[[GROUP:.*]] = arith.constant 32 : i64
// CHECK: %[[LHS:.*]] = arith.constant 2 : i64
// CHECK: %[[N:.*]] = tensor.dim %{{.*}}, %c0{{.*}} : tensor<?x32xi8>
// CHECK: call @qmm_matmul_grouped_bf16.tensors(%{{.*}}, %{{.*}}, %{{.*}}, %[[ZEROS2]], %{{.*}}, %[[BITS]], %[[GROUP]], %[[LHS]], %[[N]]) : (tensor<?x?xf32>, tensor<?x?xi8>, tensor<?x?xbf16>, tensor<?x?xi8>, tensor<?x?xbf16>, i64, i64, i64, index) -> tensor<?x?xf32>
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: "torch_c.from_builtin_tensor"(%{{.*}}) : (tensor<3x?xf16>) -> !torch.vtensor<[3,?],f16>
func.func @grouped(%x: !torch.vtensor<[3,64],f16>, %codes: !torch.vtensor<[?,32],ui8>, %scales: !torch.vtensor<[?,2],bf16>, %mins: !torch.vtensor<[?,2],bf16>) -> !torch.vtensor<[3,?],f16> {
  %none = "torch.constant.none"() : () -> !torch.none
  %bits = "torch.constant.int"() <{value = 4 : i64}> : () -> !torch.int
  %group = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = "s8_token"}> : () -> !torch.str
  %0 = "torch.operator"(%x, %codes, %scales, %none, %bits, %group, %mins, %lhs) <{name = "torch.quantized.matmul.grouped"}> : (!torch.vtensor<[3,64],f16>, !torch.vtensor<[?,32],ui8>, !torch.vtensor<[?,2],bf16>, !torch.none, !torch.int, !torch.int, !torch.vtensor<[?,2],bf16>, !torch.str) -> !torch.vtensor<[3,?],f16>
  return %0 : !torch.vtensor<[3,?],f16>
}

// -----

// Rows of weights: dense rows of the result, ids of any rank, widened.
// CHECK-LABEL: @embedding
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK: tensor.expand_shape %{{.*}} [] output_shape [1] : tensor<i64> into tensor<1xi64>
// CHECK: call @qmm_rows_packed.tensors(%{{.*}}) : (tensor<?xi64>, tensor<?xi8>, index) -> tensor<?x?xf32>
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1]] : tensor<1x64xf32> into tensor<64xf32>
// CHECK: func.func private @qmm_rows_packed(memref<?xi64, strided<[1], offset: ?>>, memref<?xi8, strided<[1], offset: ?>>, memref<?x?xf32, strided<[?, 1], offset: ?>>)
func.func @embedding(%ids: !torch.vtensor<[],si32>, %w: !torch.vtensor<[?],ui8>) -> !torch.vtensor<[64],f32> {
  %k = "torch.constant.int"() <{value = 64 : i64}> : () -> !torch.int
  %0 = "torch.operator"(%ids, %w, %k) <{name = "torch.quantized.embedding.packed"}> : (!torch.vtensor<[],si32>, !torch.vtensor<[?],ui8>, !torch.int) -> !torch.vtensor<[64],f32>
  return %0 : !torch.vtensor<[64],f32>
}

// -----

// Ops of others stay.
// CHECK-LABEL: @others
// CHECK: "torch.operator"(%arg0) <{name = "torch.other.matmul"}>
func.func @others(%x: !torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32> {
  %0 = "torch.operator"(%x) <{name = "torch.other.matmul"}> : (!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32>
  return %0 : !torch.vtensor<[?,64],f32>
}
