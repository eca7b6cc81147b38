# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime: a model of as many nodes as there are copies, all of one input, with its outputs bound to memory."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from . import problem
from .contender import Contender

VERSIONS = {"onnxruntime": onnxruntime.__version__}
DOMAIN = "com.microsoft"


class Ort(Contender):
    """Subclasses tell the constants of a copy, each with its axis of n, and its node."""

    def __init__(self, threads):
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1

    def quantize(self, w):
        self.shape = w.shape
        self.constants = self.quantized(w)
        self.weight_bytes = sum(array.nbytes for array, _ in self.constants.values())

    def _model(self, copies):
        n, k = self.shape
        nodes, initializers = [], []
        for i in range(copies):
            for name, (array, axis) in self.constants.items():
                turned = np.ascontiguousarray(problem.turned(array, i, axis))
                initializers.append(numpy_helper.from_array(turned, f"{name}{i}"))
            nodes.append(self.node([f"{name}{i}" for name in self.constants], f"y{i}"))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])
        ys = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["m", n]) for i in range(copies)]
        graph = helper.make_graph(nodes, "matmuls", [x], ys, initializers)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def pack(self, copies):
        self.session = self.binding = None  # before there is another
        self.copies = copies
        self.session = onnxruntime.InferenceSession(
            self._model(copies), self.options, providers=["CPUExecutionProvider"]
        )

    def bind(self, x):
        m, n = len(x), self.shape[0]
        self.x, self.y = x, np.empty((self.copies, m, n), np.float32)
        self.binding = self.session.io_binding()
        self.binding.bind_cpu_input("x", x)
        for i in range(self.copies):
            self.binding.bind_output(f"y{i}", "cpu", 0, np.float32, [m, n], self.y[i].ctypes.data)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def result(self, copy):
        return self.y[copy]


class MatMulNBits(Ort):
    """Weights in blocks of k; accuracy_level 4 lets the lhs become 8-bit integers, per block."""

    def __init__(self, threads, bits, group):
        super().__init__(threads)
        self.bits, self.group = bits, group
        self.tolerance = problem.TOLERANCE[bits]
        self.label = f"MatMulNBits, {bits} bits, block {group}, accuracy_level 4"

    def quantized(self, w):
        codes, scales = problem.quantize(w, self.bits, self.group)
        codes = problem.nibbles(codes) if self.bits == 4 else codes.view(np.uint8) ^ 0x80
        return {"codes": (codes, 0), "scales": (scales, 0)}

    def node(self, constants, y):
        n, k = self.shape
        return helper.make_node(
            "MatMulNBits",
            ["x", *constants],
            [y],
            domain=DOMAIN,
            N=n,
            K=k,
            bits=self.bits,
            block_size=self.group,
            accuracy_level=4,
        )


class DynamicQuantizeMatMul(Ort):
    """What quantize_dynamic makes of a MatMul: lhs u8, rhs s8 per channel. Without VNNI its sums of pairs saturate."""

    tolerance = problem.TOLERANCE[8]
    label = "DynamicQuantizeMatMul, u8 x s8"

    def quantized(self, w):
        codes, scales = problem.quantize(w, 8, w.shape[1])
        return {"codes": (codes.reshape(w.shape).T, 1), "scales": (scales[:, 0], 0)}

    def node(self, constants, y):
        return helper.make_node("DynamicQuantizeMatMul", ["x", *constants], [y], domain=DOMAIN)
