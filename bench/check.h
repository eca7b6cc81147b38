// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace bench {

// Compares every contender with OpenBLAS on one small shape, loosely, so that no garbage is timed; the tests are exact.
// Ends the program where one is wrong.
void check_results();

}  // namespace bench
