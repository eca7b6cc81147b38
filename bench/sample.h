// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long a sample takes. The number of calls is fixed beforehand: a count that follows from a trial is one call where
// something else held the trial up, and for all repetitions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bench {

inline double sample_seconds = 0.03;  // --sample

// Returns how many calls of about `each` seconds make a sample.
inline int64_t calls_of(double each) { return std::max<int64_t>(1, std::lround(sample_seconds / each)); }

}  // namespace bench
