# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libqmm, by its C ABI. A loop in C (loop.c) calls it for all copies: Python's own calls would be seen."""

import ctypes
import os

import numpy as np

import libqmm
from libqmm import _c

from . import problem
from .contender import Contender

VERSIONS = {"libqmm": libqmm.version()}


class Libqmm(Contender):
    def __init__(self, threads, bits, group, lhs):
        self.bits, self.group, self.lhs = bits, group, lhs
        self.tolerance = problem.TOLERANCE[bits]
        self.loop = ctypes.CDLL(os.environ["QMM_PEERS_LOOP"]).run
        libqmm.set_num_threads(threads)
        if libqmm.num_threads() != threads:
            raise RuntimeError(f"libqmm runs on {libqmm.num_threads()} threads, not on {threads}")

    def quantize(self, w):
        n, k = w.shape
        group = self.group or k
        codes, scales = problem.quantize(w, self.bits, group)
        codes = codes.reshape(n, -1)[:, :k]
        self.codes = problem.nibbles(codes) if self.bits == 4 else codes
        dtype = "f16" if self.group else "f32"
        self.scales = scales.astype({"f16": np.float16, "f32": np.float32}[dtype])
        self.desc = libqmm.RhsDesc(n, k, self.bits, group, scale_dtype=dtype)
        self.weight_bytes = libqmm.packed_size(self.desc)

    def _packed(self, copy):
        codes, scales = problem.turned(self.codes, copy), problem.turned(self.scales, copy)
        return libqmm.pack(libqmm.Weights(codes, scales, bits=self.bits, group=self.desc.group, k=self.desc.k))

    def pack(self, copies):
        self.memory = None  # before there is more
        stride = -(-self.weight_bytes // 64) * 64
        self.memory = np.empty(copies * stride + 63, np.uint8)  # numpy asks for huge pages where it is large
        start = self.memory.ctypes.data + -self.memory.ctypes.data % 64
        self.opened = (_c.qmm_rhs * copies)()
        for i in range(copies):
            packed = self._packed(i)
            ctypes.memmove(start + i * stride, packed.ctypes.data, packed.size)
            self.opened[i] = _c.open_rhs(start + i * stride, self.weight_bytes)

    def bind(self, x):
        m, k = x.shape
        self.x = x
        self.y = np.empty((len(self.opened), m, self.desc.n), np.float32)
        self.calls = (_c.qmm_matmul_args * len(self.opened))()
        for i, rhs in enumerate(self.opened):
            self.calls[i] = _c.qmm_matmul_args(
                lhs_kind=libqmm.lhs_kind("peers", self.lhs),
                m=m,
                x=x.ctypes.data,
                x_row_stride=k,
                rhs=ctypes.pointer(rhs),
                y=self.y[i].ctypes.data,
                y_row_stride=self.desc.n,
            )
        self.label = libqmm.kernel_name(self.desc, m, self.lhs)

    def run(self):
        if self.loop(_c._library.qmm_matmul, self.calls, ctypes.c_size_t(len(self.calls))) != 0:
            raise RuntimeError(_c.qmm_last_error().decode())

    def result(self, copy):
        return self.y[copy]
