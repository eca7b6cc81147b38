# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each family of kernels plans to execute: the instructions that its algorithm needs, and no other.

A plan counts them for all rows of a call, the columns of a tile and one group of k, with symmetric weights and f16
scales: products, unpacking, prefetches of codes, and the group's end as the contract has it. It has no loops and no
addresses.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from operations import NOTHING, X86, AArch64, Operation

PANEL = 16
MATRIX_BLOCK = 512  # k of a block of SMMLA kernels


@dataclass(frozen=True)
class Kernel:
    """What the name of a kernel says."""

    name: str
    lhs: str
    bits: int
    mr: int
    nr: int
    isa: str

    @classmethod
    def of(cls, name: str) -> "Kernel":
        lhs, rhs, mr, nr, isa = re.fullmatch(r"qmm_f32_(\w+?)_([us]\d)_(\d+)x(\d+)x\d+_(\w+)", name).groups()
        return cls(name, lhs, int(rhs[1]), int(mr), int(nr), isa)


@dataclass(frozen=True)
class Call:
    """What is planned: a group of m rows and the columns of a kernel's tile."""

    kernel: Kernel
    group: int
    m: int

    @property
    def bits(self) -> int:
        return self.kernel.bits

    @property
    def panels(self) -> int:
        return self.kernel.nr // PANEL

    @property
    def tiles(self) -> int:
        """Tiles of rows."""
        return -(-self.m // self.kernel.mr)


class Mix(Counter):
    """Operations on vectors of some bytes, and how many of each."""

    def __init__(self, machine: X86 | AArch64, width: str, size: int):
        super().__init__()
        self.classes = machine.classes["vector"]
        self.width = width
        self.columns = size // 4
        self.panel = PANEL // self.columns  # vectors of a panel

    def add(self, names: str, count: float, load: str = "") -> None:
        """Adds so many of each; the first loads an operand."""
        for name in names.split():
            self[Operation(self.classes[name], self.width, load=load, name=name)] += count
            load = ""

    def load(self, count: float, width: str = "") -> None:
        self[Operation(NOTHING, self.width, load=width or self.width, name="load")] += count

    def broadcast(self, count: float) -> None:
        self.load(count, "b")

    def store(self, count: float) -> None:
        self[Operation(NOTHING, self.width, store=self.width, name="store")] += count

    def prefetch(self, count: float) -> None:
        self[Operation(load="r", name="prefetch")] += count


class X86Mix(Mix):
    def __init__(self, isa: str):
        super().__init__(X86, *(("z", 64) if isa.startswith("avx512") or isa == "amx" else ("y", 32)))

    def copy(self, count: float) -> None:
        self[Operation(NOTHING, self.width, name="copy")] += count

    def widen_scales(self, count: float) -> None:
        self.add("vcvtph2ps", count, load="x" if self.width == "y" else "y")

    def sides(self, c: Call) -> None:
        """The scales of a block, once for all rows."""
        self.widen_scales(c.panels * self.panel)
        self.store(c.panels * self.panel)

    def nibbles(self, vectors: float) -> None:
        """Each of some vectors of 4-bit codes to two of bytes."""
        self.load(vectors)
        self.add("vpsrlw", vectors)
        self.add("vpand", 2 * vectors)

    def widen_s8(self, vectors: float) -> None:
        """The even and the odd bytes to int16."""
        self.add("vpsllw", vectors)
        self.add("vpsraw", 2 * vectors)

    def decode_f32(self, c: Call, vectors: float, load: str = "") -> None:
        """Eight k of some vectors of columns to float(code - zero), by the exponent's trick."""
        lines = c.bits == 8
        self.load(vectors * (1 + lines))
        if c.bits == 8:
            self.add("vpxor", 2 * vectors)
        self.add("vpsrld", vectors * (1 + lines))
        self.add("vpand vpor" if self.width == "y" else "vpternlogd", 8 * vectors)
        self.add("vsubps", 8 * vectors, load=load)

    def end_f32(self, sums: float, scale: str) -> None:
        """acc = fma(t, scale, acc)"""
        self.add("vfmadd231ps", sums, load=scale)
        self.load(sums)
        self.store(sums)

    def end_s8(self, rows: float, vectors: float, scale: str) -> None:
        """acc = fma(float(I) * lhs_scale, scale, acc), for so many vectors of each row."""
        self.broadcast(rows)
        self.add("vcvtdq2ps vmulps", rows * vectors)
        self.end_f32(rows * vectors, scale)

    def subtract_zero(self, rows: float, vectors: float) -> None:
        """I -= 8 * sum of the lhs"""
        self.broadcast(rows)
        self.add("vpslld", rows)
        self.add("vpsubd", rows * vectors)


def gemm_f32(c: Call, mix: X86Mix) -> None:
    vectors = c.panels * mix.panel
    mix.add("vfmadd231ps", c.m * vectors * c.group)
    mix.broadcast(c.m * c.group)
    mix.load(c.tiles * vectors * c.group)
    mix.end_f32(c.m * vectors, scale=mix.width)
    mix.decode_f32(c, c.group / 8 * vectors)
    mix.store(c.group * vectors)
    mix.sides(c)


def gemv_f32(c: Call, mix: X86Mix) -> None:
    vectors, pairs = c.panels * mix.panel, c.panels / 2
    # 32 registers hold the constants, 16 do not: a decoder's mask and exponent serve two panels, and so does x.
    mix.decode_f32(c, c.m * c.group / 8 * vectors, load=mix.width if mix.width == "y" else "")
    if mix.width == "y":
        mix.load(2 * c.m * c.group * pairs)
    mix.broadcast(c.m * c.group * pairs)
    mix.add("vfmadd231ps", c.m * vectors * c.group)
    mix.widen_scales(c.m * vectors)
    mix.end_f32(c.m * vectors, scale="")


def gemm_u4(c: Call, mix: X86Mix) -> None:
    """vpmaddubsw, eight of them in a chain of int16."""
    steps, chains, sums = c.group / 4, c.group / 32, c.m * mix.panel
    mix.broadcast(c.m * steps)
    mix.load(c.tiles * mix.panel * steps)
    mix.add("vpmaddubsw", sums * steps)
    mix.add("vpaddw", sums * (steps - chains))
    mix.add("vpmaddwd", sums * chains)
    in_memory = mix.width == "y"  # the sums of several chains: 16 registers do not hold them
    mix.add("vpaddd", sums * (chains - 1), load=mix.width if in_memory else "")
    mix.store(sums * (chains - 1) * in_memory)
    mix.subtract_zero(c.m, mix.panel)
    mix.load(0 if in_memory else c.tiles * mix.panel)  # scales, for all rows of a tile
    mix.end_s8(c.m, mix.panel, scale=mix.width if in_memory else "")
    mix.nibbles(mix.panel * c.group / 8)
    mix.store(2 * mix.panel * c.group / 8)
    mix.sides(c)


def few_rows_passes(c: Call, mix: X86Mix) -> float:
    """Panels are taken side by side, as many as half of the registers hold sums of."""
    return c.panels / min(c.panels, (16 if mix.width == "z" else 4) // c.m)


def gemv_u4(c: Call, mix: X86Mix) -> None:
    steps, chains, sums = c.group / 4, c.group / 32, c.m * c.panels * mix.panel
    passes = few_rows_passes(c, mix)
    mix.nibbles(c.panels * mix.panel * c.group / 8)
    mix.broadcast(c.m * passes * steps)
    mix.add("vpmaddubsw", sums * steps)
    mix.add("vpaddw", sums * (steps - chains))
    mix.add("vpmaddwd", sums * chains)
    # The sums of several chains are in memory.
    mix.add("vpaddd", sums * (chains - 1), load=mix.width)
    mix.store(sums * (chains - 1))
    mix.widen_scales(c.panels * mix.panel)
    mix.subtract_zero(c.m * passes, c.panels * mix.panel / passes)
    mix.end_s8(c.m * passes, c.panels * mix.panel / passes, scale="")


def gemv_s8(c: Call, mix: X86Mix) -> None:
    """vpmaddwd, of int16."""
    steps, vectors = c.group / 4, c.panels * mix.panel
    mix.load(c.m * vectors * steps)
    mix.broadcast(c.m * steps)
    mix.widen_s8(c.m * (vectors + 1) * steps)
    mix.add("vpmaddwd vpaddd", 2 * c.m * vectors * steps)
    mix.widen_scales(c.m * vectors)
    mix.end_s8(c.m, vectors, scale="")


def gemm_s8(c: Call, mix: X86Mix) -> None:
    steps, vectors = c.group / 2, c.panels * mix.panel
    mix.broadcast(c.m * c.panels * steps)
    mix.load(c.tiles * vectors * steps)
    mix.add("vpmaddwd vpaddd", c.m * vectors * steps)
    mix.end_s8(c.m * c.panels, mix.panel, scale=mix.width)
    # The panels are widened once, and the rows once for all of these panels.
    for bytes_ in (vectors * c.group / 4, c.m * c.group / (4 * mix.columns)):
        mix.load(bytes_)
        mix.widen_s8(bytes_)
        mix.store(2 * bytes_)
    mix.sides(c)


def dot_of(c: Call) -> str:
    return "vpdpbssd" if c.kernel.isa == "avxvnniint8" else "vpdpbusd"


def operands(c: Call, mix: X86Mix) -> float:
    """A group's codes as operands, and how many vectors they are."""
    vectors = c.panels * mix.panel * c.group / 4
    if c.bits == 4:
        mix.nibbles(vectors / 2)
    elif dot_of(c) == "vpdpbusd":
        mix.add("vpxor", vectors, load=mix.width)
    else:
        mix.load(vectors)
    return vectors


def gemm_dot(c: Call, mix: X86Mix) -> None:
    """vpdpbusd, or vpdpbssd for s8."""
    steps, vectors = c.group / 4, c.panels * mix.panel
    mix.add(dot_of(c), c.m * vectors * steps)
    mix.broadcast(c.m * steps)
    mix.load(c.tiles * vectors * steps)
    # What the sums start with, and the scales of rows, are prepared for many groups at once.
    mix.load(2 * c.m / mix.columns)
    mix.add("vpslld vpsubd", c.m / mix.columns)
    mix.store(2 * c.m / mix.columns)
    mix.broadcast(c.m)
    mix.copy(c.m * (vectors - 1))
    mix.end_s8(c.m, vectors, scale=mix.width)
    mix.store(operands(c, mix))
    mix.sides(c)


def gemv_dot(c: Call, mix: X86Mix) -> None:
    steps, vectors = c.group / 4, c.panels * mix.panel
    passes = few_rows_passes(c, mix)
    operands(c, mix)
    mix.add(dot_of(c), c.m * vectors * steps)
    mix.broadcast(c.m * passes * steps)
    mix.broadcast(c.m * passes)
    mix.add("vpslld vpsubd", c.m * passes)
    mix.copy(c.m * (vectors - passes))
    mix.widen_scales(vectors)
    mix.end_s8(c.m * passes, vectors / passes, scale="")


def gemm_amx(c: Call, mix: X86Mix) -> None:
    """TDPBSSD, of tiles of 16 rows, 16 columns and up to 64 k."""
    tiles, products = -(-c.m // PANEL) * c.panels, max(1, c.group / 64)
    for name, count in {
        "tdpbssd": tiles * products,
        "tileloadd": tiles * products,  # one of each two for each of 2 x 2 products
        "tilezero": tiles,
        "tilestored": tiles,
    }.items():
        mix[Operation(mix.classes[name], "t", name=name)] += count
    mix.load(c.m * c.panels)
    mix.end_s8(c.m, c.panels, scale="")
    mix.widen_scales(c.tiles * c.panels)
    if c.bits == 4:
        mix.nibbles(c.panels * c.group / 8)
        mix.add("vpsubb", 2 * c.panels * c.group / 8)
        mix.store(2 * c.panels * c.group / 8)


X86_FAMILIES: dict[tuple[str, int, bool], Callable[[Call, X86Mix], None]] = {
    # lhs and how it is multiplied, bits, whether it is for few rows
    **{("f32", bits, False): gemm_f32 for bits in (4, 8)},
    **{("f32", bits, True): gemv_f32 for bits in (4, 8)},
    ("s8", 4, False): gemm_u4,
    ("s8", 4, True): gemv_u4,
    ("s8", 8, False): gemm_s8,
    ("s8", 8, True): gemv_s8,
    **{("dot", bits, False): gemm_dot for bits in (4, 8)},
    **{("dot", bits, True): gemv_dot for bits in (4, 8)},
    **{("amx", bits, False): gemm_amx for bits in (4, 8)},
}


class ArmMix(Mix):
    """Of NEON, or of SVE with vectors of some bytes."""

    def __init__(self, sve_bytes: int = 0):
        super().__init__(AArch64, "z" if sve_bytes else "v", sve_bytes or 16)

    def widen_scales(self, count: float) -> None:
        self.load(count)
        self.add("fcvtl" if self.width == "v" else "fcvt", count)

    def repeat(self, count: float) -> None:
        """128 bits of a row, in all of a vector of SVE."""
        self.load(count, "b" if self.width == "z" else "")

    def sides(self, c: Call) -> None:
        """The scales of a block, once for all rows."""
        self.widen_scales(c.panels * self.panel)
        self.store(c.panels * self.panel)

    def codes(self, c: Call, vectors: float, subtract: bool) -> None:
        """Eight k of some vectors of columns to bytes."""
        if c.bits == 4:
            self.load(vectors)
            self.add("and ushr", vectors)
            if subtract:
                self.add("sub", 2 * vectors)
        else:
            self.load(2 * vectors)

    def decode_f32(self, c: Call, vectors: float) -> None:
        """Eight k of some vectors of columns to float(code - zero), by the exponent's trick."""
        self.load(8 * vectors)
        if c.bits == 8:
            self.add("eor", 8 * vectors)
        self.add("bif fsub", 8 * vectors)

    def end_f32(self, sums: float) -> None:
        """acc = fma(t, scale, acc)"""
        self.add("fmla", sums)
        self.load(sums)
        self.store(sums)

    def end_s8(self, rows: float, vectors: float) -> None:
        """acc = fma(float(I) * lhs_scale, scale, acc), for so many vectors of each row."""
        self.load(rows, "r")
        self.add("scvtf fmul", rows * vectors)
        self.end_f32(rows * vectors)

    def subtract_zero(self, rows: float, vectors: float) -> None:
        """Sums that begin with -8 * sum of the lhs, each a copy."""
        self.load(rows, "r")
        self[Operation("from_integer", self.width, name="dup")] += rows
        self.add("mov", rows * (vectors - 1))


def arm_gemm_f32(c: Call, mix: ArmMix) -> None:
    vectors = c.panels * mix.panel
    mix.add("fmla", c.m * vectors * c.group)
    mix.load(c.m * c.group / 4 + c.tiles * vectors * (c.group + 1))
    mix.end_f32(c.m * vectors)
    mix.decode_f32(c, vectors * c.group / 8)
    mix.store(vectors * c.group)
    mix.sides(c)


def arm_gemv_f32(c: Call, mix: ArmMix) -> None:
    vectors, pairs = c.panels * mix.panel, c.panels / 2
    mix.decode_f32(c, c.m * vectors * c.group / 8)
    mix.load(c.m * pairs * c.group / 4)
    mix.add("fmla", c.m * vectors * c.group)
    mix.widen_scales(c.m * vectors)
    mix.end_f32(c.m * vectors)


def arm_products(c: Call, mix: ArmMix, passes: float) -> None:
    """Of rows and panels by SDOT; or by SMULL and SMLAL, in chains of 32 k (4 bits) or of 4 (8 bits)."""
    sums = c.m * c.panels * mix.panel
    if c.kernel.isa == "neon_dotprod":
        mix.load(c.m * passes * c.group / 16)
        mix.add("sdot", sums * c.group / 4)
        return
    mix.broadcast(c.m * passes * c.group / 4)
    # 16 products in two instructions: of four k and four columns.
    chains = c.group / (32 if c.bits == 4 else 8)
    mix.add("smull smull2", sums * chains)
    mix.add("smlal smlal2", sums * (c.group / 4 - chains))
    if c.bits == 4:
        mix.add("addp sadalp", sums * chains)
    else:
        mix.add("sadalp", 2 * sums * chains)
        mix.add("addp", sums)


def arm_gemm_s8(c: Call, mix: ArmMix) -> None:
    vectors = c.panels * mix.panel
    arm_products(c, mix, passes=1)
    mix.load(c.tiles * vectors * (c.group / 4 + 1))
    mix.end_s8(c.m, vectors)
    if c.bits == 4:
        mix.codes(c, vectors * c.group / 8, subtract=True)
        mix.store(2 * vectors * c.group / 8)
    mix.sides(c)


def arm_few_s8(c: Call, mix: ArmMix) -> None:
    """Panels side by side, as many as there are registers for their sums."""
    at_once = max(1, c.kernel.mr // c.m)
    passes, vectors = c.panels / at_once, c.panels * mix.panel
    arm_products(c, mix, passes)
    mix.codes(c, c.tiles * vectors * c.group / 8, subtract=False)
    if c.bits == 4:
        mix.subtract_zero(c.m * passes, at_once * mix.panel)
    mix.widen_scales(c.tiles * vectors)
    mix.end_s8(c.m * passes, at_once * mix.panel)


def prepare_pairs(c: Call, mix: ArmMix) -> None:
    """Rows in pairs, once for all columns, and columns once for all rows; the scales too."""
    vectors = c.panels * 2 * mix.panel  # of pairs of columns
    # Rows without vectors.
    mix.load(c.m * c.group / 8, "r")
    mix[Operation(NOTHING, store="r", name="stp")] += c.m / 2 * c.group / 8
    mix.codes(c, vectors / 2 * c.group / 8, subtract=True)
    mix.add("zip1 zip2", vectors / 2 * c.group / 8)
    mix.store(vectors * c.group / 8)
    mix.load(c.m, "r")
    mix.store(c.m / 2)
    mix.widen_scales(vectors / 2)
    mix.add("zip1 zip2", vectors / 2)
    mix.store(vectors)


def arm_gemm_matrix(c: Call, mix: ArmMix) -> None:
    """SMMLA, eight k of two rows and two columns, in tiles of eight columns; acc stays in registers for a block."""
    steps, quads, pairs, blocks = c.group / 8, 2 * c.panels, c.m / 2, min(1, c.group / MATRIX_BLOCK)
    sums = pairs * 4 * quads
    prepare_pairs(c, mix)
    mix.add("smmla", sums * steps)
    mix.load((pairs + c.tiles * 4) * quads * (steps + 1))
    mix.add("scvtf fmul fmla", sums)
    mix.load(sums * blocks)
    mix.add("zip1 zip2", sums * blocks)
    mix.store(sums * blocks)


def sve_gemm_f32(c: Call, mix: ArmMix) -> None:
    """NEON unpacks."""
    vectors, passes = c.panels * mix.panel, c.panels * mix.panel / 2
    mix.add("fmla", c.m * vectors * c.group)
    mix.repeat(c.m * passes * c.group / 4)
    mix.load(c.tiles * vectors * (c.group + 1))
    mix.end_f32(c.m * vectors)
    neon = ArmMix()
    neon.decode_f32(c, c.panels * neon.panel * c.group / 8)
    neon.store(c.panels * neon.panel * c.group)
    neon.sides(c)
    mix.update(neon)


def sve_gemv_f32(c: Call, mix: ArmMix) -> None:
    if c.bits == 4:
        arm_gemv_f32(c, neon := ArmMix())  # of less than 512 bits
        mix.update(neon)
        return
    vectors = c.m * c.panels * mix.panel
    mix.load(vectors * c.group)
    mix.add("eor fsub fmla", vectors * c.group)
    mix.repeat(max(c.m, vectors / 8) * c.group / 4)
    mix.widen_scales(vectors)
    mix.end_f32(vectors)


def sve_end_s8(mix: ArmMix, rows: float, sums: float) -> None:
    mix.broadcast(rows)
    mix.add("scvtf fmul", sums)
    mix.end_f32(sums)


def sve_gemm_s8(c: Call, mix: ArmMix) -> None:
    """NEON unpacks."""
    vectors, passes = c.panels * mix.panel, c.panels * mix.panel / 2
    mix.add("sdot", c.m * vectors * c.group / 4)
    mix.repeat(c.m * passes * c.group / 16)
    mix.load(c.tiles * vectors * (c.group / 4 + 1))
    sve_end_s8(mix, c.m * passes, c.m * vectors)
    neon = ArmMix()
    if c.bits == 4:
        neon.codes(c, c.panels * neon.panel * c.group / 8, subtract=True)
        neon.store(2 * c.panels * neon.panel * c.group / 8)
    neon.sides(c)
    mix.update(neon)


def sve_few_s8(c: Call, mix: ArmMix) -> None:
    """Vectors side by side, as many as there are registers for their sums."""
    vectors, at_once = c.panels * mix.panel, max(1, c.kernel.mr // c.m)
    passes = vectors / at_once
    mix.add("sdot", c.m * vectors * c.group / 4)
    mix.repeat(c.m * passes * c.group / 16)
    mix.load(vectors * c.group / (8 if c.bits == 4 else 4))
    if c.bits == 4:
        mix.add("and lsr", vectors * c.group / 8)
        mix.subtract_zero(c.m * passes, at_once)
    mix.widen_scales(vectors)
    sve_end_s8(mix, c.m * passes, c.m * vectors)


def sve_gemm_matrix(c: Call, mix: ArmMix) -> None:
    """As arm_gemm_matrix, which prepares the columns and the rows; four vectors of pairs at a time."""
    steps, vectors, pairs, blocks = c.group / 8, c.panels * 2 * mix.panel, c.m / 2, min(1, c.group / MATRIX_BLOCK)
    sums, passes = pairs * vectors, vectors / 4
    mix.add("smmla", sums * steps)
    mix.repeat(pairs * passes * steps)
    mix.load(c.tiles * vectors * steps)
    mix.repeat(pairs * passes)
    mix.load(c.tiles * vectors)
    mix.add("scvtf fmul fmla", sums)
    mix.load(2 * sums * blocks)
    mix.add("zip1 uzp1 uzp2", sums * blocks)
    mix.store(2 * sums * blocks)
    prepare_pairs(c, neon := ArmMix())
    mix.update(neon)


ARM_FAMILIES: dict[tuple[str, bool], Callable[[Call, ArmMix], None]] = {
    # how the lhs is multiplied, whether it is for few rows
    ("f32", False): arm_gemm_f32,
    ("f32", True): arm_gemv_f32,
    ("s8", False): arm_gemm_s8,
    ("s8", True): arm_few_s8,
    ("matrix", False): arm_gemm_matrix,
}
SVE_FAMILIES: dict[tuple[str, bool], Callable[[Call, ArmMix], None]] = {
    ("f32", False): sve_gemm_f32,
    ("f32", True): sve_gemv_f32,
    ("s8", False): sve_gemm_s8,
    ("s8", True): sve_few_s8,
    ("matrix", False): sve_gemm_matrix,
}


def plan(kernel: Kernel, group: int, m: int, sve_bytes: int = 0) -> Mix:
    """Returns the plan of a kernel, of m rows and kernel.nr columns in a group; of SVE, with vectors of some bytes."""
    call = Call(kernel, group, m)
    if kernel.isa.startswith(("neon", "sve")):
        mix = ArmMix(sve_bytes)
        how = "matrix" if kernel.isa.endswith("i8mm") else kernel.lhs
        few = how != "matrix" and (kernel.nr == 64 or (kernel.isa == "neon" and kernel.nr == 32))
        (SVE_FAMILIES if sve_bytes else ARM_FAMILIES)[how, few](call, mix)
    else:
        mix = X86Mix(kernel.isa)
        how = "dot" if "vnni" in kernel.isa else "amx" if kernel.isa == "amx" else kernel.lhs
        X86_FAMILIES[how, kernel.bits, kernel.nr == 64](call, mix)
    # A line of codes each; kernels for one row take rows one by one.
    mix.prefetch(kernel.nr * group * kernel.bits / 512 * (m if kernel.mr == 1 else 1))
    return mix
