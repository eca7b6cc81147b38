# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names that C and C++ take as identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Keywords of C23 and C++20, and what the headers and GNU C define besides.
_TAKEN = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
    class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
    decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
    goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast requires restrict return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename
    typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    int8_t int16_t int32_t int64_t uint8_t uint16_t i386 linux unix
"""


def is_c_name(name: str) -> bool:
    """Tells whether `name` can be an identifier."""
    return name.isascii() and name.isidentifier() and name not in _TAKEN.split()


def parameter_names(names: Iterable[str]) -> list[str]:
    """Returns identifiers for the arguments called `names`: no two the same, none the name of a result or a type."""
    used = {"result", "results"}
    identifiers = []
    for name in names:
        name = re.sub(r"\W", "_", name, flags=re.ASCII)
        while not is_c_name(name) or name in used or re.fullmatch(r"qmm_tensor_\w+_\d+d", name):
            name += "_"
        used.add(name)
        identifiers.append(name)
    return identifiers
