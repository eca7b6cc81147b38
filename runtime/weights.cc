// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "weights.h"

#include <cinttypes>
#include <cstring>

namespace qmm {
namespace {

// Rounds to dtype and back.
float round_to(int32_t dtype, float value) {
  return dtype == QMM_F32 ? value : dtype == QMM_F16 ? from_f16(to_f16(value)) : from_bf16(to_bf16(value));
}

void store_scale(int32_t dtype, void* values, int64_t i, float value) {
  if (dtype == QMM_F32) {
    std::memcpy(static_cast<char*>(values) + i * 4, &value, 4);
    return;
  }
  const uint16_t h = dtype == QMM_F16 ? to_f16(value) : to_bf16(value);
  std::memcpy(static_cast<char*>(values) + i * 2, &h, 2);
}

int get_code(int32_t bits, const uint8_t* row, int64_t k) {
  if (bits == 8) return static_cast<int8_t>(row[k]);
  return k % 2 == 0 ? row[k / 2] & 15 : row[k / 2] >> 4;
}

// Sets the code at k; at 4 bits the even k, which comes first, clears the other nibble.
void set_code(int32_t bits, uint8_t* row, int64_t k, int code) {
  if (bits == 8)
    row[k] = static_cast<uint8_t>(code);
  else if (k % 2 == 0)
    row[k / 2] = static_cast<uint8_t>(code);
  else
    row[k / 2] = static_cast<uint8_t>(row[k / 2] | code << 4);
}

qmm_status check_array(const char* function, const char* name, const void* data, int64_t rows, int64_t columns,
                       int64_t stride, int64_t element) {
  if (stride < 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: the row stride of %s is %" PRId64 "; it must not be negative", function,
                name, stride);
  if (rows == 0 || columns == 0) return QMM_OK;
  if (data == nullptr)
    return fail(QMM_INVALID_ARGUMENT, "%s: %s of shape [%" PRId64 ", %" PRId64 "] are null", function, name, rows,
                columns);
  int64_t extent;
  if ((rows > 1 && stride < columns) || __builtin_mul_overflow(rows - 1, stride, &extent) ||
      __builtin_add_overflow(extent, columns, &extent) || __builtin_mul_overflow(extent, element, &extent))
    return fail(QMM_INVALID_ARGUMENT,
                "%s: the row stride of %s is %" PRId64 " for shape [%" PRId64 ", %" PRId64
                "]; it must be at least the row's length, and not overflow",
                function, name, stride, rows, columns);
  return QMM_OK;
}

}  // namespace

qmm_status check_weights(const char* function, const qmm_rhs_desc& desc, const Layout& layout,
                         const qmm_weights* weights, bool input) {
  QMM_TRY(check_struct(function, "weights", weights, sizeof *weights));
  const qmm_weights& w = *weights;
  const int64_t scale_size = dtype_size(desc.scale_dtype);
  QMM_TRY(check_array(function, "codes", w.codes, desc.n, ceil_div(desc.k * desc.bits, 8), w.codes_stride, 1));
  QMM_TRY(check_array(function, "scales", w.scales, desc.n, layout.groups, w.scales_stride, scale_size));
  if (desc.offset == QMM_SYMMETRIC) {
    if (w.offsets != nullptr)
      return fail(QMM_INVALID_ARGUMENT, "%s: offsets are given, but the format is QMM_SYMMETRIC", function);
    return QMM_OK;
  }
  QMM_TRY(check_array(function, desc.offset == QMM_ZEROS ? "zeros" : "mins", w.offsets, desc.n, layout.groups,
                      w.offsets_stride, offset_size(desc)));
  if (input && desc.offset == QMM_ZEROS && desc.bits == 4 && layout.groups > 0)
    for (int64_t n = 0; n < desc.n; ++n)
      for (int64_t g = 0; g < layout.groups; ++g)
        if (const int zero = static_cast<const int8_t*>(w.offsets)[n * w.offsets_stride + g]; zero < 0 || zero > 16)
          return fail(QMM_INVALID_ARGUMENT,
                      "%s: the zero at [%" PRId64 ", %" PRId64 "] is %d, unsigned %d; 4-bit zeros are 0 to 16",
                      function, n, g, zero, zero & 0xFF);
  return QMM_OK;
}

qmm_status check_rhs(const char* function, const qmm_rhs* rhs, Layout* layout) {
  QMM_TRY(check_struct(function, "rhs", rhs, sizeof *rhs));
  if (rhs->packed == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: rhs->packed is null", function);
  QMM_TRY(make_layout(function, &rhs->desc, layout));
  if (static_cast<uint64_t>(layout->size) > rhs->packed_size)
    return fail(QMM_INVALID_ARGUMENT, "%s: rhs holds %zu bytes; its shape takes %" PRId64 "; open it by qmm_rhs_open",
                function, rhs->packed_size, layout->size);
  return QMM_OK;
}

void pack_panel(const qmm_rhs_desc& desc, const Layout& layout, const qmm_weights& weights, int64_t p, uint8_t* panel) {
  if (desc.k == 0) return;  // a panel has no bytes
  std::memset(panel, 0, static_cast<size_t>(layout.panel_stride));
  const int64_t columns = desc.n - p * kPanel < kPanel ? desc.n - p * kPanel : kPanel;
  const int64_t scale_size = dtype_size(desc.scale_dtype);
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t n = p * kPanel + c;
    const uint8_t* row = static_cast<const uint8_t*>(weights.codes) + n * weights.codes_stride;
    for (int64_t k = 0; k < desc.k; ++k) {
      const Place at = place(desc.bits, c, k);
      panel[at.byte] = static_cast<uint8_t>(panel[at.byte] | (get_code(desc.bits, row, k) & (desc.bits == 4 ? 15 : 255))
                                                                 << at.shift);
    }
    const auto copy = [&](int64_t to, const void* from, int64_t stride, int64_t size) {
      for (int64_t g = 0; g < layout.groups; ++g)
        std::memcpy(panel + to + (g * kPanel + c) * size, static_cast<const char*>(from) + (n * stride + g) * size,
                    static_cast<size_t>(size));
    };
    copy(layout.scales_at, weights.scales, weights.scales_stride, scale_size);
    if (desc.offset != QMM_SYMMETRIC)
      copy(layout.offsets_at, weights.offsets, weights.offsets_stride, offset_size(desc));
  }
}

qmm_status pack(const qmm_rhs_desc* desc, const qmm_weights* weights, void* packed, size_t packed_size) {
  const char* function = "qmm_pack";
  Layout layout;
  QMM_TRY(make_layout(function, desc, &layout));
  QMM_TRY(check_weights(function, *desc, layout, weights, true));
  if (packed == nullptr) return fail(QMM_INVALID_ARGUMENT, "%s: packed is null", function);
  if (packed_size < static_cast<uint64_t>(layout.size))
    return fail(QMM_INVALID_ARGUMENT, "%s: packed has %zu bytes; these weights take %" PRId64, function, packed_size,
                layout.size);
  auto* bytes = static_cast<uint8_t*>(packed);
  Header header = make_header(*desc, layout);
  std::memcpy(bytes, &header, sizeof header);
  for (int64_t p = 0; desc->k > 0 && p < layout.panels; ++p)
    pack_panel(*desc, layout, *weights, p, bytes + sizeof header + p * layout.panel_stride);
  header.checksum = checksum(bytes, layout.size);
  std::memcpy(bytes, &header, sizeof header);
  return QMM_OK;
}

qmm_status unpack(const qmm_rhs* rhs, const qmm_weights* weights) {
  Layout layout;
  QMM_TRY(check_rhs("qmm_unpack", rhs, &layout));
  const qmm_rhs_desc& desc = rhs->desc;
  QMM_TRY(check_weights("qmm_unpack", desc, layout, weights, false));
  const int64_t scale_size = dtype_size(desc.scale_dtype);
  for (int64_t n = 0; desc.k > 0 && n < desc.n; ++n) {
    const int64_t c = n % kPanel;
    const uint8_t* panel = first_panel(*rhs) + n / kPanel * layout.panel_stride;
    uint8_t* row = static_cast<uint8_t*>(weights->codes) + n * weights->codes_stride;
    for (int64_t k = 0; k < desc.k; ++k) set_code(desc.bits, row, k, code_at(desc.bits, panel, c, k));
    const auto copy = [&](void* to, int64_t from, int64_t stride, int64_t size) {
      for (int64_t g = 0; g < layout.groups; ++g)
        std::memcpy(static_cast<char*>(to) + (n * stride + g) * size, panel + from + (g * kPanel + c) * size,
                    static_cast<size_t>(size));
    };
    copy(weights->scales, layout.scales_at, weights->scales_stride, scale_size);
    if (desc.offset != QMM_SYMMETRIC)
      copy(weights->offsets, layout.offsets_at, weights->offsets_stride, offset_size(desc));
  }
  return QMM_OK;
}

qmm_status verify(const qmm_rhs* rhs) {
  Layout layout;
  QMM_TRY(check_rhs("qmm_rhs_verify", rhs, &layout));
  Header header;
  std::memcpy(&header, rhs->packed, sizeof header);
  const uint64_t sum = checksum(rhs->packed, layout.size);
  if (sum != header.checksum)
    return fail(QMM_INVALID_PACKED, "qmm_rhs_verify: the checksum is %016" PRIx64 "; the header says %016" PRIx64, sum,
                header.checksum);
  return QMM_OK;
}

namespace {

struct GroupQuantizer {
  float scale;
  float base;  // what code 0 stands for is base: w = (code - zero) * scale, or code * scale + base for mins
  int zero;
};

float clamp(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }
// Wide enough for any code, and small enough for round_even.
float ratio(float w, float scale) { return scale == 0 ? 0 : clamp(w / scale, -4096, 4096); }

GroupQuantizer find_quantizer(const qmm_rhs_desc& desc, const float* w, int64_t count) {
  float lo = desc.offset == QMM_MINS ? w[0] : 0, hi = lo;
  for (int64_t k = 0; k < count; ++k) {
    lo = w[k] < lo ? w[k] : lo;
    hi = w[k] > hi ? w[k] : hi;
  }
  const float steps = desc.bits == 4 ? 15 : 255, bias = desc.bits == 4 ? 0 : 128;
  if (desc.offset == QMM_SYMMETRIC) {
    const float amax = -lo > hi ? -lo : hi;
    return {round_to(desc.scale_dtype, amax / (desc.bits == 4 ? 7 : 127)), 0, symmetric_zero(desc.bits)};
  }
  const float scale = round_to(desc.scale_dtype, (hi - lo) / steps);
  if (desc.offset == QMM_MINS) return {scale, round_to(desc.scale_dtype, fma(bias, scale, lo)), 0};
  return {scale, 0, static_cast<int>(clamp(round_even(ratio(-lo, scale)), 0, steps) - bias)};
}

}  // namespace

qmm_status quantize(const qmm_rhs_desc* desc, const float* w, int64_t w_stride, const qmm_weights* weights) {
  const char* function = "qmm_quantize";
  Layout layout;
  QMM_TRY(make_layout(function, desc, &layout));
  QMM_TRY(check_weights(function, *desc, layout, weights, false));
  QMM_TRY(check_array(function, "w", w, desc->n, desc->k, w_stride, 4));
  const auto for_each = [&](auto&& use) -> qmm_status {
    for (int64_t n = 0; desc->k > 0 && n < desc->n; ++n)
      for (int64_t g = 0; g < layout.groups; ++g) {
        const int64_t begin = g * desc->group, rest = desc->k - begin;
        QMM_TRY(use(n, g, begin, rest < desc->group ? rest : desc->group));
      }
    return QMM_OK;
  };
  // First everything is checked, so that a failure writes nothing.
  QMM_TRY(for_each([&](int64_t n, int64_t g, int64_t begin, int64_t count) {
    for (int64_t k = begin; k < begin + count; ++k)
      if (!is_finite(w[n * w_stride + k]))
        return fail(QMM_INVALID_ARGUMENT, "%s: w[%" PRId64 ", %" PRId64 "] is not finite", function, n, k);
    const GroupQuantizer q = find_quantizer(*desc, w + n * w_stride + begin, count);
    if (!is_finite(q.scale) || !is_finite(q.base))
      return fail(QMM_INVALID_ARGUMENT,
                  "%s: the scale or min of row %" PRId64 ", group %" PRId64 " is too large for scale_dtype %d",
                  function, n, g, desc->scale_dtype);
    return qmm_status(QMM_OK);
  }));
  const float lowest = desc->bits == 4 ? 0 : -128, highest = desc->bits == 4 ? 15 : 127;
  return for_each([&](int64_t n, int64_t g, int64_t begin, int64_t count) {
    const GroupQuantizer q = find_quantizer(*desc, w + n * w_stride + begin, count);
    uint8_t* row = static_cast<uint8_t*>(weights->codes) + n * weights->codes_stride;
    for (int64_t k = begin; k < begin + count; ++k) {
      const float code = round_even(ratio(w[n * w_stride + k] - q.base, q.scale)) + static_cast<float>(q.zero);
      set_code(desc->bits, row, k, static_cast<int>(clamp(code, lowest, highest)));
    }
    store_scale(desc->scale_dtype, weights->scales, n * weights->scales_stride + g, q.scale);
    const int64_t at = n * weights->offsets_stride + g;
    if (desc->offset == QMM_ZEROS) static_cast<int8_t*>(weights->offsets)[at] = static_cast<int8_t>(q.zero);
    if (desc->offset == QMM_MINS) store_scale(desc->scale_dtype, weights->offsets, at, q.base);
    return qmm_status(QMM_OK);
  });
}

qmm_status dequantize_rows(const qmm_rhs* rhs, const int64_t* ids, int64_t count, float* y, int64_t y_stride) {
  const char* function = "qmm_dequantize_rows";
  Layout layout;
  QMM_TRY(check_rhs(function, rhs, &layout));
  const qmm_rhs_desc& desc = rhs->desc;
  if (count < 0) return fail(QMM_INVALID_ARGUMENT, "%s: count is %" PRId64, function, count);
  QMM_TRY(check_array(function, "ids", ids, count, 1, 1, 8));
  QMM_TRY(check_array(function, "y", y, count, desc.k, y_stride, 4));
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= desc.n)
      return fail(QMM_INVALID_ARGUMENT, "%s: ids[%" PRId64 "] is %" PRId64 "; W has %" PRId64 " rows", function, i,
                  ids[i], desc.n);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = ids[i] % kPanel;
    const uint8_t* panel = first_panel(*rhs) + ids[i] / kPanel * layout.panel_stride;
    for (int64_t k = 0; k < desc.k; ++k) {
      const int64_t at = k / desc.group * kPanel + c;
      const int code = code_at(desc.bits, panel, c, k);
      const float scale = widen(static_cast<Scale>(desc.scale_dtype), panel + layout.scales_at, at);
      const uint8_t* offsets = panel + layout.offsets_at;
      float& w = y[i * y_stride + k];
      if (desc.offset == QMM_MINS) {
        w = fma(static_cast<float>(code), scale, widen(static_cast<Scale>(desc.scale_dtype), offsets, at));
      } else {
        const int zero = desc.offset == QMM_ZEROS ? static_cast<int8_t>(offsets[at]) : symmetric_zero(desc.bits);
        w = static_cast<float>(code - zero) * scale;
      }
    }
  }
  return QMM_OK;
}

}  // namespace qmm
