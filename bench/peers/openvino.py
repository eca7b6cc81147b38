# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""OpenVINO: models of as many compressed MatMuls as there are copies, all of one input.

The weights are decompressed as in the models that its own tools write: convert, subtract the zero point, multiply by
f16 scales. Dynamic quantization of the lhs is asked for; the plugin follows where the CPU has the instructions for it.
"""

import numpy as np
import openvino
from openvino import opset13 as op

from . import problem
from .contender import Contender

VERSIONS = {"openvino": openvino.__version__}
NODES = 100  # of a model: compiling takes longer than in proportion
F16, F32, U4 = openvino.Type.f16, openvino.Type.f32, openvino.Type.u4


def _u4(nibbles, shape):
    tensor = openvino.Tensor(U4, openvino.Shape(shape))
    tensor.data[:] = np.ravel(nibbles)
    return op.convert(op.constant(tensor), F16)


class OpenVino(Contender):
    def __init__(self, threads, bits, group):
        self.bits, self.group = bits, group
        self.tolerance = problem.TOLERANCE[bits]
        self.core = openvino.Core()
        self.settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
        }

    def refusal(self, n, k):
        if self.group and k % self.group:
            return f"K = {k} is no multiple of the group, {self.group}, as its weights' shape [N, groups, group] needs"
        return ""

    def _matmul(self, x, codes, scales):
        n, groups, group = codes.shape
        if self.bits == 4:
            w = op.subtract(_u4(problem.nibbles(codes), codes.shape), _u4(8, [1, 1, 1]))
        else:
            w = op.convert(op.constant(codes), F16)
        w = op.multiply(w, op.constant(scales[..., None]))
        w = op.convert(op.reshape(w, op.constant(np.array([n, groups * group])), False), F32)
        return op.result(op.matmul(x, w, False, True))

    def quantize(self, w):
        group = self.group or w.shape[1]
        self.codes, scales = problem.quantize(w, self.bits, group)
        self.scales = scales.astype(np.float16)
        self.weight_bytes = self.codes.size * self.bits // 8 + self.scales.nbytes
        self.settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = group

    def pack(self, copies):
        self.requests = []  # before there are others
        for first in range(0, copies, NODES):
            x = op.parameter([-1, self.codes.shape[1] * self.codes.shape[2]], F32)
            results = [
                self._matmul(x, problem.turned(self.codes, i), problem.turned(self.scales, i))
                for i in range(first, min(first + NODES, copies))
            ]
            compiled = self.core.compile_model(openvino.Model(results, [x]), "CPU", self.settings)
            self.requests.append(compiled.create_infer_request())

    def bind(self, x):
        self.x = openvino.Tensor(x)
        for request in self.requests:
            request.set_input_tensor(self.x)
        self.run()  # after which the plugin tells its primitive
        nodes = self.requests[0].get_compiled_model().get_runtime_model().get_ordered_ops()
        kinds = {(node.rt_info["layerType"].astype(str), node.rt_info["primitiveType"].astype(str)) for node in nodes}
        primitives = " ".join(sorted(primitive for layer, primitive in kinds if layer == "FullyConnected"))
        self.label = f"MatMul of {self.bits}-bit weights, {primitives}"

    def run(self):
        # infer() would also look at every output.
        for request in self.requests:
            request.start_async()
            request.wait()

    def result(self, copy):
        return self.requests[copy // NODES].get_output_tensor(copy % NODES).data
