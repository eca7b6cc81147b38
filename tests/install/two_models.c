/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two models in one program: they may share names of what is their own. */
#include <stdint.h>

int64_t _mlir_ciface_first(int64_t n);
int64_t _mlir_ciface_second(int64_t n);

int main(void) { return _mlir_ciface_first(5) == 5 && _mlir_ciface_second(7) == 7 ? 0 : 1; }
