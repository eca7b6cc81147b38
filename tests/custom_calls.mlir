// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every op as a custom call, hand-written, for XLA and for libqmm's own passes: W[20,72] in groups of 32, packed, and
// canonical with 4 bits, with zeros, with mins, and symmetric.
func.func public @main(%x: tensor<2x3x72xf32>, %packed: tensor<1792xui8>, %codes: tensor<20x36xui8>, %scales: tensor<20x3xf16>, %zeros: tensor<20x3xi8>, %mins: tensor<20x3xf16>, %ids: tensor<2x2xi64>) -> (tensor<2x3x20xf32>, tensor<2x3x20xf32>, tensor<2x3x20xf32>, tensor<2x3x20xf32>, tensor<2x2x72xf32>) {
  %no_zeros = "stablehlo.constant"() {value = dense<> : tensor<0x0xi8>} : () -> tensor<0x0xi8>
  %no_mins = "stablehlo.constant"() {value = dense<> : tensor<0x0xf16>} : () -> tensor<0x0xf16>
  %0 = "stablehlo.custom_call"(%x, %packed) {call_target_name = "qmm_matmul_packed", api_version = 4 : i32, has_side_effect = false, backend_config = {lhs = "s8"}} : (tensor<2x3x72xf32>, tensor<1792xui8>) -> tensor<2x3x20xf32>
  %1 = "stablehlo.custom_call"(%x, %codes, %scales, %zeros, %no_mins) {call_target_name = "qmm_matmul_grouped", api_version = 4 : i32, has_side_effect = false, backend_config = {bits = 4 : i64, group = 32 : i64, lhs = "s8_token"}} : (tensor<2x3x72xf32>, tensor<20x36xui8>, tensor<20x3xf16>, tensor<20x3xi8>, tensor<0x0xf16>) -> tensor<2x3x20xf32>
  %2 = "stablehlo.custom_call"(%x, %codes, %scales, %no_zeros, %mins) {call_target_name = "qmm_matmul_grouped", api_version = 4 : i32, has_side_effect = false, backend_config = {bits = 4 : i64, group = 32 : i64, lhs = "f32"}} : (tensor<2x3x72xf32>, tensor<20x36xui8>, tensor<20x3xf16>, tensor<0x0xi8>, tensor<20x3xf16>) -> tensor<2x3x20xf32>
  %3 = "stablehlo.custom_call"(%x, %codes, %scales, %no_zeros, %no_mins) {call_target_name = "qmm_matmul_grouped", api_version = 4 : i32, has_side_effect = false, backend_config = {bits = 4 : i64, group = 32 : i64}} : (tensor<2x3x72xf32>, tensor<20x36xui8>, tensor<20x3xf16>, tensor<0x0xi8>, tensor<0x0xf16>) -> tensor<2x3x20xf32>
  %4 = "stablehlo.custom_call"(%ids, %packed) {call_target_name = "qmm_rows_packed", api_version = 4 : i32, has_side_effect = false} : (tensor<2x2xi64>, tensor<1792xui8>) -> tensor<2x2x72xf32>
  func.return %0, %1, %2, %3, %4 : tensor<2x3x20xf32>, tensor<2x3x20xf32>, tensor<2x3x20xf32>, tensor<2x3x20xf32>, tensor<2x2x72xf32>
}
