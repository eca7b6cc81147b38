// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales and zero points that come as arguments: mins are computed of both, so their shapes must be one.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --qmm-lower-ops | FileCheck %s
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --qmm-lower-to-llvm | FileCheck %s --check-prefix=LLVM

// CHECK-LABEL: @unknown
// CHECK-COUNT-2: cf.assert {{.*}}, "quant.matmul_rhs_group_quant: scales and zps must have one shape"
// CHECK: linalg.generic
// LLVM-LABEL: @unknown
// LLVM: llvm.call @abort()
func.func @unknown(%x: tensor<3x16xf32>, %codes: tensor<?x16xui8>, %scales: tensor<?x?x1xf32>, %zps: tensor<?x?x1xf32>) -> tensor<3x?xf32> {
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %zps) {call_target_name = "quant.matmul_rhs_group_quant", backend_config = {bits = 8, group = 8}} : (tensor<3x16xf32>, tensor<?x16xui8>, tensor<?x?x1xf32>, tensor<?x?x1xf32>) -> tensor<3x?xf32>
  return %0 : tensor<3x?xf32>
}

// -----

// What is known was compared before. An extent of 1 need not be said.
// CHECK-LABEL: @known
// CHECK-NOT: cf.assert
// CHECK: tensor.cast {{.*}} tensor<4x2x?xf32> to tensor<4x2x1xf32>
// LLVM-LABEL: @known
func.func @known(%x: tensor<3x16xf32>, %codes: tensor<4x16xui8>, %scales: tensor<4x2x?xf32>, %zps: tensor<4x2x1xf32>) -> tensor<3x4xf32> {
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %zps) {call_target_name = "quant.matmul_rhs_group_quant", backend_config = {bits = 8, group = 8}} : (tensor<3x16xf32>, tensor<4x16xui8>, tensor<4x2x?xf32>, tensor<4x2x1xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
