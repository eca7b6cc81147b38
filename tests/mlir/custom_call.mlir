// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// stablehlo.custom_call in generic form, its dialect not registered.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --qmm-lower-ops --qmm-convert-types --canonicalize | FileCheck %s

// The targets of libqmm's handlers for XLA, typed: the same operands and attributes.
// CHECK-LABEL: @typed
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x64xf32>, %[[W:.*]]: tensor<1344xi8>) -> tensor<2x3x32xf32>
// CHECK: %[[S8:.*]] = arith.constant 1 : i64
// CHECK: call @qmm_matmul_packed.tensors(%{{.*}}, %{{.*}}, %[[S8]], %c32)
func.func @typed(%x: tensor<2x3x64xf32>, %w: tensor<1344xui8>) -> tensor<2x3x32xf32> {
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", api_version = 4 : i32, backend_config = {lhs = "s8"}, has_side_effect = false, operand_layouts = [dense<[2, 1, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>], called_computations = []} : (tensor<2x3x64xf32>, tensor<1344xui8>) -> tensor<2x3x32xf32>
  return %0 : tensor<2x3x32xf32>
}

// -----

// As JAX gives attributes.
// CHECK-LABEL: @jax
// CHECK: %[[S8:.*]] = arith.constant 1 : i64
// CHECK: call @qmm_matmul_packed.tensors(%{{.*}}, %{{.*}}, %[[S8]], %c32)
func.func @jax(%x: tensor<3x64xf32>, %w: tensor<1344xui8>) -> tensor<3x32xf32> {
  %0 = "stablehlo.custom_call"(%x, %w) <{call_target_name = "qmm_matmul_packed", backend_config = ""}> {mhlo.backend_config = {lhs = "s8"}} : (tensor<3x64xf32>, tensor<1344xui8>) -> tensor<3x32xf32>
  return %0 : tensor<3x32xf32>
}

// -----

// Operands without extent are not given.
// CHECK-LABEL: @grouped
// CHECK: call @qmm_matmul_grouped_f16.tensors
func.func @grouped(%x: tensor<3x64xf32>, %codes: tensor<48x32xui8>, %scales: tensor<48x2xf16>, %zeros: tensor<0x0xi8>, %mins: tensor<48x2xf16>) -> tensor<3x48xf32> {
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %zeros, %mins) {call_target_name = "qmm_matmul_grouped", api_version = 4 : i32, backend_config = {bits = 4 : i32, group = 32 : i64}} : (tensor<3x64xf32>, tensor<48x32xui8>, tensor<48x2xf16>, tensor<0x0xi8>, tensor<48x2xf16>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

// Packed weights that are opaque bytes: a pointer and a size, of the function and of the call.
// CHECK-LABEL: @external
// CHECK-SAME: (%[[X:.*]]: tensor<?x64xf32>, %[[P:.*]]: !llvm.ptr, %[[SIZE:.*]]: i64) -> tensor<?x32xf32>
// CHECK: call @qmm_matmul_packed_external.tensors(%{{.*}}, %[[P]], %[[SIZE]], %{{.*}}) : (tensor<?x?xf32>, !llvm.ptr, i64, i64, index)
// CHECK: func.func private @qmm_matmul_packed_external(memref<?x?xf32, strided<[?, ?], offset: ?>>, !llvm.ptr, i64, i64, memref<?x?xf32, strided<[?, ?], offset: ?>>) attributes {llvm.emit_c_interface}
func.func @external(%x: tensor<?x64xf32>, %w: tensor<1344xi8> {qmm.external = true}) -> tensor<?x32xf32> {
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", backend_config = ""} : (tensor<?x64xf32>, tensor<1344xi8>) -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// -----

// Any other target: operands, backend_config as a pointer and a size, results. A call with side effects stays, in its
// place, even if nobody reads it; one without goes.
// CHECK-LABEL: @foreign
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[P:.*]]: !llvm.ptr, %[[SIZE:.*]]: i64)
// CHECK-DAG: %[[LENGTH:.*]] = arith.constant 3 : i64
// CHECK-DAG: %[[CONFIG:.*]] = llvm.mlir.addressof @log.backend_config :
// CHECK: call @log.tensors(%{{.*}}, %[[CONFIG]], %[[LENGTH]]) : (tensor<?xf32>, !llvm.ptr, i64) -> ()
// CHECK-NOT: @pure
// CHECK: call @update.tensors(%{{.*}}, %[[P]], %[[SIZE]]) : (tensor<?xf32>, !llvm.ptr, i64) -> (tensor<4xf32>, tensor<f32>)
// CHECK: call @log.tensors
// CHECK: llvm.mlir.global internal constant @log.backend_config("hey")
// CHECK: func.func private @log(memref<?xf32, strided<[?], offset: ?>>, !llvm.ptr, i64) attributes {llvm.emit_c_interface}
// CHECK: func.func private @update(memref<?xf32, strided<[?], offset: ?>>, !llvm.ptr, i64, memref<?xf32, strided<[?], offset: ?>>, memref<f32, strided<[], offset: ?>>)
func.func @foreign(%x: tensor<4xf32>, %state: tensor<32xi8> {qmm.external = true}) -> tensor<4xf32> {
  "stablehlo.custom_call"(%x) {call_target_name = "log", backend_config = "hey", has_side_effect = true} : (tensor<4xf32>) -> ()
  %0 = "stablehlo.custom_call"(%x) {call_target_name = "pure"} : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = "stablehlo.custom_call"(%x, %state) {call_target_name = "update", has_side_effect = true} : (tensor<4xf32>, tensor<32xi8>) -> (tensor<4xf32>, tensor<f32>)
  "stablehlo.custom_call"(%1#0) {call_target_name = "log", backend_config = "you", has_side_effect = true} : (tensor<4xf32>) -> ()
  return %1#0 : tensor<4xf32>
}

// -----

// Of two that need not be given, one left out and one without extent.
// CHECK-LABEL: @neither
// CHECK: call @qmm_matmul_grouped_f16.tensors
func.func @neither(%x: tensor<3x64xf32>, %codes: tensor<48x32xui8>, %scales: tensor<48x2xf16>, %zeros: tensor<0x0xi8>) -> tensor<3x48xf32> {
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %zeros) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 32}} : (tensor<3x64xf32>, tensor<48x32xui8>, tensor<48x2xf16>, tensor<0x0xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}
