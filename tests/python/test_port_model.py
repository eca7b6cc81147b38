# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The port model: its solver on examples that one can solve by hand, what it reads of instructions, and its tables."""

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import tomllib

sys.path.insert(0, str(Path(__file__).parents[2] / "bench/model"))

from operations import X86, AArch64, Operation, UnknownInstruction, parse_all
from plans import Kernel, plan
from ports import ISSUE, Cpu, bound_by_ports, parse_ports, read_cpus

MODEL = Path(__file__).parents[2] / "bench/model"
CPUS = {cpu.file: cpu for cpu in read_cpus()}


def import_model():
    # By a name of its own: bench/smollm2 has a model, too.
    spec = importlib.util.spec_from_file_location("port_model", MODEL / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


port_model = import_model()


def operations(machine, *texts):
    return Counter(op for op in parse_all(machine, texts) if op)


def close(found, cycles, by):
    return found.by == by and found.cycles == pytest.approx(cycles)


def bound(cpu, *texts):
    cpu = CPUS[cpu]
    return cpu.bound(operations(AArch64() if "neon" in cpu.isas else X86(), *texts))


@pytest.mark.parametrize(
    ("uops", "cycles", "by"),
    [
        ("", 0, "nothing"),
        ("p5", 1, "p5"),
        ("p01+p01+p01", 1.5, "p01"),
        ("2*p01+p5", 1, "p5"),  # p5 alone is full, and so is p01
        ("2*p01+2*p015", 4 / 3, "p015"),  # what may go to p5 leaves p0 and p1 to the others
        ("2*p01+1*p015", 1, "p01"),
        ("3*p0+2*p01+2*p5", 3, "p0"),
        ("2*p01+2*p12", 4 / 3, "p012"),  # a union that no micro-operation has by itself
        ("4*a01b2", 4 / 3, "a01b2"),
    ],
)
def test_the_fullest_ports_bound(uops, cycles, by):
    assert close(bound_by_ports(parse_ports(uops)), cycles, by)


def test_issue_bounds_what_ports_do_not():
    # One of five on each kind of port, and four may be issued.
    texts = [
        "vpaddd ymm0,ymm1,ymm2",
        "vmovdqu ymm3,YMMWORD PTR [rax]",
        "vmovdqu YMMWORD PTR [rdi],ymm3",
        "inc rax",
        "nop",
    ]
    assert close(bound("skylake_x", *texts), 5 / 4, ISSUE)


def test_port_1_takes_no_vectors_beside_zmm():
    narrow = ["vpaddd ymm0,ymm1,ymm2"] * 3
    assert bound("sapphire_rapids", *narrow).cycles == pytest.approx(1)
    assert close(bound("sapphire_rapids", *narrow, "vpaddd zmm0,zmm1,zmm2"), 2, "p05")
    # Integers still use it.
    assert close(bound("sapphire_rapids", *["imul rax,rbx"] * 2, "vpaddd zmm0,zmm1,zmm2"), 2, "p1")


def test_zen4_takes_two_turns_for_zmm():
    assert close(bound("zen4", *["vpdpbusd zmm0,zmm1,zmm2"] * 2), 2, "f01")
    assert close(bound("zen4", *["vpdpbusd ymm0,ymm1,ymm2"] * 2), 1, "f01")


def test_wide_vectors_of_neoverse_v1_are_of_two_pipes():
    assert close(bound("neoverse_v1", *["sdot\tz0.s, z1.b, z2.b"] * 4), 2, "v01")
    assert close(bound("neoverse_v1", *["sdot\tv0.4s, v1.16b, v2.4b[0]"] * 4), 1, "v0123")


def test_a_loaded_operand_shares_a_slot():
    def slots(text):
        return CPUS["skylake_x"].cost(X86().parse(text))[1]

    assert slots("vpaddd ymm0,ymm1,YMMWORD PTR [rax+0x40]") == 1
    assert slots("vpaddd ymm0,ymm1,YMMWORD PTR [rax+rdx*1]") == 2
    assert slots("vmovdqu ymm0,YMMWORD PTR [rax+rdx*1]") == 1
    assert slots("vmovdqu YMMWORD PTR [rax+rdx*1],ymm0") == 1
    assert slots("vpmulld ymm0,ymm1,ymm2") == 2


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("vpbroadcastd ymm0,DWORD PTR [rax]", Operation("nothing", "y", load="b")),
        ("vpbroadcastd ymm0,xmm1", Operation("broadcast", "y")),
        ("{vex} vpdpbusd ymm0,ymm1,ymm2", Operation("dot", "y")),
        ("vpdpbusd zmm0,zmm1,DWORD BCST [rax]", Operation("dot", "z", load="b")),
        ("vcvtph2ps ymm0,XMMWORD PTR [rax]", Operation("convert_f16", "y", load="x")),
        ("vmovups YMMWORD PTR [rax],ymm0", Operation("nothing", "y", store="y")),
        ("vmovdqa ymm0,ymm1", Operation("nothing", "y")),
        ("vpxor xmm0,xmm0,xmm0", Operation("nothing", "x")),
        ("vpxor xmm0,xmm0,xmm1", Operation("logic", "x")),
        ("mov rax,rbx", Operation()),
        ("mov eax,0x1", Operation("copy")),
        ("mov DWORD PTR [rax],0x1", Operation(store="r")),
        ("add QWORD PTR [rsp+0x8],rax", Operation("integer", load="r", store="r")),
        ("cmp QWORD PTR [rsp+0x8],rax", Operation("integer", load="r")),
        ("lea rax,[rbx+rcx*4]", Operation("address")),
        ("prefetcht0 BYTE PTR [rax]", Operation(load="r")),
        ("tdpbssd tmm0,tmm1,tmm2", Operation("tile_product", "t")),
    ],
)
def test_x86(text, operation):
    found = X86().parse(text)
    assert Operation(**{**vars(found), "name": ""}) == operation


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("sdot\tv0.4s, v1.16b, v2.4b[0]", Operation("dot", "v")),
        ("fmla\tz0.s, p0/m, z1.s, z2.s", Operation("float", "z")),
        ("add\tv0.4s, v1.4s, v2.4s", Operation("add", "v")),
        ("add\tx0, x1, x2, lsl #3", Operation("integer")),
        ("ldr\tq0, [x1, #16]", Operation("nothing", "v", load="v")),
        ("ldp\tq0, q1, [x1], #32", Operation("nothing", "v", load="v", loads=2, writeback=True)),
        ("ld1\t{v0.16b-v3.16b}, [x0]", Operation("nothing", "v", load="v", loads=4)),
        ("ld1r\t{v0.4s}, [x1]", Operation("nothing", "v", load="b")),
        ("str\tq0, [x1, #-16]!", Operation("nothing", "v", store="v", writeback=True)),
        ("ldr\tw0, [x1]", Operation(load="r")),
        ("ld1rqb\t{z0.b}, p0/z, [x1]", Operation("nothing", "z", load="b")),
        ("dup\tv0.4s, w1", Operation("from_integer", "v")),
        ("dup\tv0.4s, v1.s[0]", Operation("vector_copy", "v")),
        ("fmov\tw0, s1", Operation("to_integer", "v")),
        ("movi\tv0.4s, #0x0", Operation("nothing", "v")),
        ("whilelt\tp0.s, x0, x1", Operation("predicate")),
        ("b.ne\td10", Operation("branch")),
        ("tbnz\tw0, #3, b310", Operation("branch")),
    ],
)
def test_aarch64(text, operation):
    found = AArch64().parse(text)
    assert Operation(**{**vars(found), "name": ""}) == operation


