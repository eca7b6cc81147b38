// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What leaves qmm-lower-to-llvm: symbols for C alone, and nothing but the LLVM dialect.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics --qmm-lower-to-llvm | FileCheck %s --implicit-check-not=_mlir_ciface_count

// Two models may be linked into one program: what is private, or made by a pass, is internal.
// CHECK-DAG: llvm.func internal @dealloc_helper(
// CHECK-DAG: llvm.func internal @count(
// CHECK-DAG: llvm.func @entry(
// CHECK-DAG: llvm.func @_mlir_ciface_entry(
func.func private @count(%n: i64) -> i64 attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %done = arith.cmpi sle, %n, %c0 : i64
  %r = scf.if %done -> i64 {
    scf.yield %c0 : i64
  } else {
    %less = arith.subi %n, %c1 : i64
    %0 = func.call @count(%less) : (i64) -> i64
    %1 = arith.addi %0, %c1 : i64
    scf.yield %1 : i64
  }
  return %r : i64
}
func.func @entry(%x: tensor<?xf32>, %n: i64) -> (tensor<?xf32>, i64) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %a, %b = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %x, %u = %x) -> (tensor<?xf32>, tensor<?xf32>) {
    %e = tensor.empty(%d) : tensor<?xf32>
    %z = linalg.add ins(%t, %u : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %z, %t : tensor<?xf32>, tensor<?xf32>
  }
  %m = call @count(%n) : (i64) -> i64
  return %a, %m : tensor<?xf32>, i64
}

// -----

// CHECK-LABEL: llvm.func @affine
// CHECK-NOT: affine.
func.func @affine(%x: memref<8xf32>) {
  affine.for %i = 0 to 8 {
    %a = affine.load %x[%i] : memref<8xf32>
    %b = arith.addf %a, %a : f32
    affine.store %b, %x[%i] : memref<8xf32>
  }
  return
}

// -----

// CHECK-LABEL: llvm.func @poison
// CHECK: llvm.mlir.poison
func.func @poison() -> f32 {
  %0 = ub.poison : f32
  return %0 : f32
}

// -----

func.func @left(%x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  // expected-error @below {{is left; nothing in qmm-lower-to-llvm lowers it}}
  linalg.softmax dimension(1) ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>)
  return
}
