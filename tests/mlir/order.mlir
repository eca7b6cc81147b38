// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whatever comes before deallocation: a buffer is freed after the call that reads it. Wrappers inlined early, late or
// not at all.
// RUN: qmm-opt %s --pass-pipeline="builtin.module(qmm-lower-ops,inline,canonicalize,cse,one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},qmm-verify-calls,canonicalize,buffer-deallocation-pipeline,convert-bufferization-to-memref,canonicalize)" | FileCheck %s
// RUN: qmm-opt %s --pass-pipeline="builtin.module(qmm-lower-ops,one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},inline,canonicalize,cse,qmm-verify-calls,buffer-deallocation-pipeline,convert-bufferization-to-memref,canonicalize)" | FileCheck %s
// RUN: qmm-opt %s --pass-pipeline="builtin.module(qmm-lower-ops,one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},qmm-verify-calls,buffer-deallocation-pipeline,inline,convert-bufferization-to-memref,canonicalize)" | FileCheck %s

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// CHECK-LABEL: @chain
// CHECK: call @qmm_matmul_packed({{.*}})
// CHECK-NOT: memref.dealloc
// CHECK: call @qmm_matmul_packed({{.*}})
// CHECK: memref.dealloc
// CHECK: return
func.func @chain(%x: tensor<?x64xf32>, %w: tensor<?xi8>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%m) : tensor<?x64xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x64xf32>
  %1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%0, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x64xf32>
  return %1 : tensor<?x64xf32>
}
