# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libqmm's ops for JAX on the CPU: `import libqmm.jax` registers the custom calls of qmm/xla.h with XLA.

    y = libqmm.jax.quantized_matmul(x, packed, n, lhs="s8")
    y = libqmm.jax.quantized_matmul_grouped(x, codes, scales, bits=4, group=32)
    rows = libqmm.jax.quantized_embedding(ids, packed, k)

They work eagerly and under jit and vmap: a batch of x or ids is one call of more rows; batched weights run one after
the other. They are for inference: differentiating one raises ValueError. Shapes and dtypes are checked when a call is
traced, and so are packed weights that are there by then: ValueError with the numbers. What is wrong with weights or ids
that are known later only raises jax.errors.JaxRuntimeError, from where their result is waited for.

A call has as many threads as libqmm.set_num_threads says, 1 at first, beside XLA's own; calls that XLA runs at once do
not share them, the later one runs on its own thread.

StableHLO may name the targets of either kind, typed and untyped. Untyped calls fail through a status, and no function
that jaxlib exports sets it. So they are registered with the versions of jaxlib on Linux whose status is known: 0.10.2.
With others, XLA says that it knows no such target.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import backend
from jax.typing import ArrayLike
from jaxlib import version, xla_client

from . import _c, inspect
from .ops import OPS, Choice

if TYPE_CHECKING:
    import torch

__all__ = ["compile", "quantized_embedding", "quantized_matmul", "quantized_matmul_grouped"]

_OPS = {op.torch_name: op for op in OPS if op.callee}
_DTYPES = {
    "f32": jnp.float32,
    "f16": jnp.float16,
    "bf16": jnp.bfloat16,
    "u8": jnp.uint8,
    "i8": jnp.int8,
    "i32": jnp.int32,
    "i64": jnp.int64,
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}


def quantized_matmul(x: ArrayLike, packed: ArrayLike, n: int, lhs: str = "f32") -> jax.Array:
    """Computes x W^T with packed weights W[n, k], to the bit what qmm_matmul in qmm.h says.

    x       f32, f16 or bf16 [..., k]; f16 and bf16 are widened, and the result is rounded once
    packed  uint8 [size], from libqmm.pack
    n       rows of W
    lhs     "f32": x as it is; "s8": x quantized per group; "s8_token": x quantized per row

    Returns [..., n] of the dtype of x.
    """
    return _call("quantized::matmul.packed", x=x, packed=packed, n=n, lhs=lhs)


def quantized_matmul_grouped(
    x: ArrayLike,
    codes: ArrayLike,
    scales: ArrayLike,
    zeros: ArrayLike | None = None,
    mins: ArrayLike | None = None,
    *,
    bits: int,
    group: int,
    lhs: str = "f32",
) -> jax.Array:
    """Computes x W^T with canonical weights, which are packed on the fly at every call. With G = ceil(k / group),

    x       f32, f16 or bf16 [..., k]; f16 and bf16 are widened, and the result is rounded once
    codes   uint8 [n, ceil(k * bits / 8)], at 4 bits two codes a byte, the even k in the low nibble; at 8 bits int8 too
    scales  f32, f16 or bf16 [n, G]
    zeros   int8 [n, G], at 4 bits uint8 as well; or None
    mins    [n, G] of the dtype of the scales, or None; not both
    lhs     as in quantized_matmul

    Returns [..., n] of the dtype of x.
    """
    return _call(
        "quantized::matmul.grouped",
        x=x,
        codes=codes,
        scales=scales,
        zeros=zeros,
        bits=bits,
        group=group,
        mins=mins,
        lhs=lhs,
    )


def quantized_embedding(ids: ArrayLike, packed: ArrayLike, k: int) -> jax.Array:
    """Returns the rows W[ids, :] of packed weights W[n, k], f32 [..., k], for ids int32 or int64 [...] in 0 .. n-1.

    Called eagerly it takes 64 bits as they are; jit and vmap narrow those of numpy to 32, unless jax_enable_x64 is set.
    """
    return _call("quantized::embedding.packed", ids=ids, packed=packed, k=k)


def compile(program: torch.export.ExportedProgram) -> Callable[..., list[jax.Array]]:
    """Compiles an exported PyTorch program for XLA's CPU client, through torch-mlir's StableHLO pipeline.

    The function that is returned takes the program's tensor arguments as positional arrays, of their shapes and dtypes,
    and returns its results as a flat list. It copies the program's parameters and buffers, which become arguments
    of what XLA compiled, and the arguments of each call: changing them later changes no result. Our ops give the bits
    that they give in PyTorch's eager mode.

    What libqmm.mlir.stablehlo says of programs that it can not lower holds here.
    """
    import torch  # here, as all that follows, because they need PyTorch and torch-mlir

    from .mlir import stablehlo

    def to_numpy(tensor: torch.Tensor) -> np.ndarray:
        tensor = tensor.detach().contiguous()
        if tensor.dtype == torch.bfloat16:  # which numpy takes from JAX alone
            return tensor.view(torch.int16).numpy().view(jnp.bfloat16)
        return tensor.numpy()

    client = backend.get_backend("cpu")
    device = client.local_devices()[0]
    options = xla_client.CompileOptions()
    text, held = stablehlo(program)
    executable = client.compile_and_load(text, xla_client.DeviceList((device,)), options)
    weights = [_put(to_numpy(tensor), device) for tensor in held]
    values = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    expected = {
        name: (tuple(values[name].shape), to_numpy(torch.empty(0, dtype=values[name].dtype)).dtype)
        for name in program.graph_signature.user_inputs
    }

    def call(*arguments: ArrayLike) -> list[jax.Array]:
        if len(arguments) != len(expected):
            raise ValueError(f"{len(arguments)} arguments; the program takes {len(expected)}")
        given = [_put(argument, device) for argument in arguments]
        for (name, (shape, dtype)), array in zip(expected.items(), given, strict=True):
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"{name} is {array.dtype} {list(array.shape)}; it must be {dtype} {list(shape)}")
        results = executable.execute_sharded([*weights, *given])
        return [shards[0] for shards in results.disassemble_into_single_device_arrays()]

    return call


