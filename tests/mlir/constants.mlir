// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights that the program holds are packed: one constant each, aligned, however often they are used.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --qmm-lower-to-llvm | FileCheck %s

// Canonical ones, in three dialects. What arithmetic gives of constants is one.
// CHECK: llvm.mlir.global private constant @[[W:.*]](dense<"0x514D4D5041434B00{{.*}}> : tensor<384xi8>) {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<384 x i8>
// CHECK-NOT: llvm.mlir.global
// CHECK-LABEL: llvm.func @grouped
// CHECK: llvm.mlir.addressof @[[W]]
// CHECK-COUNT-3: llvm.call @qmm_matmul_packed(
func.func @grouped(%x: tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>) {
  %codes = "stablehlo.constant"() {value = dense<[[1, 2, 3, 254], [5, 6, 7, 8]]> : tensor<2x4xui8>} : () -> tensor<2x4xui8>
  %scales = arith.constant dense<[[1.5], [2.0]]> : tensor<2x1xf16>
  %0 = "stablehlo.custom_call"(%x, %codes, %scales) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 8}} : (tensor<?x8xf32>, tensor<2x4xui8>, tensor<2x1xf16>) -> tensor<?x2xf32>
  %codes_1 = arith.constant dense_resource<codes> : tensor<2x4xi8>
  %wide = arith.constant dense<[[1.5], [2.0]]> : tensor<2x1xf32>
  %scales_1 = arith.truncf %wide : tensor<2x1xf32> to tensor<2x1xf16>
  %1 = "stablehlo.custom_call"(%x, %codes_1, %scales_1) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 8}} : (tensor<?x8xf32>, tensor<2x4xi8>, tensor<2x1xf16>) -> tensor<?x2xf32>
  %bits = "torch.constant.int"() <{value = 4 : i64}> : () -> !torch.int
  %group = "torch.constant.int"() <{value = 8 : i64}> : () -> !torch.int
  %none = "torch.constant.none"() : () -> !torch.none
  %lhs = "torch.constant.str"() <{value = "f32"}> : () -> !torch.str
  %codes_2 = "torch.vtensor.literal"() <{value = dense<[[1, 2, 3, 254], [5, 6, 7, 8]]> : tensor<2x4xui8>}> : () -> !torch.vtensor<[2,4],ui8>
  %scales_2 = "torch.vtensor.literal"() <{value = dense<[[1.5], [2.0]]> : tensor<2x1xf16>}> : () -> !torch.vtensor<[2,1],f16>
  %2 = "torch.operator"(%x, %codes_2, %scales_2, %none, %bits, %group, %none, %lhs) <{name = "torch.quantized.matmul.grouped"}> : (tensor<?x8xf32>, !torch.vtensor<[2,4],ui8>, !torch.vtensor<[2,1],f16>, !torch.none, !torch.int, !torch.int, !torch.none, !torch.str) -> tensor<?x2xf32>
  return %0, %1, %2 : tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>
}

{-#
  dialect_resources: {
    builtin: {
      codes: "0x40000000010203FE05060708"
    }
  }
#-}

// -----

// Whose k neither x nor a group of a whole row tells: 4-bit codes of 7 or 8.
// CHECK-LABEL: llvm.func @any_k
// CHECK: llvm.call @qmm_matmul_grouped_f16
func.func @any_k(%x: tensor<?x?xf32>) -> tensor<?x1xf32> {
  %codes = arith.constant dense<7> : tensor<1x8xi8>
  %scales = arith.constant dense<1.0> : tensor<1x2xf16>
  %0 = "stablehlo.custom_call"(%x, %codes, %scales) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 8}} : (tensor<?x?xf32>, tensor<1x8xi8>, tensor<1x2xf16>) -> tensor<?x1xf32>
  return %0 : tensor<?x1xf32>
}

// -----

// CHECK-LABEL: llvm.func @whole_rows
// CHECK: llvm.call @qmm_matmul_packed
func.func @whole_rows(%x: tensor<?x?xf32>) -> tensor<?x1xf32> {
  %codes = arith.constant dense<7> : tensor<1x8xi8>
  %scales = arith.constant dense<1.0> : tensor<1x1xf16>
  %0 = "stablehlo.custom_call"(%x, %codes, %scales) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 15}} : (tensor<?x?xf32>, tensor<1x8xi8>, tensor<1x1xf16>) -> tensor<?x1xf32>
  return %0 : tensor<?x1xf32>
}
