# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Cross builds for AArch64 Linux by Debian's g++-12-aarch64-linux-gnu; what is built runs under qemu-aarch64 (qemu-user),
# -cpu max unless the environment's QEMU_CPU names another.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu)
