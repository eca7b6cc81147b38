// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What does not fit is said where it is.
// RUN: qmm-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics --qmm-lower-ops

func.func @rank(%x: !torch.vtensor<[],f32>, %w: !torch.vtensor<[?],ui8>) {
  %n = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = "s8"}> : () -> !torch.str
  // expected-error @below {{quantized::matmul.packed: x has rank 0; it must have at least rank 1}}
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[],f32>, !torch.vtensor<[?],ui8>, !torch.int, !torch.str) -> !torch.vtensor<[32],f32>
  return
}

// -----

func.func @lhs(%x: !torch.vtensor<[64],f32>, %w: !torch.vtensor<[?],ui8>) {
  %n = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = "s4"}> : () -> !torch.str
  // expected-error @below {{quantized::matmul.packed: lhs is 's4'; it must be one of 'f32', 's8', 's8_token'}}
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[64],f32>, !torch.vtensor<[?],ui8>, !torch.int, !torch.str) -> !torch.vtensor<[32],f32>
  return
}

// -----

func.func @computed(%x: !torch.vtensor<[64],f32>, %w: !torch.vtensor<[?],ui8>, %n: !torch.int) {
  %lhs = "torch.constant.str"() <{value = "s8"}> : () -> !torch.str
  // expected-error @below {{quantized::matmul.packed: n is '!torch.int'; it must be a constant of the program}}
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[64],f32>, !torch.vtensor<[?],ui8>, !torch.int, !torch.str) -> !torch.vtensor<[32],f32>
  return
}

// -----

func.func @result(%x: !torch.vtensor<[?,64],f32>, %w: !torch.vtensor<[?],ui8>) {
  %n = "torch.constant.int"() <{value = 32 : i64}> : () -> !torch.int
  %lhs = "torch.constant.str"() <{value = "s8"}> : () -> !torch.str
  // expected-error @below {{quantized::matmul.packed: the result is [?, 32] of f32; here it is stated to be '!torch.vtensor<[?,48],f32>'}}
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[?,64],f32>, !torch.vtensor<[?],ui8>, !torch.int, !torch.str) -> !torch.vtensor<[?,48],f32>
  return
}

// -----

func.func @operands(%x: !torch.vtensor<[?,64],f32>) {
  // expected-error @below {{quantized::matmul.packed: 1 operands and 1 results; it takes 4 and has 1}}
  %0 = "torch.operator"(%x) <{name = "torch.quantized.matmul.packed"}> : (!torch.vtensor<[?,64],f32>) -> !torch.vtensor<[?,32],f32>
  return
}

// -----

func.func @not_a_value(%x: !torch.tensor, %w: !torch.vtensor<[?],ui8>, %n: i64, %lhs: i64) {
  // expected-error @below {{quantized::matmul.packed: x is '!torch.tensor'; it must be a tensor of known rank and dtype}}
  %0 = "torch.operator"(%x, %w, %n, %lhs) <{name = "torch.quantized.matmul.packed"}> : (!torch.tensor, !torch.vtensor<[?],ui8>, i64, i64) -> !torch.vtensor<[?,32],f32>
  return
}

// -----

func.func @dtype(%ids: !torch.vtensor<[3],si16>, %w: !torch.vtensor<[?],ui8>) {
  %k = "torch.constant.int"() <{value = 64 : i64}> : () -> !torch.int
  // expected-error @below {{quantized::embedding.packed: ids is i16; it must be i64 or i32}}
  %0 = "torch.operator"(%ids, %w, %k) <{name = "torch.quantized.embedding.packed"}> : (!torch.vtensor<[3],si16>, !torch.vtensor<[?],ui8>, !torch.int) -> !torch.vtensor<[3,64],f32>
  return
}

// -----

func.func @shapes(%x: tensor<3x64xf32>, %codes: tensor<48x32xi8>, %scales: tensor<48x3xf16>) {
  // expected-error @below {{quantized::matmul.grouped: scales [48, 3] must be [48, 2] for codes [48, 32], group 32}}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 32}, has_side_effect = true} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x3xf16>) -> tensor<3x48xf32>
  return
}

// -----

func.func @not_given(%x: tensor<3x64xf32>, %codes: tensor<48x32xi8>, %scales: tensor<48x2xf16>) {
  // expected-error @below {{quantized::matmul.grouped: group must be an integer}}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4}, has_side_effect = true} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>) -> tensor<3x48xf32>
  return
}