def test_an_unknown_instruction_is_named():
    with pytest.raises(UnknownInstruction, match="vpmadd52luq"):
        X86().parse("vpmadd52luq zmm0,zmm1,zmm2")
    with pytest.raises(UnknownInstruction, match="bfmmla"):
        AArch64().parse("bfmmla\tv0.4s, v1.8h, v2.8h")
    with pytest.raises(UnknownInstruction, match="Skylake-X has no ports for tdpbssd"):
        bound("skylake_x", "tdpbssd tmm0,tmm1,tmm2")


def test_a_comparison_is_one_with_its_jump():
    assert list(parse_all(X86(), ["cmp rax,rdx", "jne 10"])) == [None, X86().parse("jne 10")]
    assert None not in parse_all(X86(), ["cmp rax,rdx", "setne al"])
    assert list(parse_all(AArch64(), ["cmp\tx0, x1", "b.ne\t10"])) == [None, AArch64().parse("b.ne\t10")]


@pytest.mark.parametrize("cpu", CPUS.values(), ids=str)
def test_every_class_has_ports_and_every_fact_a_source(cpu):
    table = tomllib.loads((MODEL / f"cpus/{cpu.file}.toml").read_text())
    known = (X86 if cpu.isas[0] == "avx2" else AArch64).classes
    assert all(entry["source"] for entry in table["ports"])
    named = set(cpu.ports)
    assert not named - {kind for section in known.values() for kind in section.values()} - {"from_integer"}
    # These compute nothing by themselves, and tiles and predicates are not of every CPU.
    free = {"nothing", "stack", "prefetch", "load", "store", "broadcast", "predicate", "mask", "matrix", "table"}
    needed = {kind for section in ("vector", "scalar") for kind in known[section].values()}
    assert {kind for kind in needed - named - free if not kind.startswith("tile_")} == set()


