# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a static, non-PIE, single-threaded x86-64 Linux program on a CPU model of Bochs.

    bochs.py --cpu sapphire_rapids [--amx [--refuse]] [--xcr0 0x7] program [arguments]

The CPU core is that of bochscpu-python; this file is the rest of the machine: flat memory, and the system calls that a
program of libc alone makes. Everything that needs Python is a trap: an instruction that the core refuses (#UD). A
system call is one, at the address that SYSCALL jumps to, and so are the AMX instructions (amx.py). Any other ends the
program with a sentence. The exit status is the program's; 132 after an illegal instruction, 139 after any other end
that is not the program's.
"""

import argparse
import ctypes
import errno
import importlib
import mmap
import os
import re
import struct
import subprocess
import sys
from typing import NamedTuple

import amx

# Bound when they are called: the wheel names functions of a newer libc, which nothing here calls.
sys.setdlopenflags(os.RTLD_LAZY)
bochscpu = importlib.import_module("bochscpu")
for module in ("_bochscpu", "cpu", "memory"):
    importlib.import_module(f"bochscpu.{module}")

AMX_CPUID = {
    (0, None): (0x1D, 0, 0, 0),  # the last leaf
    (7, 0): (0, 0, 0, 1 << 24 | 1 << 25),  # AMX-TILE, AMX-INT8
    (0x1D, 1): (1024 << 16 | 8192, 8 << 16 | 64, 16, 0),  # the palette: 8 tiles of 16 rows of 64 bytes
}


class Model(NamedTuple):
    number: int  # in Bochs
    xcr0: int  # the register state that an operating system would enable
    cpuid: dict = {}  # by leaf and subleaf, bits of eax to edx that Bochs does not tell  # noqa: RUF012


SSE, AVX, AVX512, TILES = 0x3, 0x7, 0xE7, 0x60000
MODELS = {
    "corei7_sandy_bridge_2600k": Model(19, AVX),
    "corei7_haswell_4770": Model(24, AVX),
    "corei7_skylake_x": Model(26, AVX512),
    "tigerlake": Model(29, AVX512),
    "sapphire_rapids": Model(30, AVX512),
    "arrow_lake": Model(31, AVX, {(7, 1): (0, 0, 0, 1 << 4)}),  # AVX-VNNI-INT8, which the core executes
}

MEMORY = 64 << 20
PAGE = 4096
TABLES = MEMORY - (1 << 20)  # page tables and stubs; the stack ends below
PAGE_TABLE = TABLES + 3 * PAGE
SYSCALL_STUB = MEMORY - PAGE
CPUID_STUB = SYSCALL_STUB + 0x100
STACK = 8 << 20
UD2 = b"\x0f\x0b"
CPUID = b"\x0f\xa2"


class Ended(Exception):
    def __init__(self, status, sentence=None):
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def disassemble(program, mnemonics):
    """Yields (address, end, text) of the instructions of these names, a regular expression."""
    listing = subprocess.run(
        ["objdump", "-d", "-w", "-M", "intel", program], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for match in re.finditer(rf"^ +([0-9a-f]+):\t([0-9a-f ]+)\t((?:{mnemonics})\b.*)$", listing, re.M):
        address = int(match[1], 16)
        yield address, address + len(match[2].split()), match[3].strip()


def set_model(number):
    """Sets the parameter that the core asks for its CPU model, for which the wheel has no function."""
    library = ctypes.CDLL(bochscpu._bochscpu.__file__)
    find = library._ZN13bx_real_sim_c14get_param_enumEPKcP10bx_param_c
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    # A bx_param_enum_c: its fields of 8 bytes 15, 16 and 17 are the largest, the initial and the present value.
    fields = ctypes.cast(find(None, b"cpu.model", None), ctypes.POINTER(ctypes.c_uint64))
    if list(fields[15:18]) != [27, 27, 27]:
        raise RuntimeError(f"this is no bochscpu-python 0.4.0: cpu.model is {list(fields[15:18])}, not 27 three times")
    fields[15], fields[16], fields[17] = 99, number, number


class Machine:
    def __init__(self, arguments, environment, model, with_amx, refuse, xcr0):
        number, state, cpuid = MODELS[model]
        set_model(number)
        self.name = model
        self.memory = mmap.mmap(-1, MEMORY)
        self.session = bochscpu.Session()
        self.session.missing_page_handler = self.on_missing_page
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for page in range(0, MEMORY, PAGE):
            bochscpu.memory.page_insert(page, base + page)
        self.cpu = self.session.cpu
        self.exception = None
        self.hook = bochscpu.Hook()
        self.hook.exception = self.on_exception

        self.program = arguments[0]
        self.traps = {SYSCALL_STUB + len(UD2): self.on_syscall}  # by the address after the instruction
        entry, headers, count, end = self.load()
        self.brk_begin = self.brk = (end + PAGE - 1) & -PAGE
        self.mmap_begin = self.mmap_end = MEMORY // 2
        stack = self.make_stack(arguments, environment, entry, headers, count)
        self.amx = amx.Amx(self, self.cpu) if with_amx else None
        self.refuse = refuse
        self.cpuid = cpuid | AMX_CPUID if with_amx else cpuid
        if self.cpuid:
            self.trap()
        if with_amx:
            state |= TILES
        self.write(SYSCALL_STUB, UD2)
        self.write(CPUID_STUB, CPUID + UD2)
        self.start(entry, stack, state if xcr0 is None else xcr0)

    def write(self, address, data):
        self.memory[address : address + len(data)] = bytes(data)

    def map(self, begin, end, present):
        """Makes pages of the program's be there or not; addresses are physical ones."""
        pages = [page | 7 if present else 0 for page in range(begin & -PAGE, end, PAGE)]
        self.write(PAGE_TABLE + begin // PAGE * 8, struct.pack(f"<{len(pages)}Q", *pages))

    def present(self, begin, end):
        table = PAGE_TABLE + begin // PAGE * 8
        entries = self.memory[table : PAGE_TABLE + ((end - 1) // PAGE + 1) * 8 : 8]
        return 0 <= begin < end <= MEMORY and all(entries)

    # ---- before the program runs

    def load(self):
        with open(self.program, "rb") as file:
            elf = file.read()
        kind, machine = struct.unpack_from("<HH", elf, 16)
        if elf[:5] != b"\x7fELF\x02" or (kind, machine) != (2, 62):
            raise SystemExit(f"{self.program} is no static program for x86-64 that is linked with -no-pie")
        entry, table = struct.unpack_from("<QQ", elf, 24)
        size, count = struct.unpack_from("<HH", elf, 54)
        end = headers = 0
        for i in range(count):
            kind, _, offset, address, _, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", elf, table + i * size)
            if kind != 1:  # PT_LOAD
                continue
            self.write(address, elf[offset : offset + in_file])
            end = max(end, address + in_memory)
            if offset <= table < offset + in_file:
                headers = address + table - offset
        return entry, headers, count, end

    def make_stack(self, arguments, environment, entry, headers, count):
        top = TABLES - PAGE

        def push(data):
            nonlocal top
            top = (top - len(data)) & -16
            self.write(top, data)
            return top

        argv = [push(a.encode() + b"\0") for a in arguments]
        envp = [push(e.encode() + b"\0") for e in environment]
        auxiliary = {
            3: headers,  # AT_PHDR
            4: 56,  # AT_PHENT
            5: count,  # AT_PHNUM
            6: PAGE,  # AT_PAGESZ
            9: entry,  # AT_ENTRY
            17: 100,  # AT_CLKTCK
            25: push(bytes(range(16))),  # AT_RANDOM
            31: argv[0],  # AT_EXECFN
            0: 0,
        }
        words = [len(argv), *argv, 0, *envp, 0]
        for pair in auxiliary.items():
            words += pair
        return push(struct.pack(f"<{len(words)}Q", *words))

    def trap(self):
        """Makes traps of CPUID, where it does not tell all, and of AMX, which the core does not have."""
        for address, end, text in disassemble(self.program, f"cpuid|{amx.MNEMONICS}"):
            if text == "cpuid":
                self.write(address, UD2)
                self.traps[end] = self.on_cpuid
            elif self.amx:
                self.traps[end] = self.amx.parse(text, end)

    def start(self, entry, stack, xcr0):
        # The first pages are not there, so that null pointers are found.
        self.write(TABLES, struct.pack("<Q", TABLES + PAGE | 7))
        self.write(TABLES + PAGE, struct.pack("<Q", TABLES + 2 * PAGE | 7))
        tables = [table | 7 for table in range(PAGE_TABLE, PAGE_TABLE + MEMORY // PAGE * 8, PAGE)]
        self.write(TABLES + 2 * PAGE, struct.pack(f"<{len(tables)}Q", *tables))
        self.map(16 * PAGE, MEMORY, True)

        def segment(selector, attributes):
            s = bochscpu.Segment()
            s.base, s.limit, s.selector, s.present, s.attr = 0, 0xFFFFFFFF, selector, True, attributes
            return s

        state = bochscpu.State()
        bochscpu.cpu.set_long_mode(state)
        state.cr0 = (int(state.cr0) | 1 << 1) & ~(1 << 2)  # MP, not EM
        state.cr4 = int(state.cr4) | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 10  # PAE, PGE, OSFXSR, OSXMMEXCPT
        if xcr0 & ~SSE:
            state.cr4 = int(state.cr4) | 1 << 18  # OSXSAVE
        state.cr3, state.xcr0 = TABLES, xcr0
        state.cs, data = segment(8, 0xA09B), segment(16, 0xC093)
        state.ds = state.es = state.ss = state.fs = state.gs = data
        state.star, state.lstar, state.sfmask = 8 << 32 | 16 << 48, SYSCALL_STUB, 0
        state.rflags, state.mxcsr, state.mxcsr_mask, state.fpcw, state.fptw = 2, 0x1F80, 0xFFFF, 0x37F, 0xFFFF
        state.rip, state.rsp = entry, stack
        self.cpu.state = state

    # ---- while it runs

    def on_missing_page(self, address):
        # Raised through the core, an exception would be lost.
        print(f"{self.name}: no memory at {address:#x}", file=sys.stderr, flush=True)
        os._exit(139)

    def on_exception(self, session, cpu, vector, error):
        self.exception = int(vector)
        session.stop()

    def run(self):
        while True:
            self.exception = None
            self.session.run([self.hook])
            trap = self.traps.get(self.cpu.rip) if self.exception == 6 else None
            if trap is None:
                self.end_by_exception()
            try:
                trap()
            except amx.Fault as fault:
                raise Ended(139, fault) from None

    def end_by_exception(self):
        rip = self.cpu.rip
        where = next(
            (f"{a:#x}: {text}" for a, end, text in disassemble(self.program, r"\w+") if a < rip <= end), f"{rip:#x}"
        )
        if self.exception == 6:
            raise Ended(132, f"{self.name} has no such instruction: {where}")
        raise Ended(139, f"exception {self.exception} near {where}, address {self.cpu.cr2:#x}")

    def on_cpuid(self):
        """Runs the instruction in the stub, and adds to what it tells."""
        after = self.cpu.rip
        leaf = self.cpu.rax & 0xFFFFFFFF
        eax, ebx, ecx, edx = self.cpuid.get((leaf, self.cpu.rcx & 0xFFFFFFFF), self.cpuid.get((leaf, None), (0,) * 4))

        def finish():
            self.cpu.rax |= eax
            self.cpu.rbx |= ebx
            self.cpu.rcx |= ecx
            self.cpu.rdx |= edx
            self.cpu.rip = after

        self.traps[CPUID_STUB + len(CPUID + UD2)] = finish
        self.cpu.rip = CPUID_STUB

    # ---- system calls

    def on_syscall(self):
        cpu = self.cpu
        number = cpu.rax
        call = self.CALLS.get(number)
        if call is None:
            raise Ended(139, f"system call {number} is not emulated")
        try:
            result = call(self, cpu.rdi, cpu.rsi, cpu.rdx, cpu.r10, cpu.r8, cpu.r9)
        except OSError as e:
            result = -e.errno
        cpu.rax = result & (1 << 64) - 1
        cpu.rip = cpu.rcx

    def string(self, address):
        return self.memory[address : self.memory.find(b"\0", address)]

    def sys_read(self, fd, buffer, size, *_):
        data = os.read(fd, size)
        self.write(buffer, data)
        return len(data)

    def sys_write(self, fd, buffer, size, *_):
        return os.write(fd, self.memory[buffer : buffer + size])

    def sys_writev(self, fd, vector, count, *_):
        pairs = struct.iter_unpack("<QQ", self.memory[vector : vector + 16 * count])
        return sum(self.sys_write(fd, buffer, size) for buffer, size in pairs)

    def sys_openat(self, folder, path, flags, mode, *_):
        return os.open(self.string(path), flags, mode & 0o777)

    def sys_close(self, fd, *_):
        os.close(fd)
        return 0

    def sys_newfstatat(self, fd, path, buffer, *_):
        s = os.stat(self.string(path) or fd)
        fields = (s.st_dev, s.st_ino, s.st_nlink, s.st_mode, 0, 0, 0, 0, s.st_size, PAGE, s.st_blocks)
        self.write(buffer, struct.pack("<QQQIIIIQqqq72x", *fields))
        return 0

    def sys_brk(self, address, *_):
        if self.brk_begin <= address <= self.mmap_begin:
            if address < self.brk:
                self.write(address, bytes(self.brk - address))  # what grows again is 0
            self.brk = address
        return self.brk

    def sys_mmap(self, address, size, protection, flags, *_):
        if address or not flags & 0x20:  # MAP_ANONYMOUS
            raise Ended(139, f"mmap at {address:#x} with flags {flags:#x} is not emulated")
        begin = self.mmap_end
        self.mmap_end = (begin + size + PAGE - 1) & -PAGE
        if self.mmap_end > TABLES - STACK:
            raise OSError(errno.ENOMEM, "")
        self.write(begin, bytes(self.mmap_end - begin))
        self.map(begin, self.mmap_end, protection != 0)
        return begin

    def sys_mprotect(self, address, size, protection, *_):
        self.map(address, address + size, protection != 0)  # what may not be written is not watched
        self.cpu.state = self.cpu.state  # forgets what the core knows of pages
        return 0

    def sys_munmap(self, address, size, *_):
        if address + (size + PAGE - 1 & -PAGE) == self.mmap_end:  # of the others the memory is not used again
            self.mmap_end = address
        return 0

    def sys_readlink(self, path, buffer, size, *_):
        target = os.path.abspath(self.program).encode() if self.string(path) == b"/proc/self/exe" else b""
        if not target:
            raise OSError(errno.ENOENT, "")
        self.write(buffer, target[:size])
        return min(len(target), size)

    def sys_arch_prctl(self, code, address, *_):
        if code == 0x1002:  # ARCH_SET_FS
            state = self.cpu.state
            fs = state.fs
            fs.base = address
            state.fs = fs
            self.cpu.state = state
            return 0
        if code == 0x1023 and address == 18 and self.amx and not self.refuse:  # ARCH_REQ_XCOMP_PERM, of the tiles
            return 0
        raise OSError(errno.EINVAL, "")

    def sys_getcwd(self, buffer, size, *_):
        self.write(buffer, b"/\0")
        return 2

    def sys_clock_gettime(self, clock, buffer, *_):
        self.write(buffer, bytes(16))  # time stands still
        return 0

    def sys_getrandom(self, buffer, size, *_):
        self.write(buffer, bytes(size))
        return size

    def sys_exit(self, status, *_):
        if self.amx and self.amx.tiles:
            raise Ended(139, "the program ended without TILERELEASE")
        raise Ended(status & 255)

    def sys_ioctl(self, *_):
        raise OSError(errno.ENOTTY, "")

    def sys_nothing(self, *_):
        return 0

    def sys_unknown(self, *_):
        raise OSError(errno.ENOSYS, "")

    CALLS = {  # noqa: RUF012
        0: sys_read,
        1: sys_write,
        3: sys_close,
        9: sys_mmap,
        10: sys_mprotect,
        11: sys_munmap,
        12: sys_brk,
        16: sys_ioctl,
        20: sys_writev,
        60: sys_exit,
        79: sys_getcwd,
        89: sys_readlink,
        158: sys_arch_prctl,
        202: sys_nothing,  # futex: nobody waits
        218: sys_nothing,  # set_tid_address
        228: sys_clock_gettime,
        231: sys_exit,  # exit_group
        257: sys_openat,
        262: sys_newfstatat,
        273: sys_nothing,  # set_robust_list
        302: sys_unknown,  # prlimit64
        318: sys_getrandom,
        334: sys_unknown,  # rseq
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", choices=MODELS, required=True)
    parser.add_argument("--amx", action="store_true", help="add AMX-TILE and AMX-INT8")
    parser.add_argument("--refuse", action="store_true", help="do not permit to use AMX")
    parser.add_argument("--xcr0", type=lambda text: int(text, 0), help="register state that the system has enabled")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    environment = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("QMM_")]
    machine = Machine(arguments.program, environment, arguments.cpu, arguments.amx, arguments.refuse, arguments.xcr0)
    try:
        machine.run()
    except Ended as end:
        if end.sentence:
            print(f"{machine.name}: {end.sentence}", file=sys.stderr)
        # The core's objects are not fit to be torn down.
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(end.status)


if __name__ == "__main__":
    main()