def _put(array: ArrayLike, device: jax.Device) -> jax.Array:
    """Returns a copy on a device, its dtype kept: JAX would narrow 64 bits to 32, and share some of numpy's memory."""
    with jax.enable_x64(True):
        return jax.device_put(array if isinstance(array, jax.Array) else np.array(array), device)


def _call(name: str, **arguments) -> jax.Array:
    op = _OPS[name]
    for tensor in op.tensors:
        if arguments[tensor] is not None and not hasattr(arguments[tensor], "dtype"):
            raise TypeError(f"{name}: {tensor} is a {type(arguments[tensor]).__name__}; it must be an array")
    given = {tensor: arguments[tensor] for tensor in op.tensors if arguments[tensor] is not None}
    shapes = {**arguments, **{tensor: array.shape for tensor, array in given.items()}}
    shape = op.shape(**shapes)
    dtypes = {tensor: _NAMES.get(dtype := np.dtype(array.dtype), str(dtype)) for tensor, array in given.items()}
    op.check_dtypes(arguments, dtypes, lambda dtype: str(np.dtype(_DTYPES[dtype])) if dtype in _DTYPES else dtype)
    if op.requires_of_packed and not isinstance(given["packed"], jax.core.Tracer):
        try:
            desc = inspect(np.asarray(given["packed"]))
        except ValueError as error:
            raise ValueError(f"{name}: packed {list(shapes['packed'])}: {error}") from None
        op.check_packed((desc.n, desc.k), **shapes)

    operands = []
    with jax.enable_x64(True):  # or JAX would narrow 64 bits to 32
        for tensor, spec in op.memrefs.items():
            if tensor in given:
                operands.append(jnp.asarray(given[tensor], _DTYPES.get(spec.passed_as)))
            else:  # which an extent of 0 says
                operands.append(jnp.zeros((0, 0), _DTYPES[op.allowed_dtypes(tensor, arguments, dtypes)[0]]))
    attributes = tuple(
        (scalar, arguments[scalar] if isinstance(op.arguments[scalar], Choice) else np.int64(arguments[scalar]))
        for scalar in op.scalars
    )
    y = _custom_call(name, shape[-1], attributes)(*operands)
    return y.astype(_DTYPES[dtypes.get(op.result_dtype, op.result_dtype)])


@functools.cache
def _custom_call(name: str, columns: int, attributes: tuple):
    """Returns the function of the op's operands that XLA calls; the same one again, so that it is traced once."""
    op = _OPS[name]
    rest = len(next(iter(op.tensors.values())).extents)

    @jax.custom_batching.custom_vmap
    def call(first, *others):
        leading = first.shape[: first.ndim - rest]
        result = jax.ShapeDtypeStruct((*leading, columns), jnp.float32)
        return jax.ffi.ffi_call(op.xla_target, result)(first, *others, **dict(attributes))

    @call.def_vmap
    def batch(_, batched, *operands):
        if batched[0] and not any(batched[1:]):
            return call(*operands), True  # one more of the leading extents, which the custom call folds
        taken = [operand for operand, is_batched in zip(operands, batched, strict=True) if is_batched]

        def one(slices):
            slices = iter(slices)
            return call(*(next(slices) if b else operand for operand, b in zip(operands, batched, strict=True)))

        return jax.lax.map(one, taken), True

    return jax.jit(call)


def _register(kind: str, api_version: int) -> None:
    for op in _OPS.values():
        handler = _c.symbol(op.xla_target.replace("qmm_", f"qmm_xla_{kind}_"))
        jax.ffi.register_ffi_target(op.xla_target, jax.ffi.pycapsule(handler), api_version=api_version)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
def _set_failure(status: int, message: int, size: int) -> None:
    """Makes the status of an untyped call a failure. It is an empty std::optional<std::string> of libstdc++."""
    construct = ctypes.CDLL("libstdc++.so.6")["_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1EPKcmRKS3_"]
    allocator = ctypes.c_char()  # std::allocator<char>, which is empty
    construct(ctypes.c_void_p(status), ctypes.c_void_p(message), ctypes.c_size_t(size), ctypes.byref(allocator))
    ctypes.c_bool.from_address(status + 32).value = True  # behind the string: that there is one


_register("ffi", 1)
if sys.platform == "linux" and version.__version__ == "0.10.2":
    _c.symbol("qmm_xla_set_status_setter")(_set_failure)
    _register("opaque", 0)
