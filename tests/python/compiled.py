# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls entries of a compiled shared library with torch tensors, as its C header says; compiles some by qmm-opt."""

from __future__ import annotations

import ctypes
import subprocess
from ctypes import byref, c_int64, c_void_p
from pathlib import Path

import torch

from libqmm import _c

QMM_OPT = Path(__file__).parents[2] / "build" / "release" / "abi" / "mlir" / "qmm-opt"  # ./dev test builds it

_libc = ctypes.CDLL(None)
_libc.free.argtypes = [c_void_p]


class _Tensor(ctypes.Structure):
    rank: int

    @classmethod
    def of(cls, rank: int) -> type[_Tensor]:
        extents = [("sizes", c_int64 * rank), ("strides", c_int64 * rank)]
        fields = [("allocated", c_void_p), ("aligned", c_void_p), ("offset", c_int64), *(extents if rank else [])]
        return type(f"Tensor{rank}", (_Tensor,), {"_fields_": fields, "rank": rank})

    @classmethod
    def view(cls, tensor: torch.Tensor) -> _Tensor:
        assert tensor.is_contiguous()
        type, address = cls.of(tensor.dim()), tensor.data_ptr()
        if tensor.dim() == 0:
            return type(address, address, 0)
        # torch.empty: an empty tensor may have any strides.
        return type(address, address, 0, tuple(tensor.shape), torch.empty(tensor.shape, device="meta").stride())

    def take(self, dtype: torch.dtype) -> torch.Tensor:
        """Copies a result and frees it."""
        shape = list(self.sizes) if self.rank else []
        result = torch.empty(shape, dtype=dtype)
        assert not self.rank or result.numel() == 0 or list(self.strides) == list(result.stride())
        ctypes.memmove(result.data_ptr(), self.aligned, result.numel() * result.itemsize)
        _libc.free(self.allocated)
        return result


class Compiled:
    """The entries of a shared library; each is called as `compiled.<entry>(results, *arguments)`."""

    def __init__(self, path: Path):
        self._library = ctypes.CDLL(str(path))

    def __getattr__(self, entry: str):
        function = self._library[f"_mlir_ciface_{entry}"]

        def call(results: list[tuple[torch.dtype, int]], *arguments):
            """Returns the results, whose dtypes and ranks are given."""
            struct = type(
                "Results",
                (ctypes.Structure,),
                {"_fields_": [(f"r{i}", _Tensor.of(r)) for i, (_, r) in enumerate(results)]},
            )
            out = struct()
            passed = [byref(_Tensor.view(a)) if isinstance(a, torch.Tensor) else c_int64(a) for a in arguments]
            function.restype = None
            function(*([byref(out)] if results else []), *passed)
            return [getattr(out, f"r{i}").take(dtype) for i, (dtype, _) in enumerate(results)]

        return call


def qmm_opt(text: str, *options: str) -> str:
    """Runs qmm-opt over a module, whose dialects need not be registered."""
    command = [QMM_OPT, "--allow-unregistered-dialect", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_by_qmm_opt(folder: Path, text: str) -> Compiled:
    """Compiles a module as qmm_compile_model does, every function an entry, to a shared library; keeps passes.mlir."""
    passes = "builtin.module(func.func(llvm-request-c-wrappers),qmm-lower-to-llvm)"
    (folder / "passes.mlir").write_text(qmm_opt(text, f"--pass-pipeline={passes}"))
    for command in (
        ["mlir-translate-19", "--mlir-to-llvmir", "passes.mlir", "-o", "passes.ll"],
        ["clang-19", "-Wno-override-module", "-shared", "-fPIC", "passes.ll", "-o", "passes.so", str(_c.library_path)],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return Compiled(folder / "passes.so")
