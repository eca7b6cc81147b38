// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace bench {

// Returns the vector extensions that CPUID tells of, as in "avx2 avx512f", to a thread made now, as to libraries. Ends
// the program where this thread is told of others.
std::string isa_seen();

}  // namespace bench
