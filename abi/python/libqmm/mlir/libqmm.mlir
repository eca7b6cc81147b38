// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written by `./dev generate` from abi/python/libqmm/ops.py.
module {
  func.func private @"__torch_mlir_shape_fn.quantized.matmul.packed"(%x: !torch.list<int>, %packed: !torch.list<int>, %n: !torch.int, %lhs: !torch.str) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quantized::matmul.packed: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.str "quantized::matmul.packed: packed has rank {}, shape {}; it must have rank {}"
    %c4 = torch.constant.str "f32"
    %c5 = torch.constant.str "s8"
    %c6 = torch.constant.str "s8_token"
    %c7 = torch.constant.bool true
    %c8 = torch.constant.str "quantized::matmul.packed: lhs is '{}'; it must be one of 'f32', 's8', 's8_token'"
    %c9 = torch.constant.int 0
    %c10 = torch.constant.str "quantized::matmul.packed: n is {}; it must not be negative"
    %c11 = torch.constant.int -1
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %packed : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c3, %4, %packed, %c0) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.eq.str %lhs, %c4 : !torch.str, !torch.str -> !torch.bool
    %9 = torch.prim.If %8 -> (!torch.bool) {
      torch.prim.If.yield %c7 : !torch.bool
    } else {
      %10 = torch.aten.eq.str %lhs, %c5 : !torch.str, !torch.str -> !torch.bool
      %11 = torch.prim.If %10 -> (!torch.bool) {
        torch.prim.If.yield %c7 : !torch.bool
      } else {
        %12 = torch.aten.eq.str %lhs, %c6 : !torch.str, !torch.str -> !torch.bool
        torch.prim.If.yield %12 : !torch.bool
      }
      torch.prim.If.yield %11 : !torch.bool
    }
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %14 = torch.aten.format(%c8, %lhs) : !torch.str, !torch.str -> !torch.str
      torch.prim.RaiseException %14, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %15 = torch.aten.ge.int %n, %c9 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %15 -> () {
      torch.prim.If.yield
    } else {
      %17 = torch.aten.format(%c10, %n) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %17, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %18 = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
    %19 = torch.aten.slice.t %x, %c9, %c11, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %20 = torch.aten.add.t %19, %18 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %20 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.quantized.matmul.packed"(%x: !torch.tuple<int, int>, %packed: !torch.tuple<int, int>, %n: !torch.int, %lhs: !torch.str) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quantized::matmul.packed: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 0
    %c7 = torch.constant.str "quantized::matmul.packed: packed is of torch's ScalarType {}; it must be u8"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %packed : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %8#1, %c6 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c7, %8#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.quantized.matmul.packed"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.torch.quantized.matmul.packed"(%x: !torch.list<int>, %packed: !torch.list<int>, %n: !torch.int, %lhs: !torch.str) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quantized::matmul.packed: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.str "quantized::matmul.packed: packed has rank {}, shape {}; it must have rank {}"
    %c4 = torch.constant.str "f32"
    %c5 = torch.constant.str "s8"
    %c6 = torch.constant.str "s8_token"
    %c7 = torch.constant.bool true
    %c8 = torch.constant.str "quantized::matmul.packed: lhs is '{}'; it must be one of 'f32', 's8', 's8_token'"
    %c9 = torch.constant.int 0
    %c10 = torch.constant.str "quantized::matmul.packed: n is {}; it must not be negative"
    %c11 = torch.constant.int -1
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %packed : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c3, %4, %packed, %c0) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.eq.str %lhs, %c4 : !torch.str, !torch.str -> !torch.bool
    %9 = torch.prim.If %8 -> (!torch.bool) {
      torch.prim.If.yield %c7 : !torch.bool
    } else {
      %10 = torch.aten.eq.str %lhs, %c5 : !torch.str, !torch.str -> !torch.bool
      %11 = torch.prim.If %10 -> (!torch.bool) {
        torch.prim.If.yield %c7 : !torch.bool
      } else {
        %12 = torch.aten.eq.str %lhs, %c6 : !torch.str, !torch.str -> !torch.bool
        torch.prim.If.yield %12 : !torch.bool
      }
      torch.prim.If.yield %11 : !torch.bool
    }
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %14 = torch.aten.format(%c8, %lhs) : !torch.str, !torch.str -> !torch.str
      torch.prim.RaiseException %14, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %15 = torch.aten.ge.int %n, %c9 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %15 -> () {
      torch.prim.If.yield
    } else {
      %17 = torch.aten.format(%c10, %n) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %17, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %18 = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
    %19 = torch.aten.slice.t %x, %c9, %c11, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %20 = torch.aten.add.t %19, %18 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %20 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.torch.quantized.matmul.packed"(%x: !torch.tuple<int, int>, %packed: !torch.tuple<int, int>, %n: !torch.int, %lhs: !torch.str) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quantized::matmul.packed: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 0
    %c7 = torch.constant.str "quantized::matmul.packed: packed is of torch's ScalarType {}; it must be u8"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %packed : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %8#1, %c6 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c7, %8#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.torch.quantized.matmul.packed"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.quantized.matmul"(%x: !torch.list<int>, %packed: !torch.list<int>, %n: !torch.int, %lhs: !torch.str) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quantized::matmul.packed: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.str "quantized::matmul.packed: packed has rank {}, shape {}; it must have rank {}"
    %c4 = torch.constant.str "f32"
    %c5 = torch.constant.str "s8"
    %c6 = torch.constant.str "s8_token"
    %c7 = torch.constant.bool true
    %c8 = torch.constant.str "quantized::matmul.packed: lhs is '{}'; it must be one of 'f32', 's8', 's8_token'"
    %c9 = torch.constant.int 0
    %c10 = torch.constant.str "quantized::matmul.packed: n is {}; it must not be negative"
    %c11 = torch.constant.int -1
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %packed : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c3, %4, %packed, %c0) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.eq.str %lhs, %c4 : !torch.str, !torch.str -> !torch.bool
    %9 = torch.prim.If %8 -> (!torch.bool) {
      torch.prim.If.yield %c7 : !torch.bool
    } else {
      %10 = torch.aten.eq.str %lhs, %c5 : !torch.str, !torch.str -> !torch.bool
      %11 = torch.prim.If %10 -> (!torch.bool) {
        torch.prim.If.yield %c7 : !torch.bool
      } else {
        %12 = torch.aten.eq.str %lhs, %c6 : !torch.str, !torch.str -> !torch.bool
        torch.prim.If.yield %12 : !torch.bool
      }
      torch.prim.If.yield %11 : !torch.bool
    }
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %14 = torch.aten.format(%c8, %lhs) : !torch.str, !torch.str -> !torch.str
      torch.prim.RaiseException %14, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %15 = torch.aten.ge.int %n, %c9 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %15 -> () {
      torch.prim.If.yield
    } else {
      %17 = torch.aten.format(%c10, %n) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %17, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %18 = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
    %19 = torch.aten.slice.t %x, %c9, %c11, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %20 = torch.aten.add.t %19, %18 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %20 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.quantized.matmul"(%x: !torch.tuple<int, int>, %packed: !torch.tuple<int, int>, %n: !torch.int, %lhs: !torch.str) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quantized::matmul.packed: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 0
    %c7 = torch.constant.str "quantized::matmul.packed: packed is of torch's ScalarType {}; it must be u8"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %packed : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %8#1, %c6 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c7, %8#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.quantized.matmul"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.quantized.matmul.grouped"(%x: !torch.list<int>, %codes: !torch.list<int>, %scales: !torch.list<int>, %zeros: !torch.optional<list<int>>, %bits: !torch.int, %group: !torch.int, %mins: !torch.optional<list<int>>, %lhs: !torch.str) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quantized::matmul.grouped: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.int 2
    %c4 = torch.constant.str "quantized::matmul.grouped: codes has rank {}, shape {}; it must have rank {}"
    %c5 = torch.constant.str "quantized::matmul.grouped: scales has rank {}, shape {}; it must have rank {}"
    %c6 = torch.constant.str "quantized::matmul.grouped: zeros has rank {}, shape {}; it must have rank {}"
    %c7 = torch.constant.str "quantized::matmul.grouped: mins has rank {}, shape {}; it must have rank {}"
    %c8 = torch.constant.str "f32"
    %c9 = torch.constant.str "s8"
    %c10 = torch.constant.str "s8_token"
    %c11 = torch.constant.bool true
    %c12 = torch.constant.str "quantized::matmul.grouped: lhs is '{}'; it must be one of 'f32', 's8', 's8_token'"
    %c13 = torch.constant.int -1
    %c14 = torch.constant.int 0
    %c15 = torch.constant.int 7
    %c16 = torch.constant.int 8
    %c17 = torch.constant.int 4
    %c18 = torch.constant.str "quantized::matmul.grouped: bits is {}; it must be 4 or 8"
    %c19 = torch.constant.str "quantized::matmul.grouped: give zeros or mins, not both"
    %c20 = torch.constant.bool false
    %c21 = torch.constant.str "quantized::matmul.grouped: codes {} do not fit x {}: k = {} at {} bits takes {} bytes a row"
    %c22 = torch.constant.str "quantized::matmul.grouped: group is {}; it must be a multiple of 8 up to k, or k = {}"
    %c23 = torch.constant.str "quantized::matmul.grouped: group is {}; it must not be negative"
    %c24 = torch.constant.str "quantized::matmul.grouped: scales {} must be [{}, {}] for codes {}, group {}"
    %c25 = torch.constant.str "quantized::matmul.grouped: zeros {} must be [{}, {}] for codes {}, group {}"
    %c26 = torch.constant.str "quantized::matmul.grouped: mins {} must be [{}, {}] for codes {}, group {}"
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %codes : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %4, %codes, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.len.t %scales : !torch.list<int> -> !torch.int
    %9 = torch.aten.eq.int %8, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c5, %8, %scales, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %12 = torch.aten.__is__ %zeros, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    torch.prim.If %12 -> () {
      torch.prim.If.yield
    } else {
      %14 = torch.prim.unchecked_cast %zeros : !torch.optional<list<int>> -> !torch.list<int>
      %15 = torch.aten.len.t %14 : !torch.list<int> -> !torch.int
      %16 = torch.aten.eq.int %15, %c3 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %16 -> () {
        torch.prim.If.yield
      } else {
        %18 = torch.aten.format(%c6, %15, %14, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
        torch.prim.RaiseException %18, %c2 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %19 = torch.aten.__is__ %mins, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    torch.prim.If %19 -> () {
      torch.prim.If.yield
    } else {
      %21 = torch.prim.unchecked_cast %mins : !torch.optional<list<int>> -> !torch.list<int>
      %22 = torch.aten.len.t %21 : !torch.list<int> -> !torch.int
      %23 = torch.aten.eq.int %22, %c3 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %23 -> () {
        torch.prim.If.yield
      } else {
        %25 = torch.aten.format(%c7, %22, %21, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
        torch.prim.RaiseException %25, %c2 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %26 = torch.aten.eq.str %lhs, %c8 : !torch.str, !torch.str -> !torch.bool
    %27 = torch.prim.If %26 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %28 = torch.aten.eq.str %lhs, %c9 : !torch.str, !torch.str -> !torch.bool
      %29 = torch.prim.If %28 -> (!torch.bool) {
        torch.prim.If.yield %c11 : !torch.bool
      } else {
        %30 = torch.aten.eq.str %lhs, %c10 : !torch.str, !torch.str -> !torch.bool
        torch.prim.If.yield %30 : !torch.bool
      }
      torch.prim.If.yield %29 : !torch.bool
    }
    torch.prim.If %27 -> () {
      torch.prim.If.yield
    } else {
      %32 = torch.aten.format(%c12, %lhs) : !torch.str, !torch.str -> !torch.str
      torch.prim.RaiseException %32, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %33 = torch.aten.__getitem__.t %x, %c13 : !torch.list<int>, !torch.int -> !torch.int
    %34 = torch.aten.__getitem__.t %codes, %c14 : !torch.list<int>, !torch.int -> !torch.int
    %35 = torch.aten.mul.int %33, %bits : !torch.int, !torch.int -> !torch.int
    %36 = torch.aten.add.int %35, %c15 : !torch.int, !torch.int -> !torch.int
    %37 = torch.aten.floordiv.int %36, %c16 : !torch.int, !torch.int -> !torch.int
    %38 = torch.aten.neg.int %33 : !torch.int -> !torch.int
    %39 = torch.prim.max.int %group, %c0 : !torch.int, !torch.int -> !torch.int
    %40 = torch.aten.floordiv.int %38, %39 : !torch.int, !torch.int -> !torch.int
    %41 = torch.aten.neg.int %40 : !torch.int -> !torch.int
    %42 = torch.aten.eq.int %bits, %c17 : !torch.int, !torch.int -> !torch.bool
    %43 = torch.prim.If %42 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %44 = torch.aten.eq.int %bits, %c16 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %44 : !torch.bool
    }
    torch.prim.If %43 -> () {
      torch.prim.If.yield
    } else {
      %46 = torch.aten.format(%c18, %bits) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %46, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %47 = torch.aten.__is__ %zeros, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    %48 = torch.prim.If %47 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %49 = torch.aten.__is__ %mins, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
      torch.prim.If.yield %49 : !torch.bool
    }
    torch.prim.If %48 -> () {
      torch.prim.If.yield
    } else {
      %51 = torch.aten.format(%c19) : !torch.str -> !torch.str
      torch.prim.RaiseException %51, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %52 = torch.aten.__getitem__.t %codes, %c14 : !torch.list<int>, !torch.int -> !torch.int
    %53 = torch.aten.eq.int %52, %34 : !torch.int, !torch.int -> !torch.bool
    %54 = torch.prim.If %53 -> (!torch.bool) {
      %55 = torch.aten.__getitem__.t %codes, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %56 = torch.aten.eq.int %55, %37 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %56 : !torch.bool
    } else {
      torch.prim.If.yield %c20 : !torch.bool
    }
    torch.prim.If %54 -> () {
      torch.prim.If.yield
    } else {
      %58 = torch.aten.format(%c21, %codes, %x, %33, %bits, %37) : !torch.str, !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %58, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %59 = torch.aten.eq.int %group, %33 : !torch.int, !torch.int -> !torch.bool
    %60 = torch.prim.If %59 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %61 = torch.aten.gt.int %group, %c14 : !torch.int, !torch.int -> !torch.bool
      %62 = torch.prim.If %61 -> (!torch.bool) {
        %63 = torch.aten.remainder.int %group, %c16 : !torch.int, !torch.int -> !torch.int
        %64 = torch.aten.eq.int %63, %c14 : !torch.int, !torch.int -> !torch.bool
        %65 = torch.prim.If %64 -> (!torch.bool) {
          %66 = torch.aten.le.int %group, %33 : !torch.int, !torch.int -> !torch.bool
          torch.prim.If.yield %66 : !torch.bool
        } else {
          torch.prim.If.yield %c20 : !torch.bool
        }
        torch.prim.If.yield %65 : !torch.bool
      } else {
        torch.prim.If.yield %c20 : !torch.bool
      }
      torch.prim.If.yield %62 : !torch.bool
    }
    torch.prim.If %60 -> () {
      torch.prim.If.yield
    } else {
      %68 = torch.aten.format(%c22, %group, %33) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %68, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %69 = torch.aten.ge.int %group, %c14 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %69 -> () {
      torch.prim.If.yield
    } else {
      %71 = torch.aten.format(%c23, %group) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %71, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %72 = torch.aten.__getitem__.t %scales, %c14 : !torch.list<int>, !torch.int -> !torch.int
    %73 = torch.aten.eq.int %72, %34 : !torch.int, !torch.int -> !torch.bool
    %74 = torch.prim.If %73 -> (!torch.bool) {
      %75 = torch.aten.__getitem__.t %scales, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %76 = torch.aten.eq.int %75, %41 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %76 : !torch.bool
    } else {
      torch.prim.If.yield %c20 : !torch.bool
    }
    torch.prim.If %74 -> () {
      torch.prim.If.yield
    } else {
      %78 = torch.aten.format(%c24, %scales, %34, %41, %codes, %group) : !torch.str, !torch.list<int>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %78, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %79 = torch.aten.__is__ %zeros, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    %80 = torch.prim.If %79 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %81 = torch.prim.unchecked_cast %zeros : !torch.optional<list<int>> -> !torch.list<int>
      %82 = torch.aten.__getitem__.t %81, %c14 : !torch.list<int>, !torch.int -> !torch.int
      %83 = torch.aten.eq.int %82, %34 : !torch.int, !torch.int -> !torch.bool
      %84 = torch.prim.If %83 -> (!torch.bool) {
        %85 = torch.prim.unchecked_cast %zeros : !torch.optional<list<int>> -> !torch.list<int>
        %86 = torch.aten.__getitem__.t %85, %c0 : !torch.list<int>, !torch.int -> !torch.int
        %87 = torch.aten.eq.int %86, %41 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %87 : !torch.bool
      } else {
        torch.prim.If.yield %c20 : !torch.bool
      }
      torch.prim.If.yield %84 : !torch.bool
    }
    torch.prim.If %80 -> () {
      torch.prim.If.yield
    } else {
      %89 = torch.aten.format(%c25, %zeros, %34, %41, %codes, %group) : !torch.str, !torch.optional<list<int>>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %89, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %90 = torch.aten.__is__ %mins, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    %91 = torch.prim.If %90 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %92 = torch.prim.unchecked_cast %mins : !torch.optional<list<int>> -> !torch.list<int>
      %93 = torch.aten.__getitem__.t %92, %c14 : !torch.list<int>, !torch.int -> !torch.int
      %94 = torch.aten.eq.int %93, %34 : !torch.int, !torch.int -> !torch.bool
      %95 = torch.prim.If %94 -> (!torch.bool) {
        %96 = torch.prim.unchecked_cast %mins : !torch.optional<list<int>> -> !torch.list<int>
        %97 = torch.aten.__getitem__.t %96, %c0 : !torch.list<int>, !torch.int -> !torch.int
        %98 = torch.aten.eq.int %97, %41 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %98 : !torch.bool
      } else {
        torch.prim.If.yield %c20 : !torch.bool
      }
      torch.prim.If.yield %95 : !torch.bool
    }
    torch.prim.If %91 -> () {
      torch.prim.If.yield
    } else {
      %100 = torch.aten.format(%c26, %mins, %34, %41, %codes, %group) : !torch.str, !torch.optional<list<int>>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %100, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %101 = torch.prim.ListConstruct %34 : (!torch.int) -> !torch.list<int>
    %102 = torch.aten.slice.t %x, %c14, %c13, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %103 = torch.aten.add.t %102, %101 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %103 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.quantized.matmul.grouped"(%x: !torch.tuple<int, int>, %codes: !torch.tuple<int, int>, %scales: !torch.tuple<int, int>, %zeros: !torch.optional<tuple<int, int>>, %bits: !torch.int, %group: !torch.int, %mins: !torch.optional<tuple<int, int>>, %lhs: !torch.str) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quantized::matmul.grouped: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 4
    %c7 = torch.constant.int 0
    %c8 = torch.constant.str "quantized::matmul.grouped: codes is of torch's ScalarType {}; it must be u8"
    %c9 = torch.constant.int 1
    %c10 = torch.constant.str "quantized::matmul.grouped: codes is of torch's ScalarType {}; it must be i8 or u8"
    %c11 = torch.constant.str "quantized::matmul.grouped: scales is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c12 = torch.constant.str "quantized::matmul.grouped: zeros is of torch's ScalarType {}; it must be i8 or u8"
    %c13 = torch.constant.str "quantized::matmul.grouped: zeros is of torch's ScalarType {}; it must be i8"
    %c14 = torch.constant.str "quantized::matmul.grouped: mins is of torch's ScalarType {}; it must be that of scales"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %codes : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %bits, %c6 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      %11 = torch.aten.eq.int %8#1, %c7 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %11 -> () {
        torch.prim.If.yield
      } else {
        %13 = torch.aten.format(%c8, %8#1) : !torch.str, !torch.int -> !torch.str
        torch.prim.RaiseException %13, %c5 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    } else {
      %14 = torch.aten.eq.int %8#1, %c9 : !torch.int, !torch.int -> !torch.bool
      %15 = torch.prim.If %14 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %16 = torch.aten.eq.int %8#1, %c7 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %16 : !torch.bool
      }
      torch.prim.If %15 -> () {
        torch.prim.If.yield
      } else {
        %18 = torch.aten.format(%c10, %8#1) : !torch.str, !torch.int -> !torch.str
        torch.prim.RaiseException %18, %c5 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %19:2 = torch.prim.TupleUnpack %scales : !torch.tuple<int, int> -> !torch.int, !torch.int
    %20 = torch.aten.eq.int %19#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %21 = torch.prim.If %20 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %22 = torch.aten.eq.int %19#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %23 = torch.prim.If %22 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %24 = torch.aten.eq.int %19#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %24 : !torch.bool
      }
      torch.prim.If.yield %23 : !torch.bool
    }
    torch.prim.If %21 -> () {
      torch.prim.If.yield
    } else {
      %26 = torch.aten.format(%c11, %19#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %26, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %27 = torch.aten.__is__ %zeros, %c5 : !torch.optional<tuple<int, int>>, !torch.none -> !torch.bool
    torch.prim.If %27 -> () {
      torch.prim.If.yield
    } else {
      %29 = torch.prim.unchecked_cast %zeros : !torch.optional<tuple<int, int>> -> !torch.tuple<int, int>
      %30:2 = torch.prim.TupleUnpack %29 : !torch.tuple<int, int> -> !torch.int, !torch.int
      %31 = torch.aten.eq.int %bits, %c6 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %31 -> () {
        %33 = torch.aten.eq.int %30#1, %c9 : !torch.int, !torch.int -> !torch.bool
        %34 = torch.prim.If %33 -> (!torch.bool) {
          torch.prim.If.yield %c3 : !torch.bool
        } else {
          %35 = torch.aten.eq.int %30#1, %c7 : !torch.int, !torch.int -> !torch.bool
          torch.prim.If.yield %35 : !torch.bool
        }
        torch.prim.If %34 -> () {
          torch.prim.If.yield
        } else {
          %37 = torch.aten.format(%c12, %30#1) : !torch.str, !torch.int -> !torch.str
          torch.prim.RaiseException %37, %c5 : !torch.str, !torch.none
          torch.prim.If.yield
        }
        torch.prim.If.yield
      } else {
        %38 = torch.aten.eq.int %30#1, %c9 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If %38 -> () {
          torch.prim.If.yield
        } else {
          %40 = torch.aten.format(%c13, %30#1) : !torch.str, !torch.int -> !torch.str
          torch.prim.RaiseException %40, %c5 : !torch.str, !torch.none
          torch.prim.If.yield
        }
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %41 = torch.aten.__is__ %mins, %c5 : !torch.optional<tuple<int, int>>, !torch.none -> !torch.bool
    torch.prim.If %41 -> () {
      torch.prim.If.yield
    } else {
      %43 = torch.prim.unchecked_cast %mins : !torch.optional<tuple<int, int>> -> !torch.tuple<int, int>
      %44:2 = torch.prim.TupleUnpack %43 : !torch.tuple<int, int> -> !torch.int, !torch.int
      %45 = torch.aten.eq.int %44#1, %19#1 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %45 -> () {
        torch.prim.If.yield
      } else {
        %47 = torch.aten.format(%c14, %44#1) : !torch.str, !torch.int -> !torch.str
        torch.prim.RaiseException %47, %c5 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.quantized.matmul.grouped"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.torch.quantized.matmul.grouped"(%x: !torch.list<int>, %codes: !torch.list<int>, %scales: !torch.list<int>, %zeros: !torch.optional<list<int>>, %bits: !torch.int, %group: !torch.int, %mins: !torch.optional<list<int>>, %lhs: !torch.str) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quantized::matmul.grouped: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.int 2
    %c4 = torch.constant.str "quantized::matmul.grouped: codes has rank {}, shape {}; it must have rank {}"
    %c5 = torch.constant.str "quantized::matmul.grouped: scales has rank {}, shape {}; it must have rank {}"
    %c6 = torch.constant.str "quantized::matmul.grouped: zeros has rank {}, shape {}; it must have rank {}"
    %c7 = torch.constant.str "quantized::matmul.grouped: mins has rank {}, shape {}; it must have rank {}"
    %c8 = torch.constant.str "f32"
    %c9 = torch.constant.str "s8"
    %c10 = torch.constant.str "s8_token"
    %c11 = torch.constant.bool true
    %c12 = torch.constant.str "quantized::matmul.grouped: lhs is '{}'; it must be one of 'f32', 's8', 's8_token'"
    %c13 = torch.constant.int -1
    %c14 = torch.constant.int 0
    %c15 = torch.constant.int 7
    %c16 = torch.constant.int 8
    %c17 = torch.constant.int 4
    %c18 = torch.constant.str "quantized::matmul.grouped: bits is {}; it must be 4 or 8"
    %c19 = torch.constant.str "quantized::matmul.grouped: give zeros or mins, not both"
    %c20 = torch.constant.bool false
    %c21 = torch.constant.str "quantized::matmul.grouped: codes {} do not fit x {}: k = {} at {} bits takes {} bytes a row"
    %c22 = torch.constant.str "quantized::matmul.grouped: group is {}; it must be a multiple of 8 up to k, or k = {}"
    %c23 = torch.constant.str "quantized::matmul.grouped: group is {}; it must not be negative"
    %c24 = torch.constant.str "quantized::matmul.grouped: scales {} must be [{}, {}] for codes {}, group {}"
    %c25 = torch.constant.str "quantized::matmul.grouped: zeros {} must be [{}, {}] for codes {}, group {}"
    %c26 = torch.constant.str "quantized::matmul.grouped: mins {} must be [{}, {}] for codes {}, group {}"
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %codes : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %4, %codes, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.len.t %scales : !torch.list<int> -> !torch.int
    %9 = torch.aten.eq.int %8, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c5, %8, %scales, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %12 = torch.aten.__is__ %zeros, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    torch.prim.If %12 -> () {
      torch.prim.If.yield
    } else {
      %14 = torch.prim.unchecked_cast %zeros : !torch.optional<list<int>> -> !torch.list<int>
      %15 = torch.aten.len.t %14 : !torch.list<int> -> !torch.int
      %16 = torch.aten.eq.int %15, %c3 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %16 -> () {
        torch.prim.If.yield
      } else {
        %18 = torch.aten.format(%c6, %15, %14, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
        torch.prim.RaiseException %18, %c2 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %19 = torch.aten.__is__ %mins, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    torch.prim.If %19 -> () {
      torch.prim.If.yield
    } else {
      %21 = torch.prim.unchecked_cast %mins : !torch.optional<list<int>> -> !torch.list<int>
      %22 = torch.aten.len.t %21 : !torch.list<int> -> !torch.int
      %23 = torch.aten.eq.int %22, %c3 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %23 -> () {
        torch.prim.If.yield
      } else {
        %25 = torch.aten.format(%c7, %22, %21, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
        torch.prim.RaiseException %25, %c2 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %26 = torch.aten.eq.str %lhs, %c8 : !torch.str, !torch.str -> !torch.bool
    %27 = torch.prim.If %26 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %28 = torch.aten.eq.str %lhs, %c9 : !torch.str, !torch.str -> !torch.bool
      %29 = torch.prim.If %28 -> (!torch.bool) {
        torch.prim.If.yield %c11 : !torch.bool
      } else {
        %30 = torch.aten.eq.str %lhs, %c10 : !torch.str, !torch.str -> !torch.bool
        torch.prim.If.yield %30 : !torch.bool
      }
      torch.prim.If.yield %29 : !torch.bool
    }
    torch.prim.If %27 -> () {
      torch.prim.If.yield
    } else {
      %32 = torch.aten.format(%c12, %lhs) : !torch.str, !torch.str -> !torch.str
      torch.prim.RaiseException %32, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %33 = torch.aten.__getitem__.t %x, %c13 : !torch.list<int>, !torch.int -> !torch.int
    %34 = torch.aten.__getitem__.t %codes, %c14 : !torch.list<int>, !torch.int -> !torch.int
    %35 = torch.aten.mul.int %33, %bits : !torch.int, !torch.int -> !torch.int
    %36 = torch.aten.add.int %35, %c15 : !torch.int, !torch.int -> !torch.int
    %37 = torch.aten.floordiv.int %36, %c16 : !torch.int, !torch.int -> !torch.int
    %38 = torch.aten.neg.int %33 : !torch.int -> !torch.int
    %39 = torch.prim.max.int %group, %c0 : !torch.int, !torch.int -> !torch.int
    %40 = torch.aten.floordiv.int %38, %39 : !torch.int, !torch.int -> !torch.int
    %41 = torch.aten.neg.int %40 : !torch.int -> !torch.int
    %42 = torch.aten.eq.int %bits, %c17 : !torch.int, !torch.int -> !torch.bool
    %43 = torch.prim.If %42 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %44 = torch.aten.eq.int %bits, %c16 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %44 : !torch.bool
    }
    torch.prim.If %43 -> () {
      torch.prim.If.yield
    } else {
      %46 = torch.aten.format(%c18, %bits) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %46, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %47 = torch.aten.__is__ %zeros, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    %48 = torch.prim.If %47 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %49 = torch.aten.__is__ %mins, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
      torch.prim.If.yield %49 : !torch.bool
    }
    torch.prim.If %48 -> () {
      torch.prim.If.yield
    } else {
      %51 = torch.aten.format(%c19) : !torch.str -> !torch.str
      torch.prim.RaiseException %51, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %52 = torch.aten.__getitem__.t %codes, %c14 : !torch.list<int>, !torch.int -> !torch.int
    %53 = torch.aten.eq.int %52, %34 : !torch.int, !torch.int -> !torch.bool
    %54 = torch.prim.If %53 -> (!torch.bool) {
      %55 = torch.aten.__getitem__.t %codes, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %56 = torch.aten.eq.int %55, %37 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %56 : !torch.bool
    } else {
      torch.prim.If.yield %c20 : !torch.bool
    }
    torch.prim.If %54 -> () {
      torch.prim.If.yield
    } else {
      %58 = torch.aten.format(%c21, %codes, %x, %33, %bits, %37) : !torch.str, !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %58, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %59 = torch.aten.eq.int %group, %33 : !torch.int, !torch.int -> !torch.bool
    %60 = torch.prim.If %59 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %61 = torch.aten.gt.int %group, %c14 : !torch.int, !torch.int -> !torch.bool
      %62 = torch.prim.If %61 -> (!torch.bool) {
        %63 = torch.aten.remainder.int %group, %c16 : !torch.int, !torch.int -> !torch.int
        %64 = torch.aten.eq.int %63, %c14 : !torch.int, !torch.int -> !torch.bool
        %65 = torch.prim.If %64 -> (!torch.bool) {
          %66 = torch.aten.le.int %group, %33 : !torch.int, !torch.int -> !torch.bool
          torch.prim.If.yield %66 : !torch.bool
        } else {
          torch.prim.If.yield %c20 : !torch.bool
        }
        torch.prim.If.yield %65 : !torch.bool
      } else {
        torch.prim.If.yield %c20 : !torch.bool
      }
      torch.prim.If.yield %62 : !torch.bool
    }
    torch.prim.If %60 -> () {
      torch.prim.If.yield
    } else {
      %68 = torch.aten.format(%c22, %group, %33) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %68, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %69 = torch.aten.ge.int %group, %c14 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %69 -> () {
      torch.prim.If.yield
    } else {
      %71 = torch.aten.format(%c23, %group) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %71, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %72 = torch.aten.__getitem__.t %scales, %c14 : !torch.list<int>, !torch.int -> !torch.int
    %73 = torch.aten.eq.int %72, %34 : !torch.int, !torch.int -> !torch.bool
    %74 = torch.prim.If %73 -> (!torch.bool) {
      %75 = torch.aten.__getitem__.t %scales, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %76 = torch.aten.eq.int %75, %41 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %76 : !torch.bool
    } else {
      torch.prim.If.yield %c20 : !torch.bool
    }
    torch.prim.If %74 -> () {
      torch.prim.If.yield
    } else {
      %78 = torch.aten.format(%c24, %scales, %34, %41, %codes, %group) : !torch.str, !torch.list<int>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %78, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %79 = torch.aten.__is__ %zeros, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    %80 = torch.prim.If %79 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %81 = torch.prim.unchecked_cast %zeros : !torch.optional<list<int>> -> !torch.list<int>
      %82 = torch.aten.__getitem__.t %81, %c14 : !torch.list<int>, !torch.int -> !torch.int
      %83 = torch.aten.eq.int %82, %34 : !torch.int, !torch.int -> !torch.bool
      %84 = torch.prim.If %83 -> (!torch.bool) {
        %85 = torch.prim.unchecked_cast %zeros : !torch.optional<list<int>> -> !torch.list<int>
        %86 = torch.aten.__getitem__.t %85, %c0 : !torch.list<int>, !torch.int -> !torch.int
        %87 = torch.aten.eq.int %86, %41 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %87 : !torch.bool
      } else {
        torch.prim.If.yield %c20 : !torch.bool
      }
      torch.prim.If.yield %84 : !torch.bool
    }
    torch.prim.If %80 -> () {
      torch.prim.If.yield
    } else {
      %89 = torch.aten.format(%c25, %zeros, %34, %41, %codes, %group) : !torch.str, !torch.optional<list<int>>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %89, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %90 = torch.aten.__is__ %mins, %c2 : !torch.optional<list<int>>, !torch.none -> !torch.bool
    %91 = torch.prim.If %90 -> (!torch.bool) {
      torch.prim.If.yield %c11 : !torch.bool
    } else {
      %92 = torch.prim.unchecked_cast %mins : !torch.optional<list<int>> -> !torch.list<int>
      %93 = torch.aten.__getitem__.t %92, %c14 : !torch.list<int>, !torch.int -> !torch.int
      %94 = torch.aten.eq.int %93, %34 : !torch.int, !torch.int -> !torch.bool
      %95 = torch.prim.If %94 -> (!torch.bool) {
        %96 = torch.prim.unchecked_cast %mins : !torch.optional<list<int>> -> !torch.list<int>
        %97 = torch.aten.__getitem__.t %96, %c0 : !torch.list<int>, !torch.int -> !torch.int
        %98 = torch.aten.eq.int %97, %41 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %98 : !torch.bool
      } else {
        torch.prim.If.yield %c20 : !torch.bool
      }
      torch.prim.If.yield %95 : !torch.bool
    }
    torch.prim.If %91 -> () {
      torch.prim.If.yield
    } else {
      %100 = torch.aten.format(%c26, %mins, %34, %41, %codes, %group) : !torch.str, !torch.optional<list<int>>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %100, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %101 = torch.prim.ListConstruct %34 : (!torch.int) -> !torch.list<int>
    %102 = torch.aten.slice.t %x, %c14, %c13, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %103 = torch.aten.add.t %102, %101 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %103 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.torch.quantized.matmul.grouped"(%x: !torch.tuple<int, int>, %codes: !torch.tuple<int, int>, %scales: !torch.tuple<int, int>, %zeros: !torch.optional<tuple<int, int>>, %bits: !torch.int, %group: !torch.int, %mins: !torch.optional<tuple<int, int>>, %lhs: !torch.str) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quantized::matmul.grouped: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 4
    %c7 = torch.constant.int 0
    %c8 = torch.constant.str "quantized::matmul.grouped: codes is of torch's ScalarType {}; it must be u8"
    %c9 = torch.constant.int 1
    %c10 = torch.constant.str "quantized::matmul.grouped: codes is of torch's ScalarType {}; it must be i8 or u8"
    %c11 = torch.constant.str "quantized::matmul.grouped: scales is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c12 = torch.constant.str "quantized::matmul.grouped: zeros is of torch's ScalarType {}; it must be i8 or u8"
    %c13 = torch.constant.str "quantized::matmul.grouped: zeros is of torch's ScalarType {}; it must be i8"
    %c14 = torch.constant.str "quantized::matmul.grouped: mins is of torch's ScalarType {}; it must be that of scales"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %codes : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %bits, %c6 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      %11 = torch.aten.eq.int %8#1, %c7 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %11 -> () {
        torch.prim.If.yield
      } else {
        %13 = torch.aten.format(%c8, %8#1) : !torch.str, !torch.int -> !torch.str
        torch.prim.RaiseException %13, %c5 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    } else {
      %14 = torch.aten.eq.int %8#1, %c9 : !torch.int, !torch.int -> !torch.bool
      %15 = torch.prim.If %14 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %16 = torch.aten.eq.int %8#1, %c7 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %16 : !torch.bool
      }
      torch.prim.If %15 -> () {
        torch.prim.If.yield
      } else {
        %18 = torch.aten.format(%c10, %8#1) : !torch.str, !torch.int -> !torch.str
        torch.prim.RaiseException %18, %c5 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %19:2 = torch.prim.TupleUnpack %scales : !torch.tuple<int, int> -> !torch.int, !torch.int
    %20 = torch.aten.eq.int %19#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %21 = torch.prim.If %20 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %22 = torch.aten.eq.int %19#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %23 = torch.prim.If %22 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %24 = torch.aten.eq.int %19#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %24 : !torch.bool
      }
      torch.prim.If.yield %23 : !torch.bool
    }
    torch.prim.If %21 -> () {
      torch.prim.If.yield
    } else {
      %26 = torch.aten.format(%c11, %19#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %26, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %27 = torch.aten.__is__ %zeros, %c5 : !torch.optional<tuple<int, int>>, !torch.none -> !torch.bool
    torch.prim.If %27 -> () {
      torch.prim.If.yield
    } else {
      %29 = torch.prim.unchecked_cast %zeros : !torch.optional<tuple<int, int>> -> !torch.tuple<int, int>
      %30:2 = torch.prim.TupleUnpack %29 : !torch.tuple<int, int> -> !torch.int, !torch.int
      %31 = torch.aten.eq.int %bits, %c6 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %31 -> () {
        %33 = torch.aten.eq.int %30#1, %c9 : !torch.int, !torch.int -> !torch.bool
        %34 = torch.prim.If %33 -> (!torch.bool) {
          torch.prim.If.yield %c3 : !torch.bool
        } else {
          %35 = torch.aten.eq.int %30#1, %c7 : !torch.int, !torch.int -> !torch.bool
          torch.prim.If.yield %35 : !torch.bool
        }
        torch.prim.If %34 -> () {
          torch.prim.If.yield
        } else {
          %37 = torch.aten.format(%c12, %30#1) : !torch.str, !torch.int -> !torch.str
          torch.prim.RaiseException %37, %c5 : !torch.str, !torch.none
          torch.prim.If.yield
        }
        torch.prim.If.yield
      } else {
        %38 = torch.aten.eq.int %30#1, %c9 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If %38 -> () {
          torch.prim.If.yield
        } else {
          %40 = torch.aten.format(%c13, %30#1) : !torch.str, !torch.int -> !torch.str
          torch.prim.RaiseException %40, %c5 : !torch.str, !torch.none
          torch.prim.If.yield
        }
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    %41 = torch.aten.__is__ %mins, %c5 : !torch.optional<tuple<int, int>>, !torch.none -> !torch.bool
    torch.prim.If %41 -> () {
      torch.prim.If.yield
    } else {
      %43 = torch.prim.unchecked_cast %mins : !torch.optional<tuple<int, int>> -> !torch.tuple<int, int>
      %44:2 = torch.prim.TupleUnpack %43 : !torch.tuple<int, int> -> !torch.int, !torch.int
      %45 = torch.aten.eq.int %44#1, %19#1 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If %45 -> () {
        torch.prim.If.yield
      } else {
        %47 = torch.aten.format(%c14, %44#1) : !torch.str, !torch.int -> !torch.str
        torch.prim.RaiseException %47, %c5 : !torch.str, !torch.none
        torch.prim.If.yield
      }
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.torch.quantized.matmul.grouped"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.quantized.embedding.packed"(%ids: !torch.list<int>, %packed: !torch.list<int>, %k: !torch.int) -> !torch.list<int> {
    %c0 = torch.constant.int 0
    %c1 = torch.constant.str "quantized::embedding.packed: ids has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.int 1
    %c4 = torch.constant.str "quantized::embedding.packed: packed has rank {}, shape {}; it must have rank {}"
    %c5 = torch.constant.str "quantized::embedding.packed: k is {}; it must not be negative"
    %0 = torch.aten.len.t %ids : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %packed : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %4, %packed, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.ge.int %k, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %8 -> () {
      torch.prim.If.yield
    } else {
      %10 = torch.aten.format(%c5, %k) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %10, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %11 = torch.prim.ListConstruct %k : (!torch.int) -> !torch.list<int>
    %12 = torch.aten.add.t %ids, %11 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %12 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.quantized.embedding.packed"(%ids: !torch.tuple<int, int>, %packed: !torch.tuple<int, int>, %k: !torch.int) -> !torch.int {
    %c0 = torch.constant.int 4
    %c1 = torch.constant.int 3
    %c2 = torch.constant.bool true
    %c3 = torch.constant.str "quantized::embedding.packed: ids is of torch's ScalarType {}; it must be i64 or i32"
    %c4 = torch.constant.none
    %c5 = torch.constant.int 0
    %c6 = torch.constant.str "quantized::embedding.packed: packed is of torch's ScalarType {}; it must be u8"
    %c7 = torch.constant.int 6
    %0:2 = torch.prim.TupleUnpack %ids : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c2 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %3 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %5 = torch.aten.format(%c3, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %5, %c4 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %6:2 = torch.prim.TupleUnpack %packed : !torch.tuple<int, int> -> !torch.int, !torch.int
    %7 = torch.aten.eq.int %6#1, %c5 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %7 -> () {
      torch.prim.If.yield
    } else {
      %9 = torch.aten.format(%c6, %6#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %9, %c4 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %c7 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.quantized.embedding.packed"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.torch.quantized.embedding.packed"(%ids: !torch.list<int>, %packed: !torch.list<int>, %k: !torch.int) -> !torch.list<int> {
    %c0 = torch.constant.int 0
    %c1 = torch.constant.str "quantized::embedding.packed: ids has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.int 1
    %c4 = torch.constant.str "quantized::embedding.packed: packed has rank {}, shape {}; it must have rank {}"
    %c5 = torch.constant.str "quantized::embedding.packed: k is {}; it must not be negative"
    %0 = torch.aten.len.t %ids : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %packed : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %4, %packed, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.ge.int %k, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %8 -> () {
      torch.prim.If.yield
    } else {
      %10 = torch.aten.format(%c5, %k) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %10, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %11 = torch.prim.ListConstruct %k : (!torch.int) -> !torch.list<int>
    %12 = torch.aten.add.t %ids, %11 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %12 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.torch.quantized.embedding.packed"(%ids: !torch.tuple<int, int>, %packed: !torch.tuple<int, int>, %k: !torch.int) -> !torch.int {
    %c0 = torch.constant.int 4
    %c1 = torch.constant.int 3
    %c2 = torch.constant.bool true
    %c3 = torch.constant.str "quantized::embedding.packed: ids is of torch's ScalarType {}; it must be i64 or i32"
    %c4 = torch.constant.none
    %c5 = torch.constant.int 0
    %c6 = torch.constant.str "quantized::embedding.packed: packed is of torch's ScalarType {}; it must be u8"
    %c7 = torch.constant.int 6
    %0:2 = torch.prim.TupleUnpack %ids : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c2 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %3 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %5 = torch.aten.format(%c3, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %5, %c4 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %6:2 = torch.prim.TupleUnpack %packed : !torch.tuple<int, int> -> !torch.int, !torch.int
    %7 = torch.aten.eq.int %6#1, %c5 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %7 -> () {
      torch.prim.If.yield
    } else {
      %9 = torch.aten.format(%c6, %6#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %9, %c4 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %c7 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.torch.quantized.embedding.packed"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.quant.matmul_rhs_group_quant"(%x: !torch.list<int>, %codes: !torch.list<int>, %scales: !torch.list<int>, %zps: !torch.list<int>, %bits: !torch.int, %group: !torch.int) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quant::matmul_rhs_group_quant: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.int 2
    %c4 = torch.constant.str "quant::matmul_rhs_group_quant: codes has rank {}, shape {}; it must have rank {}"
    %c5 = torch.constant.int 3
    %c6 = torch.constant.str "quant::matmul_rhs_group_quant: scales has rank {}, shape {}; it must have rank {}"
    %c7 = torch.constant.str "quant::matmul_rhs_group_quant: zps has rank {}, shape {}; it must have rank {}"
    %c8 = torch.constant.int -1
    %c9 = torch.constant.int 0
    %c10 = torch.constant.int 7
    %c11 = torch.constant.int 8
    %c12 = torch.constant.bool true
    %c13 = torch.constant.int 4
    %c14 = torch.constant.str "quant::matmul_rhs_group_quant: bits is {}; it must be 4 or 8"
    %c15 = torch.constant.bool false
    %c16 = torch.constant.str "quant::matmul_rhs_group_quant: codes {} do not fit x {}: k = {} at {} bits takes {} bytes a row"
    %c17 = torch.constant.str "quant::matmul_rhs_group_quant: group is {}; it must be a multiple of 8 up to k, or k = {}"
    %c18 = torch.constant.str "quant::matmul_rhs_group_quant: group is {}; it must not be negative"
    %c19 = torch.constant.str "quant::matmul_rhs_group_quant: scales {} must be [{}, {}, 1] for codes {}, group {}"
    %c20 = torch.constant.str "quant::matmul_rhs_group_quant: zps {} must be [{}, {}, 1] for codes {}, group {}"
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %codes : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %4, %codes, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.len.t %scales : !torch.list<int> -> !torch.int
    %9 = torch.aten.eq.int %8, %c5 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c6, %8, %scales, %c5) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %12 = torch.aten.len.t %zps : !torch.list<int> -> !torch.int
    %13 = torch.aten.eq.int %12, %c5 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %13 -> () {
      torch.prim.If.yield
    } else {
      %15 = torch.aten.format(%c7, %12, %zps, %c5) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %15, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %16 = torch.aten.__getitem__.t %x, %c8 : !torch.list<int>, !torch.int -> !torch.int
    %17 = torch.aten.__getitem__.t %codes, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %18 = torch.aten.mul.int %16, %bits : !torch.int, !torch.int -> !torch.int
    %19 = torch.aten.add.int %18, %c10 : !torch.int, !torch.int -> !torch.int
    %20 = torch.aten.floordiv.int %19, %c11 : !torch.int, !torch.int -> !torch.int
    %21 = torch.aten.neg.int %16 : !torch.int -> !torch.int
    %22 = torch.prim.max.int %group, %c0 : !torch.int, !torch.int -> !torch.int
    %23 = torch.aten.floordiv.int %21, %22 : !torch.int, !torch.int -> !torch.int
    %24 = torch.aten.neg.int %23 : !torch.int -> !torch.int
    %25 = torch.aten.eq.int %bits, %c13 : !torch.int, !torch.int -> !torch.bool
    %26 = torch.prim.If %25 -> (!torch.bool) {
      torch.prim.If.yield %c12 : !torch.bool
    } else {
      %27 = torch.aten.eq.int %bits, %c11 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %27 : !torch.bool
    }
    torch.prim.If %26 -> () {
      torch.prim.If.yield
    } else {
      %29 = torch.aten.format(%c14, %bits) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %29, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %30 = torch.aten.__getitem__.t %codes, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %31 = torch.aten.eq.int %30, %17 : !torch.int, !torch.int -> !torch.bool
    %32 = torch.prim.If %31 -> (!torch.bool) {
      %33 = torch.aten.__getitem__.t %codes, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %34 = torch.aten.eq.int %33, %20 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %34 : !torch.bool
    } else {
      torch.prim.If.yield %c15 : !torch.bool
    }
    torch.prim.If %32 -> () {
      torch.prim.If.yield
    } else {
      %36 = torch.aten.format(%c16, %codes, %x, %16, %bits, %20) : !torch.str, !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %36, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %37 = torch.aten.eq.int %group, %16 : !torch.int, !torch.int -> !torch.bool
    %38 = torch.prim.If %37 -> (!torch.bool) {
      torch.prim.If.yield %c12 : !torch.bool
    } else {
      %39 = torch.aten.gt.int %group, %c9 : !torch.int, !torch.int -> !torch.bool
      %40 = torch.prim.If %39 -> (!torch.bool) {
        %41 = torch.aten.remainder.int %group, %c11 : !torch.int, !torch.int -> !torch.int
        %42 = torch.aten.eq.int %41, %c9 : !torch.int, !torch.int -> !torch.bool
        %43 = torch.prim.If %42 -> (!torch.bool) {
          %44 = torch.aten.le.int %group, %16 : !torch.int, !torch.int -> !torch.bool
          torch.prim.If.yield %44 : !torch.bool
        } else {
          torch.prim.If.yield %c15 : !torch.bool
        }
        torch.prim.If.yield %43 : !torch.bool
      } else {
        torch.prim.If.yield %c15 : !torch.bool
      }
      torch.prim.If.yield %40 : !torch.bool
    }
    torch.prim.If %38 -> () {
      torch.prim.If.yield
    } else {
      %46 = torch.aten.format(%c17, %group, %16) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %46, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %47 = torch.aten.ge.int %group, %c9 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %47 -> () {
      torch.prim.If.yield
    } else {
      %49 = torch.aten.format(%c18, %group) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %49, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %50 = torch.aten.__getitem__.t %scales, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %51 = torch.aten.eq.int %50, %17 : !torch.int, !torch.int -> !torch.bool
    %52 = torch.prim.If %51 -> (!torch.bool) {
      %53 = torch.aten.__getitem__.t %scales, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %54 = torch.aten.eq.int %53, %24 : !torch.int, !torch.int -> !torch.bool
      %55 = torch.prim.If %54 -> (!torch.bool) {
        %56 = torch.aten.__getitem__.t %scales, %c3 : !torch.list<int>, !torch.int -> !torch.int
        %57 = torch.aten.eq.int %56, %c0 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %57 : !torch.bool
      } else {
        torch.prim.If.yield %c15 : !torch.bool
      }
      torch.prim.If.yield %55 : !torch.bool
    } else {
      torch.prim.If.yield %c15 : !torch.bool
    }
    torch.prim.If %52 -> () {
      torch.prim.If.yield
    } else {
      %59 = torch.aten.format(%c19, %scales, %17, %24, %codes, %group) : !torch.str, !torch.list<int>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %59, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %60 = torch.aten.__getitem__.t %zps, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %61 = torch.aten.eq.int %60, %17 : !torch.int, !torch.int -> !torch.bool
    %62 = torch.prim.If %61 -> (!torch.bool) {
      %63 = torch.aten.__getitem__.t %zps, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %64 = torch.aten.eq.int %63, %24 : !torch.int, !torch.int -> !torch.bool
      %65 = torch.prim.If %64 -> (!torch.bool) {
        %66 = torch.aten.__getitem__.t %zps, %c3 : !torch.list<int>, !torch.int -> !torch.int
        %67 = torch.aten.eq.int %66, %c0 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %67 : !torch.bool
      } else {
        torch.prim.If.yield %c15 : !torch.bool
      }
      torch.prim.If.yield %65 : !torch.bool
    } else {
      torch.prim.If.yield %c15 : !torch.bool
    }
    torch.prim.If %62 -> () {
      torch.prim.If.yield
    } else {
      %69 = torch.aten.format(%c20, %zps, %17, %24, %codes, %group) : !torch.str, !torch.list<int>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %69, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %70 = torch.prim.ListConstruct %17 : (!torch.int) -> !torch.list<int>
    %71 = torch.aten.slice.t %x, %c9, %c8, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %72 = torch.aten.add.t %71, %70 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %72 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.quant.matmul_rhs_group_quant"(%x: !torch.tuple<int, int>, %codes: !torch.tuple<int, int>, %scales: !torch.tuple<int, int>, %zps: !torch.tuple<int, int>, %bits: !torch.int, %group: !torch.int) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quant::matmul_rhs_group_quant: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 0
    %c7 = torch.constant.int 1
    %c8 = torch.constant.str "quant::matmul_rhs_group_quant: codes is of torch's ScalarType {}; it must be u8 or i8"
    %c9 = torch.constant.str "quant::matmul_rhs_group_quant: scales is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c10 = torch.constant.str "quant::matmul_rhs_group_quant: zps is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %codes : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %8#1, %c6 : !torch.int, !torch.int -> !torch.bool
    %10 = torch.prim.If %9 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %11 = torch.aten.eq.int %8#1, %c7 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %11 : !torch.bool
    }
    torch.prim.If %10 -> () {
      torch.prim.If.yield
    } else {
      %13 = torch.aten.format(%c8, %8#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %13, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %14:2 = torch.prim.TupleUnpack %scales : !torch.tuple<int, int> -> !torch.int, !torch.int
    %15 = torch.aten.eq.int %14#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %16 = torch.prim.If %15 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %17 = torch.aten.eq.int %14#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %18 = torch.prim.If %17 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %19 = torch.aten.eq.int %14#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %19 : !torch.bool
      }
      torch.prim.If.yield %18 : !torch.bool
    }
    torch.prim.If %16 -> () {
      torch.prim.If.yield
    } else {
      %21 = torch.aten.format(%c9, %14#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %21, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %22:2 = torch.prim.TupleUnpack %zps : !torch.tuple<int, int> -> !torch.int, !torch.int
    %23 = torch.aten.eq.int %22#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %24 = torch.prim.If %23 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %25 = torch.aten.eq.int %22#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %26 = torch.prim.If %25 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %27 = torch.aten.eq.int %22#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %27 : !torch.bool
      }
      torch.prim.If.yield %26 : !torch.bool
    }
    torch.prim.If %24 -> () {
      torch.prim.If.yield
    } else {
      %29 = torch.aten.format(%c10, %22#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %29, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.quant.matmul_rhs_group_quant"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
  func.func private @"__torch_mlir_shape_fn.torch.quant.matmul_rhs_group_quant"(%x: !torch.list<int>, %codes: !torch.list<int>, %scales: !torch.list<int>, %zps: !torch.list<int>, %bits: !torch.int, %group: !torch.int) -> !torch.list<int> {
    %c0 = torch.constant.int 1
    %c1 = torch.constant.str "quant::matmul_rhs_group_quant: x has rank {}; it must have at least rank {}"
    %c2 = torch.constant.none
    %c3 = torch.constant.int 2
    %c4 = torch.constant.str "quant::matmul_rhs_group_quant: codes has rank {}, shape {}; it must have rank {}"
    %c5 = torch.constant.int 3
    %c6 = torch.constant.str "quant::matmul_rhs_group_quant: scales has rank {}, shape {}; it must have rank {}"
    %c7 = torch.constant.str "quant::matmul_rhs_group_quant: zps has rank {}, shape {}; it must have rank {}"
    %c8 = torch.constant.int -1
    %c9 = torch.constant.int 0
    %c10 = torch.constant.int 7
    %c11 = torch.constant.int 8
    %c12 = torch.constant.bool true
    %c13 = torch.constant.int 4
    %c14 = torch.constant.str "quant::matmul_rhs_group_quant: bits is {}; it must be 4 or 8"
    %c15 = torch.constant.bool false
    %c16 = torch.constant.str "quant::matmul_rhs_group_quant: codes {} do not fit x {}: k = {} at {} bits takes {} bytes a row"
    %c17 = torch.constant.str "quant::matmul_rhs_group_quant: group is {}; it must be a multiple of 8 up to k, or k = {}"
    %c18 = torch.constant.str "quant::matmul_rhs_group_quant: group is {}; it must not be negative"
    %c19 = torch.constant.str "quant::matmul_rhs_group_quant: scales {} must be [{}, {}, 1] for codes {}, group {}"
    %c20 = torch.constant.str "quant::matmul_rhs_group_quant: zps {} must be [{}, {}, 1] for codes {}, group {}"
    %0 = torch.aten.len.t %x : !torch.list<int> -> !torch.int
    %1 = torch.aten.ge.int %0, %c0 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %1 -> () {
      torch.prim.If.yield
    } else {
      %3 = torch.aten.format(%c1, %0, %c0) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %3, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %4 = torch.aten.len.t %codes : !torch.list<int> -> !torch.int
    %5 = torch.aten.eq.int %4, %c3 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %5 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %4, %codes, %c3) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8 = torch.aten.len.t %scales : !torch.list<int> -> !torch.int
    %9 = torch.aten.eq.int %8, %c5 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %9 -> () {
      torch.prim.If.yield
    } else {
      %11 = torch.aten.format(%c6, %8, %scales, %c5) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %11, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %12 = torch.aten.len.t %zps : !torch.list<int> -> !torch.int
    %13 = torch.aten.eq.int %12, %c5 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %13 -> () {
      torch.prim.If.yield
    } else {
      %15 = torch.aten.format(%c7, %12, %zps, %c5) : !torch.str, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %15, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %16 = torch.aten.__getitem__.t %x, %c8 : !torch.list<int>, !torch.int -> !torch.int
    %17 = torch.aten.__getitem__.t %codes, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %18 = torch.aten.mul.int %16, %bits : !torch.int, !torch.int -> !torch.int
    %19 = torch.aten.add.int %18, %c10 : !torch.int, !torch.int -> !torch.int
    %20 = torch.aten.floordiv.int %19, %c11 : !torch.int, !torch.int -> !torch.int
    %21 = torch.aten.neg.int %16 : !torch.int -> !torch.int
    %22 = torch.prim.max.int %group, %c0 : !torch.int, !torch.int -> !torch.int
    %23 = torch.aten.floordiv.int %21, %22 : !torch.int, !torch.int -> !torch.int
    %24 = torch.aten.neg.int %23 : !torch.int -> !torch.int
    %25 = torch.aten.eq.int %bits, %c13 : !torch.int, !torch.int -> !torch.bool
    %26 = torch.prim.If %25 -> (!torch.bool) {
      torch.prim.If.yield %c12 : !torch.bool
    } else {
      %27 = torch.aten.eq.int %bits, %c11 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %27 : !torch.bool
    }
    torch.prim.If %26 -> () {
      torch.prim.If.yield
    } else {
      %29 = torch.aten.format(%c14, %bits) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %29, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %30 = torch.aten.__getitem__.t %codes, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %31 = torch.aten.eq.int %30, %17 : !torch.int, !torch.int -> !torch.bool
    %32 = torch.prim.If %31 -> (!torch.bool) {
      %33 = torch.aten.__getitem__.t %codes, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %34 = torch.aten.eq.int %33, %20 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %34 : !torch.bool
    } else {
      torch.prim.If.yield %c15 : !torch.bool
    }
    torch.prim.If %32 -> () {
      torch.prim.If.yield
    } else {
      %36 = torch.aten.format(%c16, %codes, %x, %16, %bits, %20) : !torch.str, !torch.list<int>, !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %36, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %37 = torch.aten.eq.int %group, %16 : !torch.int, !torch.int -> !torch.bool
    %38 = torch.prim.If %37 -> (!torch.bool) {
      torch.prim.If.yield %c12 : !torch.bool
    } else {
      %39 = torch.aten.gt.int %group, %c9 : !torch.int, !torch.int -> !torch.bool
      %40 = torch.prim.If %39 -> (!torch.bool) {
        %41 = torch.aten.remainder.int %group, %c11 : !torch.int, !torch.int -> !torch.int
        %42 = torch.aten.eq.int %41, %c9 : !torch.int, !torch.int -> !torch.bool
        %43 = torch.prim.If %42 -> (!torch.bool) {
          %44 = torch.aten.le.int %group, %16 : !torch.int, !torch.int -> !torch.bool
          torch.prim.If.yield %44 : !torch.bool
        } else {
          torch.prim.If.yield %c15 : !torch.bool
        }
        torch.prim.If.yield %43 : !torch.bool
      } else {
        torch.prim.If.yield %c15 : !torch.bool
      }
      torch.prim.If.yield %40 : !torch.bool
    }
    torch.prim.If %38 -> () {
      torch.prim.If.yield
    } else {
      %46 = torch.aten.format(%c17, %group, %16) : !torch.str, !torch.int, !torch.int -> !torch.str
      torch.prim.RaiseException %46, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %47 = torch.aten.ge.int %group, %c9 : !torch.int, !torch.int -> !torch.bool
    torch.prim.If %47 -> () {
      torch.prim.If.yield
    } else {
      %49 = torch.aten.format(%c18, %group) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %49, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %50 = torch.aten.__getitem__.t %scales, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %51 = torch.aten.eq.int %50, %17 : !torch.int, !torch.int -> !torch.bool
    %52 = torch.prim.If %51 -> (!torch.bool) {
      %53 = torch.aten.__getitem__.t %scales, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %54 = torch.aten.eq.int %53, %24 : !torch.int, !torch.int -> !torch.bool
      %55 = torch.prim.If %54 -> (!torch.bool) {
        %56 = torch.aten.__getitem__.t %scales, %c3 : !torch.list<int>, !torch.int -> !torch.int
        %57 = torch.aten.eq.int %56, %c0 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %57 : !torch.bool
      } else {
        torch.prim.If.yield %c15 : !torch.bool
      }
      torch.prim.If.yield %55 : !torch.bool
    } else {
      torch.prim.If.yield %c15 : !torch.bool
    }
    torch.prim.If %52 -> () {
      torch.prim.If.yield
    } else {
      %59 = torch.aten.format(%c19, %scales, %17, %24, %codes, %group) : !torch.str, !torch.list<int>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %59, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %60 = torch.aten.__getitem__.t %zps, %c9 : !torch.list<int>, !torch.int -> !torch.int
    %61 = torch.aten.eq.int %60, %17 : !torch.int, !torch.int -> !torch.bool
    %62 = torch.prim.If %61 -> (!torch.bool) {
      %63 = torch.aten.__getitem__.t %zps, %c0 : !torch.list<int>, !torch.int -> !torch.int
      %64 = torch.aten.eq.int %63, %24 : !torch.int, !torch.int -> !torch.bool
      %65 = torch.prim.If %64 -> (!torch.bool) {
        %66 = torch.aten.__getitem__.t %zps, %c3 : !torch.list<int>, !torch.int -> !torch.int
        %67 = torch.aten.eq.int %66, %c0 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %67 : !torch.bool
      } else {
        torch.prim.If.yield %c15 : !torch.bool
      }
      torch.prim.If.yield %65 : !torch.bool
    } else {
      torch.prim.If.yield %c15 : !torch.bool
    }
    torch.prim.If %62 -> () {
      torch.prim.If.yield
    } else {
      %69 = torch.aten.format(%c20, %zps, %17, %24, %codes, %group) : !torch.str, !torch.list<int>, !torch.int, !torch.int, !torch.list<int>, !torch.int -> !torch.str
      torch.prim.RaiseException %69, %c2 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %70 = torch.prim.ListConstruct %17 : (!torch.int) -> !torch.list<int>
    %71 = torch.aten.slice.t %x, %c9, %c8, %c0 : !torch.list<int>, !torch.int, !torch.int, !torch.int -> !torch.list<int>
    %72 = torch.aten.add.t %71, %70 : !torch.list<int>, !torch.list<int> -> !torch.list<int>
    return %72 : !torch.list<int>
  }
  func.func private @"__torch_mlir_dtype_fn.torch.quant.matmul_rhs_group_quant"(%x: !torch.tuple<int, int>, %codes: !torch.tuple<int, int>, %scales: !torch.tuple<int, int>, %zps: !torch.tuple<int, int>, %bits: !torch.int, %group: !torch.int) -> !torch.int {
    %c0 = torch.constant.int 6
    %c1 = torch.constant.int 5
    %c2 = torch.constant.int 15
    %c3 = torch.constant.bool true
    %c4 = torch.constant.str "quant::matmul_rhs_group_quant: x is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c5 = torch.constant.none
    %c6 = torch.constant.int 0
    %c7 = torch.constant.int 1
    %c8 = torch.constant.str "quant::matmul_rhs_group_quant: codes is of torch's ScalarType {}; it must be u8 or i8"
    %c9 = torch.constant.str "quant::matmul_rhs_group_quant: scales is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %c10 = torch.constant.str "quant::matmul_rhs_group_quant: zps is of torch's ScalarType {}; it must be f32 or f16 or bf16"
    %0:2 = torch.prim.TupleUnpack %x : !torch.tuple<int, int> -> !torch.int, !torch.int
    %1 = torch.aten.eq.int %0#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %2 = torch.prim.If %1 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %3 = torch.aten.eq.int %0#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %4 = torch.prim.If %3 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %5 = torch.aten.eq.int %0#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %5 : !torch.bool
      }
      torch.prim.If.yield %4 : !torch.bool
    }
    torch.prim.If %2 -> () {
      torch.prim.If.yield
    } else {
      %7 = torch.aten.format(%c4, %0#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %7, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %8:2 = torch.prim.TupleUnpack %codes : !torch.tuple<int, int> -> !torch.int, !torch.int
    %9 = torch.aten.eq.int %8#1, %c6 : !torch.int, !torch.int -> !torch.bool
    %10 = torch.prim.If %9 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %11 = torch.aten.eq.int %8#1, %c7 : !torch.int, !torch.int -> !torch.bool
      torch.prim.If.yield %11 : !torch.bool
    }
    torch.prim.If %10 -> () {
      torch.prim.If.yield
    } else {
      %13 = torch.aten.format(%c8, %8#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %13, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %14:2 = torch.prim.TupleUnpack %scales : !torch.tuple<int, int> -> !torch.int, !torch.int
    %15 = torch.aten.eq.int %14#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %16 = torch.prim.If %15 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %17 = torch.aten.eq.int %14#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %18 = torch.prim.If %17 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %19 = torch.aten.eq.int %14#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %19 : !torch.bool
      }
      torch.prim.If.yield %18 : !torch.bool
    }
    torch.prim.If %16 -> () {
      torch.prim.If.yield
    } else {
      %21 = torch.aten.format(%c9, %14#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %21, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    %22:2 = torch.prim.TupleUnpack %zps : !torch.tuple<int, int> -> !torch.int, !torch.int
    %23 = torch.aten.eq.int %22#1, %c0 : !torch.int, !torch.int -> !torch.bool
    %24 = torch.prim.If %23 -> (!torch.bool) {
      torch.prim.If.yield %c3 : !torch.bool
    } else {
      %25 = torch.aten.eq.int %22#1, %c1 : !torch.int, !torch.int -> !torch.bool
      %26 = torch.prim.If %25 -> (!torch.bool) {
        torch.prim.If.yield %c3 : !torch.bool
      } else {
        %27 = torch.aten.eq.int %22#1, %c2 : !torch.int, !torch.int -> !torch.bool
        torch.prim.If.yield %27 : !torch.bool
      }
      torch.prim.If.yield %26 : !torch.bool
    }
    torch.prim.If %24 -> () {
      torch.prim.If.yield
    } else {
      %29 = torch.aten.format(%c10, %22#1) : !torch.str, !torch.int -> !torch.str
      torch.prim.RaiseException %29, %c5 : !torch.str, !torch.none
      torch.prim.If.yield
    }
    return %0#1 : !torch.int
  }
  func.func private @"__torch_mlir_has_value_semantics_fn.torch.quant.matmul_rhs_group_quant"() -> !torch.none {
    %none = torch.constant.none
    return %none : !torch.none
  }
}
