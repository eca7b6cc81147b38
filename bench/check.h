// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "contenders/contender.h"

namespace bench {

// Compares every contender with the product of its weights in double precision on one small shape, loosely, so that no
// garbage is timed; the tests are exact. Ends the program where one is wrong.
void check_results(const Contenders& contenders);

}  // namespace bench