def test_plans_by_hand():
    # 4-bit GEMM, AVX2, a group of 32 and 4 rows of 16 columns: 8 steps of 8 products, 7 of 8 sums, and the group's end.
    kernel = Kernel.of("qmm_f32_s8_u4_4x16x8_avx2")
    assert (kernel.lhs, kernel.bits, kernel.mr, kernel.nr, kernel.isa) == ("s8", 4, 4, 16, "avx2")
    found = Counter()
    for op, n in plan(kernel, 32, 4).items():
        found[op.name] += n
    assert found["vpmaddubsw"] == 64
    assert found["vpaddw"] == 56
    assert found["vpmaddwd"] == 8
    assert found["vpaddd"] == 0
    assert found["vcvtdq2ps"] == found["vmulps"] == found["vfmadd231ps"] == found["vpsubd"] == 8


def test_a_cpu_may_not_say_something_twice(tmp_path):
    text = (MODEL / "cpus/zen5.toml").read_text()
    path = tmp_path / "zen5.toml"
    path.write_text(text + '[[ports]]\nclasses = "dot"\nall = "f0"\nsource = "none"\n')
    with pytest.raises(ValueError, match="dot stands there twice"):
        Cpu(path)


def figure(instructions, isa="avx2"):
    kernel = Kernel.of(f"qmm_f32_s8_u4_4x16x8_{isa}")
    return port_model.Figure(kernel, 32, 4, instructions, Counter(), Counter(), Counter())


@pytest.mark.parametrize(
    ("instructions", "fault"),
    [
        (0.05, None),
        (0.0502, "qmm_f32_s8_u4_4x16x8_avx2, group 32, M 4: 0.0502 instructions a MAC, not 0.05"),
        (None, "qmm_f32_s8_u4_4x16x8_avx2, group 32, M 4: instructions.json has no count of GNU 12: ./dev count"),
    ],
)
def test_figures_have_the_counts_of_callgrind(capsys, instructions, fault):
    name = "qmm_f32_s8_u4_4x16x8_avx2, symmetric, group 32, M 4"
    # The second figure is one that callgrind does not count.
    figures = [figure(instructions or 0.05), figure(0.05, "avx512")]
    table = {name: {"GNU 12 x86_64" if instructions else "Clang 19 x86_64": 0.05}}
    assert port_model.compare_counts(figures, table) == ([fault] if fault else [])
    assert (
        capsys.readouterr().out == f"{1 if instructions else 0} of 2 figures were compared with what callgrind counts\n"
    )


def test_fractions_are_compared_both_ways():
    kept = {"a": 0.5, "b": 0.5, "c": 0.5}
    faults = port_model.compare(kept, {"a": 0.519, "b": 0.53, "d": 0.5})
    assert faults == [
        "d: modelled, but not kept",
        "c: kept, but not modelled",
        "b: 0.530 of the plan's bound, 0.500 was kept",
        f"where that is meant: {port_model.UPDATE}",
    ]
    assert port_model.compare(kept, kept) == []


