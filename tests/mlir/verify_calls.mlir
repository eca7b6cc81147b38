// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pointers taken out of memrefs are refused until deallocation is placed.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics --qmm-verify-calls

func.func private @qmm_matmul_packed(memref<?x?xf32, strided<[?, ?], offset: ?>>, memref<?xi8, strided<[1], offset: ?>>, i64, memref<?x?xf32, strided<[?, ?], offset: ?>>) attributes {llvm.emit_c_interface}
func.func @fine(%x: memref<?x?xf32, strided<[?, ?], offset: ?>>, %w: memref<?xi8, strided<[1], offset: ?>>, %lhs: i64, %y: memref<?x?xf32, strided<[?, ?], offset: ?>>) -> index {
  %0 = arith.constant 0 : index
  call @qmm_matmul_packed(%x, %w, %lhs, %y) : (memref<?x?xf32, strided<[?, ?], offset: ?>>, memref<?xi8, strided<[1], offset: ?>>, i64, memref<?x?xf32, strided<[?, ?], offset: ?>>) -> ()
  %size = memref.dim %x, %0 : memref<?x?xf32, strided<[?, ?], offset: ?>>
  %parts:6 = memref.extract_strided_metadata %x : memref<?x?xf32, strided<[?, ?], offset: ?>> -> memref<f32>, index, index, index, index, index
  return %size : index
}

// -----

func.func private @kernel(i64)
func.func @dug_out() {
  %x = memref.alloc() : memref<4xf32>
  // expected-error @below {{takes a pointer out of a memref before deallocation is placed}}
  %0 = memref.extract_aligned_pointer_as_index %x : memref<4xf32> -> index
  %1 = arith.index_cast %0 : index to i64
  call @kernel(%1) : (i64) -> ()
  return
}

// -----

func.func @descriptor(%x: memref<4xf32>) -> !llvm.ptr {
  // expected-error @below {{takes a pointer out of a memref before deallocation is placed}}
  %0 = builtin.unrealized_conversion_cast %x : memref<4xf32> to !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  %1 = llvm.extractvalue %0[1] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  return %1 : !llvm.ptr
}

// -----

func.func private @qmm_rows_packed(tensor<?xi64>)
func.func @tensors(%x: tensor<?xi64>) {
  // expected-error @below {{operand 0 of @qmm_rows_packed is 'tensor<?xi64>'; bufferize before this pass}}
  call @qmm_rows_packed(%x) : (tensor<?xi64>) -> ()
  return
}

// -----

func.func private @address(memref<4xi8>) -> !llvm.ptr
func.func private @qmm_rows_packed_external(!llvm.ptr, i64)
func.func @by_a_call(%x: memref<4xi8>, %size: i64) {
  // expected-error @below {{takes a pointer out of a memref before deallocation is placed}}
  %0 = call @address(%x) : (memref<4xi8>) -> !llvm.ptr
  return
}
func.func @from_elsewhere(%size: i64) {
  %0 = "other.pointer"() : () -> !llvm.ptr
  // expected-error @below {{operand 0 of @qmm_rows_packed_external is a pointer; only an argument of the function can be one}}
  call @qmm_rows_packed_external(%0, %size) : (!llvm.ptr, i64) -> ()
  return
}
func.func @given(%pointer: !llvm.ptr, %size: i64) {
  call @qmm_rows_packed_external(%pointer, %size) : (!llvm.ptr, i64) -> ()
  return
}

// -----

func.func @by_another_dialect(%x: memref<4xi8>) {
  // expected-error @below {{takes a pointer out of a memref before deallocation is placed}}
  %0 = "other.pointer"(%x) : (memref<4xi8>) -> !llvm.ptr
  // expected-error @below {{takes a pointer out of a memref before deallocation is placed}}
  %1 = "other.handle"(%x) : (memref<4xi8>) -> !other.handle
  return
}

// -----

// Whatever is called: the wrapper of any target.
func.func private @update.tensors(tensor<?xf32>)
func.func @foreign_tensors(%x: tensor<?xf32>) {
  // expected-error @below {{operand 0 of @update.tensors is 'tensor<?xf32>'; bufferize before this pass}}
  call @update.tensors(%x) : (tensor<?xf32>) -> ()
  return
}
