# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch: loops over the copies in TorchScript, since an op called from Python costs as much as a small matmul."""

import time

import torch

from . import problem
from .contender import Contender

VERSIONS = {"torch": torch.__version__}


class _Loop(torch.nn.Module):
    """Calls an op with each copy of the weights. It owns its lists: those that TorchScript is given, it copies."""

    def __init__(self, weights, scales):
        super().__init__()
        self.weights, self.scales = weights, scales
        self.y = [torch.empty(0)] * len(weights)

    @torch.jit.export
    def result(self, copy: int) -> torch.Tensor:
        return self.y[copy]


class _LinearLoop(_Loop):
    def forward(self, x: torch.Tensor):
        for i, w in enumerate(self.weights):
            self.y[i] = torch.nn.functional.linear(x, w)


class _LinearDynamicLoop(_Loop):
    def forward(self, x: torch.Tensor):
        for i, w in enumerate(self.weights):
            self.y[i] = torch.ops.quantized.linear_dynamic(x, w, True)


class _Int4Loop(_Loop):
    def forward(self, x: torch.Tensor):
        for i, w in enumerate(self.weights):
            self.y[i] = torch.ops.aten._weight_int4pack_mm_for_cpu(x, w, 32, self.scales[i])


class _Int8Loop(_Loop):
    def forward(self, x: torch.Tensor):
        for i, w in enumerate(self.weights):
            self.y[i] = torch.ops.aten._weight_int8pack_mm(x, w, self.scales[i])


class _DynQuantLoop(_Loop):
    def forward(self, x: torch.Tensor):
        for i, w in enumerate(self.weights):
            n, k = self.scales[i].shape[0], x.shape[1]
            self.y[i] = torch.ops.aten._dyn_quant_matmul_4bit(x, w, 32, k, n)


class Torch(Contender):
    """Subclasses name the loop, and pack one copy: weights and scales as the op wants them."""

    dtype = torch.float32  # of x and y

    def __init__(self, threads):
        torch.set_num_threads(threads)

    def pack(self, copies):
        self.module = None  # before there is another
        weights, scales = zip(*(self.packed(i) for i in range(copies)), strict=True)
        self.module = torch.jit.script(self.loop(list(weights), list(scales)))

    def bind(self, x):
        self.x = torch.from_numpy(x).to(self.dtype)

    def run(self):
        with torch.inference_mode():
            self.module(self.x)

    def result(self, copy):
        return self.module.result(copy).float().numpy()

    def turned(self, array, copy):
        return torch.from_numpy(problem.turned(array, copy))


class Linear(Torch):
    label = "aten::linear f32 (MKL)"
    tolerance = problem.TOLERANCE[32]
    loop = _LinearLoop

    def quantize(self, w):
        self.w, self.weight_bytes = w, w.nbytes

    def packed(self, copy):
        return self.turned(self.w, copy), torch.empty(0)


class Quantized(Torch):
    bits, group = 8, None  # k to a scale, None for all
    scale_bytes = 2  # in the format of the op, for each scale

    def __init__(self, threads):
        super().__init__(threads)
        self.tolerance = problem.TOLERANCE[self.bits]

    def quantize(self, w):
        codes, self.scales = problem.quantize(w, self.bits, self.group or w.shape[1])
        self.codes = codes.reshape(w.shape)
        self.weight_bytes = codes.size * self.bits // 8 + self.scale_bytes * self.scales.size


class LinearDynamic(Quantized):
    """What torch.ao.nn.quantized.dynamic.Linear calls: s8 per channel by u8 of 7 bits, so that no sum saturates."""

    loop = _LinearDynamicLoop
    scale_bytes = 4

    def __init__(self, threads, engine):
        super().__init__(threads)
        self.engine = engine
        self.label = f"quantized::linear_dynamic, {engine}, reduce_range"

    def packed(self, copy):
        torch.backends.quantized.engine = self.engine
        codes, scales = self.turned(self.codes, copy), self.turned(self.scales[:, 0], copy).double()
        zeros = torch.zeros(len(codes), dtype=torch.long)
        w = torch._make_per_channel_quantized_tensor(codes, scales, zeros, 0)
        return torch.ops.quantized.linear_prepack(w, None), torch.empty(0)


class Int4(Quantized):
    """Weight-only. Its kernels take bf16; of f32 it makes a plain loop."""

    label = "_weight_int4pack_mm_for_cpu, bf16, group 32"
    loop = _Int4Loop
    dtype = torch.bfloat16
    bits, group = 4, 32
    scale_bytes = 4  # with the offset beside it

    def packed(self, copy):
        codes, scales = self.turned(self.codes, copy).int(), self.turned(self.scales, copy).T
        w = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        # [groups, n, 2]: the scale, and what the code 8 stands for.
        return w, torch.stack([scales, torch.zeros_like(scales)], -1).to(self.dtype)


class Int8(Quantized):
    """Weight-only, and for bf16 as well."""

    label = "_weight_int8pack_mm, bf16"
    loop = _Int8Loop
    dtype = torch.bfloat16

    def packed(self, copy):
        return self.turned(self.codes, copy), self.turned(self.scales[:, 0], copy).to(self.dtype)


class DynQuant(Quantized):
    """Has kernels for Arm alone (KleidiAI's); elsewhere it is a plain loop."""

    label = "_dyn_quant_matmul_4bit, group 32"
    loop = _DynQuantLoop
    bits, group = 4, 32

    def refusal(self, n, k):
        trial, shape = DynQuant(torch.get_num_threads()), (64, 512)
        trial.quantize(problem.weights(*shape))
        trial.pack(1)
        trial.bind(problem.activations(1, shape[1]))
        start = time.perf_counter_ns()
        trial.run()
        speed = 2 * shape[0] * shape[1] / (time.perf_counter_ns() - start)
        return "a plain loop on this CPU, below 2 GFLOP/s" if speed < 2 else ""

    def packed(self, copy):
        codes, scales = self.turned(self.codes, copy), self.turned(self.scales, copy)
        n, k = codes.shape
        w = torch.ops.aten._dyn_quant_pack_4bit_weight(problem.nibbles(codes), scales, None, 32, k, n)
        return w, scales
