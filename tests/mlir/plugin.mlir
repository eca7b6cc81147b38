// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-opt with the plugin does what qmm-opt does, down to LLVM IR.
// RUN: mlir-opt %s --load-pass-plugin=%plugin --allow-unregistered-dialect --pass-pipeline="builtin.module(qmm-lower-to-llvm)" -o %t.plugin
// RUN: qmm-opt %s --allow-unregistered-dialect --qmm-lower-to-llvm -o %t.own
// RUN: diff %t.plugin %t.own
// RUN: mlir-translate --mlir-to-llvmir %t.own | FileCheck %s

// CHECK-DAG: declare void @_mlir_ciface_qmm_matmul_packed(ptr, ptr, i64, ptr)
// CHECK-DAG: define void @_mlir_ciface_forward(ptr %0, ptr %1, ptr %2)
func.func @forward(%x: !torch.vtensor<[?,64],f32>, %w: !torch.vtensor<[1344],ui8>) -> !torch.vtensor<[?,32],f32> attributes {llvm.emit_c_interface} {
  %n = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = "s8"}> : () -> !torch.str
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[?,64],f32>, !torch.vtensor<[1344],ui8>, !torch.int, !torch.str) -> !torch.vtensor<[?,32],f32>
  return %0 : !torch.vtensor<[?,32],f32>
}