@pytest.mark.parametrize(
    ("compiler", "named"), [("g++-12", None), ("clang++-19", "clang version 19"), (None, "no compiler that says so")]
)
def test_figures_are_of_one_compiler(monkeypatch, tmp_path, compiler, named):
    monkeypatch.setattr(port_model, "missing", lambda emulator: None)
    program = tmp_path / "program.o"
    subprocess.run([compiler or "g++", "-c", "-x", "c++", "-", "-o", program], input="int i;", text=True, check=True)
    if compiler is None:
        subprocess.run(["objcopy", "--remove-section=.comment", program], check=True)
    hindrance = port_model.find_hindrance("x86-64", "bochs", program)
    assert (hindrance is None) if named is None else (named in hindrance and "GNU 12" in hindrance)


def test_nothing_is_kept_of_half_the_machines(monkeypatch, capsys, tmp_path):
    for name in ("RESULTS", "TABLE"):
        monkeypatch.setattr(port_model, name, tmp_path / name)
    monkeypatch.setattr(port_model, "count", lambda *_: [])
    monkeypatch.setattr(port_model, "compare_counts", lambda *_: [])
    monkeypatch.setattr(port_model, "find_hindrance", lambda machine, *_: "it snows" if machine == "aarch64" else None)
    monkeypatch.setattr(sys, "argv", ["model.py", "--keep", "--x86-64", "program"])
    assert port_model.main()
    assert capsys.readouterr().out.endswith("FAILED: the port model of aarch64 is needed: it snows\n")
    assert list(tmp_path.iterdir()) == []


def test_every_vector_kernel_is_modelled(monkeypatch):
    assert port_model.find_unmodelled() == []
    monkeypatch.setattr(port_model, "EMULATED", [e for e in port_model.EMULATED if "neon" not in e.isas])
    monkeypatch.setattr(port_model, "read_cpus", lambda: [cpu for cpu in CPUS.values() if "amx" not in cpu.isas])
    assert port_model.find_unmodelled() == [
        "no entry of EMULATED counts the kernels of neon",
        "no file of cpus has amx",
    ]


def test_a_count_that_fails_is_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "counts.py").write_text("raise SystemExit(7)\n")
    monkeypatch.setattr(port_model, "HERE", tmp_path)
    with pytest.raises(port_model.CountFailed, match=r"counts.py --cpu sapphire_rapids ended with exit status 7"):
        list(port_model.count(port_model.EMULATED[0], Path("nowhere")))


def run_counts(*arguments, path=None):
    command = [sys.executable, MODEL / "counts.py", *arguments, "program", "pattern"]
    environment = os.environ | ({"PATH": path} if path else {})
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    return found.stderr


@pytest.mark.parametrize(("tools", "missing"), [((), "nm"), (("nm",), "qemu-aarch64")])
def test_a_missing_tool_is_a_sentence(tmp_path, tools, missing):
    for tool in tools:
        (tmp_path / tool).write_text("#!/bin/sh\necho '0000000000001000 0000000000000004 t qmm::dump(int)'\n")
        (tmp_path / tool).chmod(0o755)
    assert run_counts("--aarch64", "--cpu", "max", path=str(tmp_path)) == f"counts.py: {missing} is missing\n"


def test_a_missing_package_is_a_sentence(tmp_path):
    # A package of this name that has nothing hides one that there is.
    (tmp_path / "bochscpu").mkdir()
    (tmp_path / "bochscpu/__init__.py").write_text("raise ModuleNotFoundError(name='bochscpu')\n")
    command = [sys.executable, MODEL / "counts.py", "--cpu", "sapphire_rapids", "program", "pattern"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (1, "counts.py: bochscpu is missing\n")


@pytest.mark.parametrize(
    ("functions", "said"), [("qmm::(anonymous namespace)::dump(int)", "exit status 3"), ("", "no dump")]
)
def test_an_emulator_that_ends_early_is_not_waited_for(tmp_path, functions, said):
    for name, script in (("qemu-aarch64", "exit 3"), ("nm", f"echo '0000000000001000 0000000000000004 t {functions}'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert said in run_counts("--aarch64", "--cpu", "max", path=f"{tmp_path}:{os.environ['PATH']}")
