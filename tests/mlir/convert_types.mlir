// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of torch and StableHLO become builtin and signless, through functions, calls and branches; literals as well.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics --qmm-convert-types | FileCheck %s

// CHECK-LABEL: func.func @main(%arg0: tensor<?x64xf32>, %arg1: i1) -> (tensor<4xi8>, tensor<?x64xf32>)
// CHECK-NEXT: %[[W:.*]] = arith.constant dense<[1, -1, 0, -128]> : tensor<4xi8>
// CHECK-NEXT: %[[V:.*]] = arith.constant dense_resource<bytes> : tensor<3xi8>
// CHECK-NEXT: %[[Y:.*]] = call @other(%arg0) : (tensor<?x64xf32>) -> tensor<?x64xf32>
// CHECK-NEXT: cf.cond_br %arg1, ^bb1(%[[Y]] : tensor<?x64xf32>), ^bb1(%arg0 : tensor<?x64xf32>)
// CHECK: "use"(%[[V]]) : (tensor<3xi8>) -> ()
// CHECK: return %[[W]], %{{.*}} : tensor<4xi8>, tensor<?x64xf32>
func.func @main(%x: !torch.vtensor<[?,64],f32>, %b: i1) -> (tensor<4xui8>, !torch.vtensor<[?,64],f32>) {
  %unused = "torch.constant.int"() <{value = 4 : i64}> : () -> !torch.int
  %w = "stablehlo.constant"() {value = dense<[1, 255, 0, 128]> : tensor<4xui8>} : () -> tensor<4xui8>
  %v = "torch.vtensor.literal"() {value = dense_resource<bytes> : tensor<3xui8>} : () -> !torch.vtensor<[3],ui8>
  %y = call @other(%x) : (!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32>
  cf.cond_br %b, ^out(%y : !torch.vtensor<[?,64],f32>), ^out(%x : !torch.vtensor<[?,64],f32>)
^out(%z: !torch.vtensor<[?,64],f32>):
  %t = "torch_c.to_builtin_tensor"(%v) : (!torch.vtensor<[3],ui8>) -> tensor<3xi8>
  "use"(%t) : (tensor<3xi8>) -> ()
  return %w, %z : tensor<4xui8>, !torch.vtensor<[?,64],f32>
}
// CHECK: func.func private @other(tensor<?x64xf32>) -> tensor<?x64xf32>
func.func private @other(!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32>

{-#
  dialect_resources: {
    builtin: {
      bytes: "0x40000000010203"
    }
  }
#-}

// -----

// What moves elements, in branches as well.
// CHECK-LABEL: func.func @moved(%arg0: tensor<4x6xi8>, %arg1: i1) -> (tensor<2x6xi8>, tensor<12xi8>)
// CHECK: %[[C:.*]] = arith.constant dense<-1> : tensor<2x6xi8>
// CHECK: %[[IF:.*]] = scf.if %arg1 -> (tensor<2x6xi8>)
// CHECK: %[[SLICE:.*]] = tensor.extract_slice %arg0[1, 0] [2, 6] [1, 1] : tensor<4x6xi8> to tensor<2x6xi8>
// CHECK: scf.yield %[[SLICE]] : tensor<2x6xi8>
// CHECK: scf.yield %[[C]] : tensor<2x6xi8>
// CHECK: arith.select %arg1, %[[IF]], %[[C]] : tensor<2x6xi8>
// CHECK: tensor.collapse_shape %[[IF]] {{\[\[}}0, 1]] : tensor<2x6xi8> into tensor<12xi8>
func.func @moved(%w: tensor<4x6xui8>, %b: i1) -> (tensor<2x6xui8>, tensor<12xui8>) {
  %c = arith.constant dense<255> : tensor<2x6xui8>
  %0 = scf.if %b -> tensor<2x6xui8> {
    %1 = tensor.extract_slice %w[1, 0] [2, 6] [1, 1] : tensor<4x6xui8> to tensor<2x6xui8>
    scf.yield %1 : tensor<2x6xui8>
  } else {
    scf.yield %c : tensor<2x6xui8>
  }
  %2 = arith.select %b, %0, %c : tensor<2x6xui8>
  %3 = tensor.collapse_shape %0 [[0, 1]] : tensor<2x6xui8> into tensor<12xui8>
  return %2, %3 : tensor<2x6xui8>, tensor<12xui8>
}

// -----

// MLIR takes what it does not know for what may end a block.
func.func @last() {
  "region"() ({
    // expected-error @below {{is left; it has to be lowered}}
    %0 = "torch.constant.int"() <{value = 4 : i64}> : () -> !torch.int
  }) : () -> ()
  return
}

// -----

func.func @left(%x: !torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32> {
  // expected-error @below {{is left; it has to be lowered, by torch-mlir or StableHLO, before qmm-convert-types}}
  %0 = "torch.aten.relu"(%x) : (!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,64],f32>
  return %0 : !torch.vtensor<[?,64],f32>
}

// -----

// expected-error @below {{failed to legalize}}
func.func @unranked(%x: !torch.vtensor<*,f32>) {
  return
}
