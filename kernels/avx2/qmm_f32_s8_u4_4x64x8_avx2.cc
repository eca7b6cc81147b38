// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 4-bit weights, 8-bit lhs, few rows: as the GEMM kernel, with the nibbles unpacked in registers and the scales widened
// where they are used. It reads four panels side by side, a group of each in turn, because one stream of reads leaves
// memory bandwidth unused and four do not.
//
// Tile of R = 1 .. 4 rows x 16 columns; a step is one line of 8 k, 32 bytes for 8 columns.
//   x[R][2]  int16 sums of up to 4 lines       a       4 k of a row, in every lane
//   sums     int32 sums of the group (memory)  b0, b1  16 columns x 4 k, from the line by mask and shift
// 32 bytes take 2 vpand, 1 vpsrlw and, a row, 2 vpmaddubsw and 2 vpaddw; with the ends of chains one row reads 13
// bytes/cycle on three vector ports, above what one core reads from memory, and four rows multiply at 38 MAC/cycle.
#include "avx2.h"

namespace qmm::avx2 {
namespace {

constexpr int64_t kAhead = 256;  // k to prefetch ahead

// x = the sums of `Lines` lines, or += those.
template <bool First, int Lines, int R>
QMM_INLINE void chain(const int8_t* a, int64_t stride, const uint8_t* codes, __m256i (&x)[R][2]) {
  const __m256i mask = _mm256_set1_epi8(15);
  unroll<2 * Lines>([&](auto s) QMM_FLAT {
    const auto nibbles = [&](int64_t at) QMM_FLAT {
      const __m256i line = load_now(codes + s / 2 * kLine + at);
      return _mm256_and_si256(s % 2 == 0 ? line : _mm256_srli_epi16(line, 4), mask);
    };
    const __m256i b0 = nibbles(0), b1 = nibbles(32);
    unroll<R>([&](auto i) QMM_FLAT {
      const __m256i av = broadcast4(a + i * stride + s * 4);
      const __m256i y0 = _mm256_maddubs_epi16(b0, av), y1 = _mm256_maddubs_epi16(b1, av);
      if constexpr (First && s == 0)
        x[i][0] = y0, x[i][1] = y1;
      else
        add16(x[i][0], y0), add16(x[i][1], y1);
    });
  });
}

// Groups of up to 32 k: nothing but acc leaves the registers.
template <Offset O, int R>
QMM_NOINLINE void tile_of_chains(Block b, int64_t row) {
  const __m256i ones = _mm256_set1_epi16(1);
  const auto* a = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const auto* sum = static_cast<const int32_t*>(b.lhs_sums) + row * b.lhs_group_stride;
  const float* scale = b.lhs_scales + row * b.lhs_group_stride;
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    float* acc = b.acc + row * b.panels * kPanel;
    for (int64_t panel = 0; panel < b.panels; ++panel, acc += kPanel) {
      __m256i x[R][2];
      const uint8_t* codes = b.codes + panel * b.panel_stride + g.begin * 8;
      prefetch_ahead<4>(b, panel, g.begin, kAhead, 4);
      if (g.end - g.begin == 32) {
        chain<true, 4>(a, b.lhs_stride, codes, x);
      } else {
        unroll<R>([&](auto i) QMM_FLAT { x[i][0] = x[i][1] = _mm256_setzero_si256(); });
        for (int64_t k = 0; k < g.end - g.begin; k += 8) chain<false, 1>(a + k, b.lhs_stride, codes + k * 8, x);
      }
      const PackedSides sides = packed_sides(b, g, panel);
      unroll<R>([&](auto i) QMM_FLAT {
        const __m256i d[2] = {_mm256_madd_epi16(x[i][0], ones), _mm256_madd_epi16(x[i][1], ones)};
        const int64_t at = i * b.lhs_group_stride;
        add_row_s8<4, O>(sides, 0, sum[at], scale[at], acc + i * b.panels * kPanel, d);
      });
      prefetch_sides(b, g.index, panel);
    }
    a += b.group, ++sum, ++scale;
  });
}

template <Offset O, int R>
QMM_NOINLINE void tile(Block b, int64_t row) {
  const auto* lhs = static_cast<const int8_t*>(b.lhs) + row * b.lhs_stride;
  const __m256i ones = _mm256_set1_epi16(1);
  auto* sums = static_cast<int32_t*>(b.scratch);
  for_each_group(b, [&](const Group& g) QMM_FLAT {
    for (int64_t panel = 0; panel < b.panels; ++panel) {
      int64_t k = g.begin;
      const auto add = [&](auto is_first, auto lines) QMM_FLAT {
        __m256i x[R][2];
        prefetch_ahead<4>(b, panel, k, kAhead, lines);
        chain<true, lines>(lhs + k, b.lhs_stride, b.codes + panel * b.panel_stride + k * 8, x);
        unroll<2 * R>([&](auto i) QMM_FLAT {
          const __m256i sum = _mm256_madd_epi16(x[i / 2][i % 2], ones);
          store(sums + i * 8, is_first ? sum : _mm256_add_epi32(sum, load(sums + i * 8)));
        });
        k += 8 * lines;
      };
      constexpr std::integral_constant<int, 4> four;
      constexpr std::integral_constant<int, 1> one;
      if (g.end - k >= 32)
        add(std::true_type(), four);
      else
        add(std::true_type(), one);
      while (g.end - k >= 32) add(std::false_type(), four);
      while (k < g.end) add(std::false_type(), one);
      unroll<R>([&](auto i) QMM_FLAT {
        __m256i d[2] = {load(sums + i * 16), load(sums + i * 16 + 8)};
        end_row_s8<4, O>(b, g, packed_sides(b, g, panel), row + i, 0, ((row + i) * b.panels + panel) * kPanel, d);
      });
      prefetch_sides(b, g.index, panel);
    }
  });
}

}  // namespace
}  // namespace qmm::avx2

void qmm::qmm_f32_s8_u4_4x64x8_avx2(const Block& b) {
  using namespace avx2;
  for_offset(b.offset, [&]<Offset O>() {
    for_each_tile<4>(b.rows,
                     [&]<int R>(int64_t row) { b.group <= 32 ? tile_of_chains<O, R>(b, row) : tile<O, R>(b, row); });
  });
}
