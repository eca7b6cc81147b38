# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a library has to offer to be measured: Y = X W^T for as many copies of W as it is given, all with one X."""

from abc import ABC, abstractmethod


class Contender(ABC):
    """A kind of matmul of a library. It is made with the number of threads, in a process of its own."""

    label = ""  # what computes it; quantize, pack and bind may set it
    weight_bytes = 0  # of one copy
    tolerance = 0.0  # of the result's error, relative to fp32

    def refusal(self, n, k):
        """Returns a sentence where the library does not take W[n, k], or not in earnest; else ""."""
        return ""

    @abstractmethod
    def quantize(self, w):
        """Takes w f32 [n, k] for the weights, and sets weight_bytes."""

    @abstractmethod
    def pack(self, copies):
        """Makes copies of the weights as the library wants them, each turned on (problem.turned)."""

    @abstractmethod
    def bind(self, x):
        """Makes ready for x f32 [m, k]."""

    @abstractmethod
    def run(self):
        """Multiplies by every copy, once."""

    @abstractmethod
    def result(self, copy):
        """Returns what the last run computed with a copy, f32 [m, n]."""
