// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "layout.h"

#include <cinttypes>
#include <cstring>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed weights are little-endian and are used in place");

namespace qmm {
namespace {

constexpr char kMagic[8] = "QMMPACK";
constexpr int64_t kMaxExtent = int64_t(1) << 40;

}  // namespace

qmm_status make_layout(const char* function, const qmm_rhs_desc* desc, Layout* layout) {
  QMM_TRY(check_struct(function, "desc", desc, sizeof *desc));
  const qmm_rhs_desc& d = *desc;
  if (d.n < 0 || d.k < 0 || d.n > kMaxExtent || d.k > kMaxExtent)
    return fail(QMM_INVALID_ARGUMENT, "%s: the shape [n, k] is [%" PRId64 ", %" PRId64 "]; extents are 0 to 2^40",
                function, d.n, d.k);
  if (d.bits != 4 && d.bits != 8)
    return fail(QMM_INVALID_ARGUMENT, "%s: bits is %d; it must be 4 or 8", function, d.bits);
  if (d.offset < QMM_SYMMETRIC || d.offset > QMM_MINS)
    return fail(QMM_INVALID_ARGUMENT, "%s: offset is %d; it must be QMM_SYMMETRIC, QMM_ZEROS or QMM_MINS (0 to 2)",
                function, d.offset);
  if (d.scale_dtype < QMM_F32 || d.scale_dtype > QMM_BF16)
    return fail(QMM_INVALID_ARGUMENT, "%s: scale_dtype is %d; it must be QMM_F32, QMM_F16 or QMM_BF16 (0 to 2)",
                function, d.scale_dtype);
  if (d.group != d.k && (d.group <= 0 || d.group > d.k || d.group % 8 != 0))
    return fail(QMM_INVALID_ARGUMENT,
                "%s: group is %" PRId64 "; it must be a multiple of 8 below k = %" PRId64 ", or k itself", function,
                d.group, d.k);
  if (d.reserved != 0)
    return fail(QMM_INVALID_ARGUMENT, "%s: desc->reserved is %d; it must be 0", function, d.reserved);

  Layout l;
  const int64_t side = kPanel * dtype_size(d.scale_dtype);
  l.groups = d.k == 0 ? 0 : ceil_div(d.k, d.group);
  l.panels = ceil_div(d.n, kPanel);
  l.padded_k = round_up(d.k, 8);
  l.padded_group = round_up(d.group, 8);
  l.scales_at = l.padded_k * kPanel * d.bits / 8;
  int64_t end = l.scales_at + l.groups * side;
  l.offsets_at = d.offset == QMM_SYMMETRIC ? 0 : end;
  if (d.offset == QMM_ZEROS) end += l.groups * kPanel;
  if (d.offset == QMM_MINS) end += l.groups * side;
  l.panel_stride = round_up(end, kLine);
  if (__builtin_mul_overflow(l.panels, l.panel_stride, &l.size) ||
      __builtin_add_overflow(l.size, int64_t(sizeof(Header)), &l.size))
    return fail(QMM_INVALID_ARGUMENT, "%s: packed weights of shape [%" PRId64 ", %" PRId64 "] overflow 2^63 bytes",
                function, d.n, d.k);
  *layout = l;
  return QMM_OK;
}

Header make_header(const qmm_rhs_desc& desc, const Layout& layout) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.byte_order = kByteOrder;
  header.header_size = sizeof header;
  header.bits = static_cast<uint32_t>(desc.bits);
  header.offset = static_cast<uint32_t>(desc.offset);
  header.scale_dtype = static_cast<uint32_t>(desc.scale_dtype);
  header.n = desc.n;
  header.k = desc.k;
  header.group = desc.group;
  header.scales_at = layout.scales_at;
  header.offsets_at = layout.offsets_at;
  header.panel_stride = layout.panel_stride;
  header.size = layout.size;
  return header;
}

qmm_status open_packed(const void* packed, size_t size, qmm_rhs* rhs) {
  const char* function = "qmm_rhs_open";
  if (packed == nullptr || rhs == nullptr)
    return fail(QMM_INVALID_ARGUMENT, "%s: %s is null", function, packed == nullptr ? "packed" : "rhs");
  QMM_TRY(check_struct(function, "rhs", rhs, sizeof *rhs));
  if (size < sizeof(Header))
    return fail(QMM_INVALID_PACKED, "%s: %zu bytes are less than the header's %zu", function, size, sizeof(Header));
  Header header;
  std::memcpy(&header, packed, sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return fail(QMM_INVALID_PACKED, "%s: these bytes do not begin with the mark of packed weights", function);
  if (header.byte_order != kByteOrder)
    return fail(QMM_INVALID_PACKED, "%s: the byte order mark is 0x%08x; this CPU needs 0x%08x", function,
                header.byte_order, kByteOrder);
  if (header.version != kVersion)
    return fail(QMM_INVALID_PACKED, "%s: the format has version %u; this library reads version %u", function,
                header.version, kVersion);
  auto desc = sized<qmm_rhs_desc>();
  desc.n = header.n;
  desc.k = header.k;
  desc.group = header.group;
  desc.bits = static_cast<int32_t>(header.bits);
  desc.offset = static_cast<int32_t>(header.offset);
  desc.scale_dtype = static_cast<int32_t>(header.scale_dtype);
  Layout layout;
  if (make_layout("qmm_rhs_open: the header", &desc, &layout) != QMM_OK) return QMM_INVALID_PACKED;
  // Everything else follows from shape and format; what differs was written by something else, or damaged.
  Header expected = make_header(desc, layout);
  expected.checksum = header.checksum;
  if (std::memcmp(&header, &expected, sizeof header) != 0)
    return fail(QMM_INVALID_PACKED,
                "%s: the header says %" PRId64 " bytes, panels of %" PRId64 ", for shape [%" PRId64 ", %" PRId64
                "], which takes %" PRId64 " bytes, panels of %" PRId64 ", and no other field set",
                function, header.size, header.panel_stride, desc.n, desc.k, layout.size, layout.panel_stride);
  if (static_cast<uint64_t>(layout.size) > size)
    return fail(QMM_INVALID_PACKED, "%s: the header says %" PRId64 " bytes; only %zu are given", function, layout.size,
                size);
  rhs->desc = desc;
  rhs->packed = packed;
  rhs->packed_size = static_cast<size_t>(layout.size);
  return QMM_OK;
}

uint64_t checksum(const void* packed, int64_t size) {
  const auto* bytes = static_cast<const unsigned char*>(packed);
  uint64_t hash = 0xcbf29ce484222325;
  for (int64_t i = 0; i < size; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    if (i == int64_t(offsetof(Header, checksum))) word = 0;
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace qmm
