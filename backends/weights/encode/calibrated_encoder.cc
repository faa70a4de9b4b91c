#include "backends/weights/encode/calibrated_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backends/weights/convert.h"
#include "backends/weights/encode/code_rounders.h"
#include "backends/weights/encode/palette_refit.h"
#include "backends/weights/encode/part_values.h"
#include "backends/weights/encode/weight_encoder.h"
#include "backends/weights/pack_bits.h"

namespace moec {
namespace {

using Bytes = std::vector<std::byte>;

// How often tables are fitted to their codes and codes found for the new tables. With more bits
// there is little left to gain.
int table_rounds(int bits) { return bits <= 3 ? 4 : 0; }

// Errors are sums in f32: a smaller difference is one of rounding.
constexpr double kLess = 1 - 1e-5;

// Entries of all tables of a row of weights that are still solved for at once.
constexpr int64_t kMostUnknowns = 512;

Status check_inputs(const CodeBlocks& blocks, std::span<const Hessian> hessians) {
  int64_t inputs = 0;
  for (const Hessian& hessian : hessians) inputs += hessian.inputs;
  if (hessians.size() == 1 || inputs != blocks.columns) {
    const Hessian none;
    return check_hessian(hessians.empty() ? none : hessians.front(), blocks.columns);
  }
  for (const Hessian& hessian : hessians) MOEC_TRY(check_hessian(hessian, hessian.inputs));
  return {};
}

std::vector<ErrorMetric> make_metrics(std::span<const Hessian> hessians) {
  std::vector<ErrorMetric> metrics;
  int64_t first = 0;
  for (const Hessian& hessian : hessians) {
    metrics.push_back(make_metric(hessian, first));
    first += hessian.inputs;
  }
  return metrics;
}

Result<std::vector<Bytes>> nearest_parts(const Encoding& encoding, const Type& type,
                                         std::span<const std::byte> values) {
  WeightEncoder encoder(encoding, type);
  std::vector<Bytes> parts(1);
  const EncodedSink sink{[&](std::span<const std::byte> codes) -> Status {
                           parts[0].insert(parts[0].end(), codes.begin(), codes.end());
                           return {};
                         },
                         {}};
  MOEC_TRY(encoder.add(values, sink));
  for (const StoredPart& stored : stored_parts(encoding, type)) {
    if (stored.part == WeightPart::codes) continue;
    const auto bytes = encoder.parameters(stored.part);
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  return parts;
}

// Takes the rows of `other` that cost less.
void keep_better_rows(RoundedRows& best, const RoundedRows& other) {
  for (size_t r = 0; r < best.errors.size(); ++r) {
    if (!(other.errors[r] < kLess * best.errors[r])) continue;
    best.errors[r] = other.errors[r];
    for (int64_t c = 0; c < best.codes.columns; ++c)
      best.codes.column(c)[r] = other.codes.column(c)[r];
  }
}

double sum(std::span<const double> errors) {
  return std::accumulate(errors.begin(), errors.end(), 0.0);
}

// A weight whose codes are being chosen; at first they are the nearest ones.
class Search {
 public:
  Search(const CodeBlocks& blocks, int bits, Weights weights, std::vector<ErrorMetric> metrics,
         std::vector<Bytes> parts)
      : blocks_(blocks),
        bits_(bits),
        weights_(std::move(weights)),
        metrics_(std::move(metrics)),
        parts_(std::move(parts)) {
    best_.codes = columns_of(blocks, stored_codes());
  }

  void run_affine(DType dtype) {
    std::vector<int8_t> zeros;
    if (parts_.size() > 2) {
      const int64_t count = blocks_.down() * blocks_.across();
      const int half = 1 << (bits_ - 1);
      for (uint8_t zero : unpacked(parts_[2], bits_, count))
        zeros.push_back(static_cast<int8_t>(zero < half ? zero : zero - 2 * half));
    }
    start(AffineRounder(blocks_, bits_, floats_of(dtype, parts_[1]), zeros));
  }

  void run_palette(DType dtype) {
    const PaletteProblem problem{weights_, metrics_, blocks_, dtype, bits_};
    std::vector<float> tables = floats_of(dtype, parts_[1]);
    start(PaletteRounder(blocks_, bits_, tables));
    const bool small = blocks_.across() << bits_ <= kMostUnknowns;
    for (int round = 0; small && round < table_rounds(bits_); ++round)
      if (!improve_tables(problem, tables)) break;
    encode(dtype, tables.data(), tables.size(), parts_[1].data());
  }

  CalibratedWeight result(CodeForm form) {
    pack_bits(filled_up(elements_of(blocks_, std::move(best_.codes))), bits_, parts_[0].data());
    if (form == CodeForm::excess) add_excess();
    return {std::move(parts_), nearest_error_, sum(best_.errors)};
  }

 private:
  // The codes of the nearest values, without those that fill up rows.
  std::vector<uint8_t> stored_codes() const {
    const auto stored = static_cast<size_t>(blocks_.stored_columns());
    const auto columns = static_cast<size_t>(blocks_.columns);
    const auto rows = static_cast<size_t>(blocks_.rows);
    std::vector<uint8_t> codes =
        unpacked(parts_[0], bits_, blocks_.rows * blocks_.stored_columns());
    if (stored == columns) return codes;
    for (size_t r = 0; r < rows; ++r)
      std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(r * stored), columns,
                  codes.begin() + static_cast<std::ptrdiff_t>(r * columns));
    codes.resize(rows * columns);
    return codes;
  }

  std::vector<uint8_t> filled_up(std::vector<uint8_t> codes) const {
    const auto stored = static_cast<size_t>(blocks_.stored_columns());
    const auto columns = static_cast<size_t>(blocks_.columns);
    if (stored == columns) return codes;
    const auto rows = static_cast<size_t>(blocks_.rows);
    std::vector<uint8_t> filled(rows * stored);
    for (size_t r = 0; r < rows; ++r)
      std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(r * columns), columns,
                  filled.begin() + static_cast<std::ptrdiff_t>(r * stored));
    return filled;
  }

