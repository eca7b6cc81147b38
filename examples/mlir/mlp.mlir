// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two layers with a ReLU between them. The weights are packed bytes that the caller has.
func.func @mlp(%x: tensor<?x64xf32>, %up: tensor<?xi8>, %down: tensor<?xi8>) -> tensor<?x32xf32>
    attributes {llvm.emit_c_interface} {
  %0 = "stablehlo.custom_call"(%x, %up) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "s8"}}
    : (tensor<?x64xf32>, tensor<?xi8>) -> tensor<?x128xf32>
  %zero = arith.constant 0.0 : f32
  %1 = linalg.generic {iterator_types = ["parallel", "parallel"],
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>]}
    ins(%0 : tensor<?x128xf32>) outs(%0 : tensor<?x128xf32>) {
  ^bb0(%a: f32, %b: f32):
    %positive = arith.maximumf %a, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x128xf32>
  %2 = "stablehlo.custom_call"(%1, %down) {call_target_name = "qmm_matmul_packed", backend_config = {lhs = "s8"}}
    : (tensor<?x128xf32>, tensor<?xi8>) -> tensor<?x32xf32>
  return %2 : tensor<?x32xf32>
}
