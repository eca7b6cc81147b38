# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ggml, by the shared libraries of llama-cpp-python: a graph of as many ggml_mul_mat as there are copies, all of one x.

Weights are where llama.cpp puts them: in the CPU's repacked buffer type where it takes their type, else as they are.
"""

import ctypes
import importlib.metadata
import importlib.util
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

from . import problem
from .contender import Contender

F32 = 0
# Values of enum ggml_type, and how many k are quantized together.
TYPES = {"q4_0": (2, 32), "q4_1": (3, 32), "q4_k": (12, 256), "q8_0": (8, 32)}

FOLDER = Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
_libraries = [ctypes.CDLL(str(FOLDER / f"lib{name}.so"), ctypes.RTLD_GLOBAL) for name in ("ggml-base", "ggml-cpu")]


class _InitParams(Structure):
    _fields_ = (("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool))


class _Feature(Structure):
    _fields_ = (("name", c_char_p), ("value", c_char_p))


def _function(name, returns, *argtypes):
    function = next(library[name] for library in _libraries if hasattr(library, name))
    function.restype, function.argtypes = returns, argtypes
    return function


_init = _function("ggml_init", c_void_p, _InitParams)
_free = _function("ggml_free", None, c_void_p)
_tensor_overhead = _function("ggml_tensor_overhead", c_size_t)
_graph_overhead = _function("ggml_graph_overhead_custom", c_size_t, c_size_t, c_bool)
_new_tensor_2d = _function("ggml_new_tensor_2d", c_void_p, c_void_p, c_int, c_int64, c_int64)
_mul_mat = _function("ggml_mul_mat", c_void_p, c_void_p, c_void_p, c_void_p)
_new_graph = _function("ggml_new_graph_custom", c_void_p, c_void_p, c_size_t, c_bool)
_build_forward_expand = _function("ggml_build_forward_expand", None, c_void_p, c_void_p)
_quantize_chunk = _function(
    "ggml_quantize_chunk", c_size_t, c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p
)
_row_size = _function("ggml_row_size", c_size_t, c_int, c_int64)
_alloc_tensors = _function("ggml_backend_alloc_ctx_tensors_from_buft", c_void_p, c_void_p, c_void_p)
_buffer_free = _function("ggml_backend_buffer_free", None, c_void_p)
_buft_name = _function("ggml_backend_buft_name", c_char_p, c_void_p)
_cpu_buft = _function("ggml_backend_cpu_buffer_type", c_void_p)
_tensor_set = _function("ggml_backend_tensor_set", None, c_void_p, c_void_p, c_size_t, c_size_t)
_tensor_get = _function("ggml_backend_tensor_get", None, c_void_p, c_void_p, c_size_t, c_size_t)
_cpu_init = _function("ggml_backend_cpu_init", c_void_p)
_cpu_set_n_threads = _function("ggml_backend_cpu_set_n_threads", None, c_void_p, c_int)
_graph_compute = _function("ggml_backend_graph_compute", c_int, c_void_p, c_void_p)
_cpu_reg = _function("ggml_backend_cpu_reg", c_void_p)
_reg_dev_get = _function("ggml_backend_reg_dev_get", c_void_p, c_void_p, c_size_t)
_reg_get_proc_address = _function("ggml_backend_reg_get_proc_address", c_void_p, c_void_p, c_char_p)
_dev_supports_op = _function("ggml_backend_dev_supports_op", c_bool, c_void_p, c_void_p)
_log_set = _function("ggml_log_set", None, c_void_p, c_void_p)

# Else a line is written for each repacked tensor.
_silent = CFUNCTYPE(None, c_int, c_char_p, c_void_p)(lambda level, text, data: None)
_log_set(ctypes.cast(_silent, c_void_p), None)
_device = _reg_dev_get(_cpu_reg(), 0)


def _until_null(array, value):
    i = 0
    while value(array[i]):
        yield array[i]
        i += 1


def _extra_buffer_types():
    get = CFUNCTYPE(POINTER(c_void_p), c_void_p)(_reg_get_proc_address(_cpu_reg(), b"ggml_backend_dev_get_extra_bufts"))
    return list(_until_null(get(_device), lambda buffer_type: buffer_type))


def _features():
    get = CFUNCTYPE(POINTER(_Feature), c_void_p)(_reg_get_proc_address(_cpu_reg(), b"ggml_backend_get_features"))
    return [feature.name.decode() for feature in _until_null(get(_cpu_reg()), lambda feature: feature.name)]


VERSIONS = {"llama-cpp-python": f"{importlib.metadata.version('llama-cpp-python')}; {' '.join(_features())}"}


class _Context:
    """Tensors, allocated together in one buffer."""

    def __init__(self, size):
        self.context = _init(_InitParams(size, None, True))
        self.buffer = None

    def allocate(self, buffer_type):
        self.buffer = _alloc_tensors(self.context, buffer_type)
        if not self.buffer:
            raise MemoryError("ggml has no memory for the tensors")

    def __del__(self):
        if self.buffer:
            _buffer_free(self.buffer)
        _free(self.context)


class Ggml(Contender):
    def __init__(self, threads, name):
        self.name = name
        self.type, self.block = TYPES[name]
        self.tolerance = problem.TOLERANCE[int(name[1])]
        self.backend = _cpu_init()
        _cpu_set_n_threads(self.backend, threads)

    def refusal(self, n, k):
        return f"K = {k} is no multiple of {self.block}, its block" if k % self.block else ""

    def _buffer_type(self):
        """Returns the first type of buffer in which the CPU multiplies by these weights."""
        n, k = self.shape
        for buffer_type in _extra_buffer_types():
            trial = _Context(4 * _tensor_overhead())
            w = _new_tensor_2d(trial.context, self.type, k, n)
            trial.allocate(buffer_type)
            x = _new_tensor_2d(trial.context, F32, k, 1)
            if _dev_supports_op(_device, _mul_mat(trial.context, w, x)):
                return buffer_type
        return _cpu_buft()

    def quantize(self, w):
        n, k = self.shape = w.shape
        self.quantized = np.empty((n, _row_size(self.type, k)), np.uint8)
        _quantize_chunk(self.type, w.ctypes.data, self.quantized.ctypes.data, 0, n, k, None)
        self.weight_bytes = self.quantized.nbytes

    def pack(self, copies):
        self.graph_context = self.weights_context = None  # before there are others
        n, k = self.shape
        buffer_type = self._buffer_type()
        self.weights_context = _Context((copies + 1) * _tensor_overhead())
        self.weights = [_new_tensor_2d(self.weights_context.context, self.type, k, n) for _ in range(copies)]
        self.weights_context.allocate(buffer_type)
        for i, tensor in enumerate(self.weights):
            turned = problem.turned(self.quantized, i)
            _tensor_set(tensor, turned.ctypes.data, 0, turned.nbytes)
        self.label = f"ggml_mul_mat, {self.name.upper()}, {_buft_name(buffer_type).decode()} buffer"

    def bind(self, x):
        m, k = x.shape
        size = len(self.weights) + 1  # of the graph: that many nodes, and as many leaves
        self.graph_context = _Context((size + 1) * _tensor_overhead() + _graph_overhead(size, False))
        context = self.graph_context.context
        tensor = _new_tensor_2d(context, F32, k, m)
        self.y = [_mul_mat(context, w, tensor) for w in self.weights]
        self.graph = _new_graph(context, size, False)
        for y in self.y:
            _build_forward_expand(self.graph, y)
        self.graph_context.allocate(_cpu_buft())
        _tensor_set(tensor, x.ctypes.data, 0, x.nbytes)
        self.m = m

    def run(self):
        if _graph_compute(self.backend, self.graph) != 0:
            raise RuntimeError("ggml_backend_graph_compute failed")

    def result(self, copy):
        y = np.empty((self.m, self.shape[0]), np.float32)
        _tensor_get(self.y[copy], y.ctypes.data, 0, y.nbytes)
        return y