  // Codes of two's complement become codes with 2^(bits − 1) added: their highest bits change. The
  // zeros of each row of blocks fill whole bytes.
  void add_excess() {
    const int shift = 8 - bits_;
    const std::byte highest{bits_ == 4 ? uint8_t{0x88} : uint8_t{0x80}};
    for (std::byte& codes : parts_[0]) codes ^= highest;
    if (parts_.size() < 3) return;
    const auto across = static_cast<size_t>(blocks_.across());
    const auto rows = static_cast<size_t>(blocks_.down());
    std::vector<uint8_t> zeros = unpacked(parts_[2], bits_, blocks_.down() * blocks_.across());
    Bytes filled;
    for (size_t r = 0; r < rows; ++r) {
      std::span row(zeros.data() + r * across, across);
      for (uint8_t& zero : row) zero ^= static_cast<uint8_t>(0x80 >> shift);
      filled.resize(filled.size() + packed_bytes(across, bits_));
      pack_bits(row, bits_, filled.data() + r * packed_bytes(across, bits_));
    }
    parts_[2] = std::move(filled);
  }

  void start(const Rounder& rounder) {
    best_ = cost_of(weights_, metrics_, rounder, std::move(best_.codes));
    nearest_error_ = sum(best_.errors);
    keep_better_rows(best_, feed_errors(weights_, metrics_, rounder));
  }

  // One round; whether a table became better.
  bool improve_tables(const PaletteProblem& problem, std::vector<float>& tables) {
    PaletteCodes next{best_.codes, tables};
    refit_tables(problem, next);
    const PaletteRounder rounder(blocks_, bits_, next.tables);
    RoundedRows rows = cost_of(weights_, metrics_, rounder, std::move(next.codes));
    keep_better_rows(rows, feed_errors(weights_, metrics_, rounder));
    next.codes = std::move(rows.codes);
    descend_codes(problem, next);
    rows = cost_of(weights_, metrics_, rounder, std::move(next.codes));
    return keep_better_tables(rows, next.tables, tables);
  }

  // Takes the rows of those tables whose rows cost less together.
  bool keep_better_tables(const RoundedRows& rows, const std::vector<float>& from,
                          std::vector<float>& tables) {
    bool better = false;
    for (int64_t down = 0; down < blocks_.down(); ++down) {
      const int64_t first = down * blocks_.block_rows;
      const auto begin = static_cast<size_t>(first),
                 count = static_cast<size_t>(blocks_.block_rows);
      if (!(sum(std::span(rows.errors).subspan(begin, count)) <
            sum(std::span(best_.errors).subspan(begin, count))))
        continue;
      better = true;
      take_group(rows, first);
      for (int64_t across = 0; across < blocks_.across(); ++across) {
        const int64_t place = blocks_.place(down, across) << bits_;
        std::copy_n(from.begin() + place, int64_t{1} << bits_, tables.begin() + place);
      }
    }
    return better;
  }

  void take_group(const RoundedRows& rows, int64_t first) {
    const int64_t count = blocks_.block_rows;
    std::copy_n(rows.errors.begin() + first, count, best_.errors.begin() + first);
    for (int64_t c = 0; c < blocks_.columns; ++c)
      std::copy_n(rows.codes.column(c) + first, count, best_.codes.column(c) + first);
  }

  CodeBlocks blocks_;
  int bits_;
  Weights weights_;
  std::vector<ErrorMetric> metrics_;
  std::vector<Bytes> parts_;
  RoundedRows best_;
  double nearest_error_ = 0;
};

}  // namespace

Result<CalibratedWeight> encode_calibrated(const Encoding& encoding, const Type& type,
                                           std::span<const std::byte> values,
                                           const CalibratedInputs& inputs, CodeForm form) {
  MOEC_ASSIGN(const CodeBlocks blocks, code_blocks(encoding, type, inputs.axis));
  MOEC_TRY(check_inputs(blocks, inputs.hessians));
  MOEC_ASSIGN(std::vector<Bytes> parts, nearest_parts(encoding, type, values));
  const auto* affine = std::get_if<AffineEncoding>(&encoding);
  const int64_t bits = affine ? affine->bits : std::get<PaletteEncoding>(encoding).bits;
  Search search(blocks, static_cast<int>(bits), columns_of(blocks, floats_of(type.dtype, values)),
                make_metrics(inputs.hessians), std::move(parts));
  affine ? search.run_affine(type.dtype) : search.run_palette(type.dtype);
  return search.result(form);
}

}  // namespace moec
