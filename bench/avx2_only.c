// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LD_PRELOAD=libavx2_only.so program: the program sees a CPU of x86-64-v3 (AVX2, FMA, F16C, BMI), whatever it runs on.
//
// Libraries choose their kernels by CPUID. So that each can be measured as it runs on an AVX2 machine, without a
// setting of its own, CPUID is made to trap (arch_prctl(ARCH_SET_CPUID), where the CPU can): the handler of the signal
// executes the real one, hides the vector extensions that came after AVX2 (AVX-512, AVX-VNNI, AMX, AVX10, GFNI, VAES
// ...), and goes on. The kernel keeps the trap per thread, hands it to threads that are made later, and drops it at
// exec, where the preload starts anew. Linked with -z initfirst, so that the trap is set before any other constructor
// runs; only the dynamic loader and the libc have looked at the CPU by then (for memcpy and the like).
//
// Where the trap is not to be had, nothing is hidden: qmm_bench --isa tells. A program that takes SIGSEGV for itself
// ends at its next CPUID.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define BIT(n) (UINT32_C(1) << (n))

enum { kTrap = 0, kAllow = 1 };

static long set_cpuid(int mode) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, mode); }

// What CPUID answers, registers in the order a, b, c, d. The names of the bits are Intel's.
static void hide(uint32_t leaf, uint32_t subleaf, uint32_t r[4]) {
  if (leaf == 7 && subleaf == 0) {
    r[1] &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));  // AVX512F .. AVX512VL
    r[2] &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));  // AVX512_VBMI, _VBMI2, _VNNI, _BITALG, _VPOPCNTDQ
    r[2] &= ~(BIT(8) | BIT(9) | BIT(10));                      // GFNI, VAES, VPCLMULQDQ
    r[3] &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));  // AVX512_4VNNIW .. _FP16, AMX
  } else if (leaf == 7 && subleaf == 1) {
    r[0] &= ~(BIT(0) | BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(21) | BIT(23));  // SHA512 .. AVX_VNNI, AVX512_BF16 ..
    r[3] &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19));  // AVX_VNNI_INT8, AVX_NE_CONVERT, AMX_COMPLEX ..
  } else if (leaf == 0xd && subleaf == 0) {
    r[0] &= 7;  // state of x87, SSE and AVX; the sizes stay, since XSAVE will write as much as it did
  } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
    memset(r, 0, 4 * sizeof *r);  // AMX, AVX10
  }
}

static void answer(int signal, siginfo_t* info, void* context) {
  greg_t* g = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* code = (const unsigned char*)g[REG_RIP];
  if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
    // Another fault: back at its instruction, it ends the program as it would have.
    struct sigaction plain;
    memset(&plain, 0, sizeof plain);
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, NULL);
    return;
  }
  const uint32_t leaf = (uint32_t)g[REG_RAX], subleaf = (uint32_t)g[REG_RCX];
  uint32_t r[4];
  set_cpuid(kAllow);
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  set_cpuid(kTrap);
  hide(leaf, subleaf, r);
  g[REG_RAX] = r[0];
  g[REG_RBX] = r[1];
  g[REG_RCX] = r[2];
  g[REG_RDX] = r[3];
  g[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, NULL);
  set_cpuid(kTrap);
}
