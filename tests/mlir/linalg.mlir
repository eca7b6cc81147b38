// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// linalg.generic with a library_call, on tensors and, after bufferization, on memrefs.
// RUN: qmm-opt %s --split-input-file --qmm-lower-ops | FileCheck %s

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// n is the extent of the output.
// CHECK-LABEL: @tensors
// CHECK: %[[N:.*]] = arith.constant 32 : index
// CHECK: %[[Y:.*]] = call @qmm_matmul_packed.tensors(%{{.*}}, %{{.*}}, %{{.*}}, %[[N]])
// CHECK: %[[CAST:.*]] = tensor.cast %[[Y]] : tensor<?x?xf32> to tensor<?x32xf32>
// CHECK: return %[[CAST]]
func.func @tensors(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed{lhs = \"s8\"}"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%y : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k floordiv 2)>
#g = affine_map<(m, n, k) -> (n, k floordiv 32)>
#y = affine_map<(m, n, k) -> (m, n)>

// A body that is the matmul: correct without a library, through any pass. Of zeros and mins the operands fit one.
// CHECK-LABEL: @dequantizing
// CHECK: %[[MINS:.*]] = tensor.empty() : tensor<0x0xf32>
// CHECK: call @qmm_matmul_grouped_f32.tensors
// CHECK-NOT: linalg.generic
func.func @dequantizing(%x: tensor<?x64xf32>, %w: tensor<48x32xi8>, %s: tensor<48x2xf32>, %z: tensor<48x2xi8>) -> tensor<?x48xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%m) : tensor<?x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x48xf32>) -> tensor<?x48xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #g, #g, #y], iterator_types = ["parallel", "parallel", "reduction"], library_call = "quantized.matmul.grouped{bits = 4, group = 32}"}
    ins(%x, %w, %s, %z : tensor<?x64xf32>, tensor<48x32xi8>, tensor<48x2xf32>, tensor<48x2xi8>) outs(%init : tensor<?x48xf32>) {
  ^bb0(%a: f32, %b: i8, %scale: f32, %offset: i8, %sum: f32):
    %k = linalg.index 2 : index
    %one = arith.constant 1 : index
    %odd = arith.andi %k, %one : index
    %odd8 = arith.index_cast %odd : index to i8
    %two = arith.constant 2 : i8
    %shift = arith.shli %odd8, %two : i8
    %high = arith.shrui %b, %shift : i8
    %mask = arith.constant 15 : i8
    %code = arith.andi %high, %mask : i8
    %q = arith.subi %code, %offset : i8
    %f = arith.sitofp %q : i8 to f32
    %v = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %v : f32
    %t = arith.addf %sum, %p : f32
    linalg.yield %t : f32
  } -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// On memrefs: the call writes the output where it is, and the zeros before it go.
// CHECK-LABEL: @memrefs
// CHECK-NOT: linalg.fill
// CHECK: %[[X:.*]] = memref.cast %arg0 : memref<5x64xf32, strided<[128, 1], offset: 7>> to memref<?x?xf32, strided<[?, ?], offset: ?>>
// CHECK: %[[W:.*]] = memref.cast %arg1 : memref<1344xi8> to memref<?xi8, strided<[1], offset: ?>>
// CHECK: %[[Y:.*]] = memref.cast %arg2 : memref<5x32xf32, strided<[1, 5]>> to memref<?x?xf32, strided<[?, ?], offset: ?>>
// CHECK: call @qmm_matmul_packed(%[[X]], %[[W]], %{{.*}}, %[[Y]])
// CHECK-NOT: tensors
func.func @memrefs(%x: memref<5x64xf32, strided<[128, 1], offset: 7>>, %w: memref<1344xi8>, %y: memref<5x32xf32, strided<[1, 5]>>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<5x32xf32, strided<[1, 5]>>)
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : memref<5x64xf32, strided<[128, 1], offset: 7>>, memref<1344xi8>) outs(%y : memref<5x32xf32, strided<[1, 5]>>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    %t = arith.addf %a, %c : f32
    linalg.yield %t : f32
  }
  return
}

// -----

// Calls of other libraries stay.
// CHECK-LABEL: @others
// CHECK: linalg.generic {{.*}} library_call = "other_copy"
func.func @others(%x: memref<4xf32>, %y: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"], library_call = "other_copy"}
    ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// CHECK-LABEL: @entry_point
// CHECK: call @qmm_matmul_packed.tensors
func.func @entry_point(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "qmm_matmul_packed"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%y : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// CHECK-LABEL: @schema
// CHECK: call @qmm_matmul_packed.tensors
func.func @schema(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized::matmul.packed"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%y : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// CHECK-LABEL: @space
// CHECK: call @qmm_matmul_packed.tensors
func.func @space(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = " quantized.matmul.packed {lhs = \"s8\"}"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%y : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