// -----

func.func @unknown_attribute(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{quantized::matmul.packed: none of its integers and strings is called "lhs_kind"}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", backend_config = {lhs_kind = "s8"}, has_side_effect = true} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @config(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{quantized::matmul.packed: backend_config is "lhs=s8"; it must be a dictionary}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", backend_config = "lhs=s8", has_side_effect = true} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @two_configs(%x: tensor<3x64xf32>, %w: tensor<?xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{backend_config is {lhs = "f32"}, mhlo.backend_config {lhs = "s8"}; only one of them can be given}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "f32"}, mhlo.backend_config = {lhs = "s8"}} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @layout(%x: tensor<3x64xf32>, %w: tensor<?xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{operand_layouts is [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>]; tensors must be row-major}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>]} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @target(%x: tensor<3x64xf32>) {
  // expected-error @below {{call_target_name must be a string, and not empty}}
  "stablehlo.custom_call"(%x) {call_target_name = 3 : i64, has_side_effect = true} : (tensor<3x64xf32>) -> ()
  return
}

// -----

func.func @dynamic_result(%x: tensor<3x64xf32>) -> tensor<?xf32> {
  // expected-error @below {{result 0 of @update is 'tensor<?xf32>'; it must be a tensor of known shape}}
  %0 = "stablehlo.custom_call"(%x) {call_target_name = "update"} : (tensor<3x64xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @foreign_attributes(%x: tensor<3x64xf32>) {
  // expected-error @below {{backend_config of @update is {a = 1 : i64}; to a C function only a string can be passed}}
  "stablehlo.custom_call"(%x) {call_target_name = "update", backend_config = {a = 1}, has_side_effect = true} : (tensor<3x64xf32>) -> ()
  return
}

// -----

// One C function has one signature.
func.func @two_signatures(%x: tensor<3x64xf32>, %y: tensor<3xf32>) {
  // expected-note @below {{which is something else here}}
  "stablehlo.custom_call"(%x) {call_target_name = "log", has_side_effect = true} : (tensor<3x64xf32>) -> ()
  // expected-error @below {{is a call of @log}}
  "stablehlo.custom_call"(%y) {call_target_name = "log", has_side_effect = true} : (tensor<3xf32>) -> ()
  return
}

// -----

// expected-note @below {{which is something else here}}
func.func @qmm_matmul_packed() {
  return
}
func.func @shadowed(%x: tensor<3x64xf32>, %w: tensor<?xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{is a call of @qmm_matmul_packed}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed"} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

// expected-error @below {{argument 0 is external and 'tensor<8xf32>'; it must be a tensor of bytes of rank 1}}
func.func @external_floats(%x: tensor<8xf32> {qmm.external = true}) {
  return
}

// -----

// expected-error @below {{argument 0 is external; that is for exported functions, which the module does not call}}
func.func private @called(%x: tensor<8xi8> {qmm.external = true}) {
  return
}

// -----

func.func @external_codes(%x: tensor<3x8xf32>, %codes: tensor<8xi8> {qmm.external = true}) -> tensor<8xi8> {
  // expected-error @below {{reads argument 1, which is external; only custom calls take it}}
  return %codes : tensor<8xi8>
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

func.func @accumulates(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // expected-error @below {{quantized::matmul.packed: the body reads the output, which must be linalg.fill of 0 then}}
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%y : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    %t = arith.addf %a, %c : f32
    linalg.yield %t : f32
  } -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

func.func @library_call(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // expected-error @below {{library_call is "quantized.matmul.packed{lhs}}
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed{lhs"}
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

func.func @weights_with_strides(%x: memref<?x64xf32>, %w: memref<?xi8, strided<[2]>>, %y: memref<?x32xf32>) {
  // expected-error @below {{quantized::matmul.packed: packed is 'memref<?xi8, strided<[2]>>', which can not be passed as 'memref<?xi8, strided<[1], offset: ?>>'}}
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : memref<?x64xf32>, memref<?xi8, strided<[2]>>) outs(%y : memref<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

func.func @misspelled(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // expected-error @below {{quantized.matmul.pakced is none of libqmm's ops; did you mean quantized.matmul.packed?}}
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.pakced"}
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

func.func @entry_point(%x: tensor<?x64xf32>, %w: tensor<?xi8>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // expected-error @below {{qmm_matmul_packed_external is none of libqmm's ops; did you mean qmm_matmul_packed?}}
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "qmm_matmul_packed_external{}"}
    ins(%x, %w : tensor<?x64xf32>, tensor<?xi8>) outs(%y : tensor<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// -----

// The symbols of entry points are no targets: their arguments are others.
func.func @entry_of_a_dtype(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{qmm_matmul_grouped_f16 is none of libqmm's ops; did you mean qmm_matmul_grouped?}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_grouped_f16"} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @entry_of_external_bytes(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{qmm_rows_packed_external is none of libqmm's ops; did you mean qmm_rows_packed?}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_rows_packed_external"} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @untyped(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{qmm_matmul_packed: the descriptor has 0 bytes; it must have 64}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", api_version = 3 : i32, backend_config = ""} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @version_of_ours(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{api_version is 2 : i32; of the versions, libqmm takes 4, with attributes, and 3, with a descriptor}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", api_version = 2 : i32} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @version_of_others(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{api_version is 2 : i32; a C function that is called with memrefs has none, leave it out}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "update", api_version = 2 : i32} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

// A call that nobody reads is checked before it goes.
func.func @dead(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{quantized::matmul.packed: lhs is 's4'; it must be one of 'f32', 's8', 's8_token'}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "s4"}} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @dead_foreign(%x: tensor<3x64xf32>, %w: tensor<?xi8>) {
  // expected-error @below {{backend_config of @update is {a = 1 : i64}; to a C function only a string can be passed}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "update", backend_config = {a = 1}} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @unsigned_group(%x: tensor<3x64xf32>, %c: tensor<48x32xi8>, %s: tensor<48x2xf16>) {
  // expected-error @below {{quantized::matmul.grouped: group is 128; it must be a multiple of 8 up to k, or k = 64}}
  %0 = "stablehlo.custom_call"(%x, %c, %s) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 128 : ui8}} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>) -> tensor<3x48xf32>
  return
}

// -----

func.func @zeros_of_floats(%x: tensor<3x64xf32>, %c: tensor<48x32xi8>, %s: tensor<48x2xf16>, %z: tensor<48x2xf32>, %m: tensor<0x0xf16>) {
  // expected-error @below {{quantized::matmul.grouped: zeros is f32; it must be i8 or u8}}
  %0 = "stablehlo.custom_call"(%x, %c, %s, %z, %m) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 32}} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>, tensor<48x2xf32>, tensor<0x0xf16>) -> tensor<3x48xf32>
  return
}

// -----

func.func @torch_elements(%x: tensor<3x64xf32>, %w: tensor<?x!torch.int>) {
  // expected-error @below {{operand 1 of @update is 'tensor<?x!torch.int>'; it must be a tensor of known rank and dtype}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "update"} : (tensor<3x64xf32>, tensor<?x!torch.int>) -> tensor<3x48xf32>
  return
}

// -----

// Nothing but true, or no value at all, makes an argument external.
func.func @not_external(%x: tensor<3x64xf32>, %w: tensor<?xf32> {qmm.external = "no"}) {
  return
}

// -----

func.func @promised_rows(%x: tensor<?x64xf32>, %w: tensor<?xi8>) -> tensor<5x32xf32> {
  // expected-error @below {{quantized::matmul.packed: the result is [?, 32] of f32; here it is stated to be 'tensor<5x32xf32>'}}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed"} : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<5x32xf32>
  return %0 : tensor<5x32xf32>
}

// -----

#x = affine_map<(m, n, k, b) -> (k, m)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

func.func @transposed(%x: tensor<64x64xf32>, %w: tensor<?xi8>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> {
  // expected-error @below {{of x (m, k) and y (m, n), m must be the same, and k reduced}}
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : tensor<64x64xf32>, tensor<?xi8>) outs(%y : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  } -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

func.func @in_place(%x: memref<?x64xf32>, %w: memref<?xi8>) {
  // expected-error @below {{quantized::matmul.packed: x and the result are of one buffer; the call reads one while it writes the other}}
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : memref<?x64xf32>, memref<?xi8>) outs(%x : memref<?x64xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

#x = affine_map<(m, n, k, b) -> (m, k)>
#w = affine_map<(m, n, k, b) -> (b)>
#y = affine_map<(m, n, k, b) -> (m, n)>

// The zeros have to be there when the body reads them.
func.func @written_between(%x: memref<?x64xf32>, %w: memref<?xi8>, %y: memref<?x32xf32>, %one: memref<f32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<?x32xf32>)
  memref.store %zero, %one[] : memref<f32>
  // expected-error @below {{quantized::matmul.packed: the body reads the output, which must be linalg.fill of 0 then}}
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quantized.matmul.packed"}
    ins(%x, %w : memref<?x64xf32>, memref<?xi8>) outs(%y : memref<?x32xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    %t = arith.addf %a, %c : f32
    linalg.yield %t : f32
  }
  return
}

// -----

// Of operands that fit neither way, what is said is of the way in which their dtypes fit.
func.func @shape_of_zeros(%x: tensor<3x64xf32>, %codes: tensor<48x32xi8>, %scales: tensor<48x2xf16>, %zeros: tensor<47x2xi8>) {
  // expected-error @below {{quantized::matmul.grouped: zeros [47, 2] must be [48, 2] for codes [48, 32], group 32}}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %zeros) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 32}, has_side_effect = true} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>, tensor<47x2xi8>) -> tensor<3x48xf32>
  return
}

// -----

func.func @shape_of_mins(%x: tensor<3x64xf32>, %codes: tensor<48x32xi8>, %scales: tensor<48x2xf16>, %mins: tensor<47x2xf16>) {
  // expected-error @below {{quantized::matmul.grouped: mins [47, 2] must be [48, 2] for codes [48, 32], group 32}}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %mins) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 32}, has_side_effect = true} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>, tensor<47x2xf16>) -> tensor<3x48xf32>
  return
}

// -----

// Weights that the program holds are looked into.
func.func @no_packed_weights(%x: tensor<3x64xf32>) -> tensor<3x48xf32> {
  %w = arith.constant dense<0> : tensor<512xi8>
  // expected-error @below {{quantized::matmul.packed: packed [512]: qmm_rhs_open: }}
  %0 = "stablehlo.custom_call"(%x, %w) {call_target_name = "qmm_matmul_packed"} : (tensor<3x64xf32>, tensor<512xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @zeros(%x: tensor<3x8xf32>) -> tensor<3x1xf32> {
  %codes = arith.constant dense<0> : tensor<1x4xi8>
  %scales = arith.constant dense<1.0> : tensor<1x1xf32>
  %zeros = arith.constant dense<17> : tensor<1x1xi8>
  // expected-error @below {{quantized::matmul.grouped: qmm_pack: }}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %zeros) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 4, group = 8}} : (tensor<3x8xf32>, tensor<1x4xi8>, tensor<1x1xf32>, tensor<1x1xi8>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

func.func @sign(%x: tensor<3x8xf32>, %codes: tensor<1x4xi8>, %scales: tensor<1x1x1xf32>) -> tensor<3x1xf32> {
  // expected-error @below {{quant::matmul_rhs_group_quant: codes are i8, which does not tell their sign; they must be ui8 or si8}}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales, %scales) {call_target_name = "quant.matmul_rhs_group_quant", backend_config = {bits = 4, group = 8}} : (tensor<3x8xf32>, tensor<1x4xi8>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

#x = affine_map<(m, n, k, g) -> (m, k)>
#w = affine_map<(m, n, k, g) -> (n, k)>
#s = affine_map<(m, n, k, g) -> (n, g, 0)>
#y = affine_map<(m, n, k, g) -> (m, n)>
func.func @group_quant_on_memrefs(%x: memref<3x8xf32>, %codes: memref<1x8xi8>, %scales: memref<1x1x1xf32>, %y: memref<3x1xf32>) {
  // expected-error @below {{quant::matmul_rhs_group_quant: it can be lowered on tensors, not on memrefs}}
  linalg.generic {indexing_maps = [#x, #w, #s, #s, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"], library_call = "quant.matmul_rhs_group_quant{bits = 8, group = 8}"}
    ins(%x, %codes, %scales, %scales : memref<3x8xf32>, memref<1x8xi8>, memref<1x1x1xf32>, memref<1x1x1xf32>) outs(%y : memref<3x1xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32, %d: f32, %e: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

func.func @rows(%a: tensor<3x64xf32>, %b: tensor<1344xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.packed: m is 4 in the descriptor; that of the operands is 3}}
  %0 = "stablehlo.custom_call"(%a, %b) {call_target_name = "qmm_matmul_packed", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\40\05\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<1344xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @bytes(%a: tensor<3x64xf32>, %b: tensor<?xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.packed: packed_size is 1344 in the descriptor; that of the operands is ?}}
  %0 = "stablehlo.custom_call"(%a, %b) {call_target_name = "qmm_matmul_packed", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\40\05\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<?xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @untyped_lhs(%a: tensor<3x64xf32>, %b: tensor<1344xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.packed: lhs_kind is 3 in the descriptor}}
  %0 = "stablehlo.custom_call"(%a, %b) {call_target_name = "qmm_matmul_packed", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\03\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\40\05\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<1344xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @other_target(%a: tensor<3x64xf32>, %b: tensor<1344xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{qmm_matmul_packed: bits is 4 in the descriptor; here it must be 0}}
  %0 = "stablehlo.custom_call"(%a, %b) {call_target_name = "qmm_matmul_packed", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00\00\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\40\05\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<1344xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @untyped_half(%a: tensor<3x64xf16>, %b: tensor<1344xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.packed: x is f16; in an untyped call it must be f32}}
  %0 = "stablehlo.custom_call"(%a, %b) {call_target_name = "qmm_matmul_packed", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\40\05\00\00\00\00\00\00"} : (tensor<3x64xf16>, tensor<1344xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @untyped_scales(%a: tensor<3x64xf32>, %b: tensor<48x32xi8>, %c: tensor<48x2xf16>, %d: tensor<0x0xi8>, %e: tensor<0x0xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.grouped: scale_dtype is 2 in the descriptor; the scales are f16}}
  %0 = "stablehlo.custom_call"(%a, %b, %c, %d, %e) {call_target_name = "qmm_matmul_grouped", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00\02\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\20\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>, tensor<0x0xi8>, tensor<0x0xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @untyped_offset(%a: tensor<3x64xf32>, %b: tensor<48x32xi8>, %c: tensor<48x2xf16>, %d: tensor<0x0xi8>, %e: tensor<0x0xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.grouped: offset is 3 in the descriptor}}
  %0 = "stablehlo.custom_call"(%a, %b, %c, %d, %e) {call_target_name = "qmm_matmul_grouped", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\04\00\00\00\03\00\00\00\01\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\20\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>, tensor<0x0xi8>, tensor<0x0xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @untyped_zeros(%a: tensor<3x64xf32>, %b: tensor<48x32xi8>, %c: tensor<48x2xf16>, %d: tensor<0x0xi8>, %e: tensor<0x0xi8>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.grouped: zeros [0, 0] must be [48, 2]}}
  %0 = "stablehlo.custom_call"(%a, %b, %c, %d, %e) {call_target_name = "qmm_matmul_grouped", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\04\00\00\00\01\00\00\00\01\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\20\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>, tensor<0x0xi8>, tensor<0x0xi8>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

func.func @untyped_operands(%a: tensor<3x64xf32>, %b: tensor<48x32xi8>, %c: tensor<48x2xf16>) -> tensor<3x48xf32> {
  // expected-error @below {{quantized::matmul.grouped: 3 operands; an untyped call takes 5}}
  %0 = "stablehlo.custom_call"(%a, %b, %c) {call_target_name = "qmm_matmul_grouped", api_version = 3 : i32, backend_config = "\01\00\00\00\40\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00\01\00\00\00\03\00\00\00\00\00\00\00\30\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00\20\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"} : (tensor<3x64xf32>, tensor<48x32xi8>, tensor<48x2xf16>) -> tensor<3x48xf32>
  return %0 : tensor<3x48xf32>
}

// -----

// Constants whose shape the rules leave open, since k of x is not known.
func.func @scales_of_half_the_groups(%x: tensor<?x?xf32>) -> tensor<?x4xf32> {
  %codes = "stablehlo.constant"() {value = dense<1> : tensor<4x16xui8>} : () -> tensor<4x16xui8>
  %scales = "stablehlo.constant"() {value = dense<1.0> : tensor<4x1xf32>} : () -> tensor<4x1xf32>
  // expected-error @below {{scales have 4 elements; for [4, 16] in groups of 8 they must have 8}}
  %0 = "stablehlo.custom_call"(%x, %codes, %scales) {call_target_name = "qmm_matmul_grouped", backend_config = {bits = 8, group = 8}} : (tensor<?x?xf32>, tensor<4x16xui8>, tensor<4x1xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
