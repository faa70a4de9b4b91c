#include "backends/weights/encode/band_codes.h"

#include <algorithm>
#include <numeric>

#include "backends/weights/encode/code_rounders.h"
#include "backends/weights/encode/palette_refit.h"
#include "backends/weights/encode/part_values.h"
#include "backends/weights/encode/weight_encoder.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Errors are summed in f32, so smaller relative differences are rounding errors.
constexpr double kLess = 1 - 1e-5;

// Maximum number of table entries that are solved for jointly per row of weights.
constexpr int64_t kMaxUnknowns = 512;

// Encodes with WeightEncoder, then unpacks codes and zeros.
Result<BandCodes> nearest_codes(const Encoding& encoding, const Type& type,
                                std::span<const std::byte> values) {
  WeightEncoder encoder(encoding, type);
  std::vector<std::byte> codes;
  const EncodedSink sink{[&](std::span<const std::byte> more) -> Status {
                           codes.insert(codes.end(), more.begin(), more.end());
                           return {};
                         },
                         {}};
  MOEC_TRY(encoder.add(values, sink));
  const int64_t bits = code_bits(encoding);
  BandCodes nearest;
  nearest.codes = unpacked(codes, bits, *checked_elements(code_dims(encoding, type)));
  for (const StoredPart& stored : stored_parts(encoding, type)) {
    if (stored.part == WeightPart::codes) continue;
    const auto bytes = encoder.parameters(stored.part);
    // Zeros are needed as numbers, scales and tables only as bytes until a rounder decodes them.
    if (stored.part == WeightPart::zeros)
      nearest.zeros = unpacked(bytes, bits, *checked_elements(block_counts(encoding, type)));
    else
      nearest.parameters.assign(bytes.begin(), bytes.end());
  }
  return nearest;
}

// Copies the rows of `other` that have a lower cost. Rows without a clear gain keep their codes, so
// noise does not change the bytes of a file.
void keep_better_rows(RoundedRows& best, const RoundedRows& other) {
  for (size_t r = 0; r < best.errors.size(); ++r) {
    // The negation also rejects a NaN.
    if (!(other.errors[r] < kLess * best.errors[r])) continue;
    best.errors[r] = other.errors[r];
    for (int64_t c = 0; c < best.codes.columns; ++c)
      best.codes.column(c)[r] = other.codes.column(c)[r];
  }
}

double sum(std::span<const double> errors) {
  return std::accumulate(errors.begin(), errors.end(), 0.0);
}

// Copies rows into rows of another length; drops or zero-fills the end of each row.
std::vector<uint8_t> with_row_length(const std::vector<uint8_t>& from, int64_t rows,
                                     int64_t from_length, int64_t to_length) {
  std::vector<uint8_t> to(static_cast<size_t>(rows * to_length));
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(from.begin() + r * from_length, std::min(from_length, to_length),
                to.begin() + r * to_length);
  return to;
}

// Searches for the codes of a band of rows, starting from the nearest codes.
class Search {
 public:
  Search(const CodeBlocks& blocks, int bits, Weights weights, std::span<const ErrorMetric> metrics,
         BandCodes nearest)
      : blocks_(blocks),
        bits_(bits),
        weights_(std::move(weights)),
        metrics_(metrics),
        band_(std::move(nearest)) {
    std::vector<uint8_t> codes = std::move(band_.codes);
    // The search works on a matrix without padding; result() adds it again.
    if (is_filled_up())
      codes = with_row_length(codes, blocks.rows, blocks.stored_columns(), blocks.columns);
    best_.codes = columns_of(blocks, std::move(codes));
  }

  void run_affine(DType dtype) {
    const int half = 1 << (bits_ - 1);
    std::vector<int8_t> zeros;
    // Extends the sign of a code of `bits_` bits.
    for (uint8_t zero : band_.zeros)
      zeros.push_back(static_cast<int8_t>(zero < half ? zero : zero - 2 * half));
    start(AffineRounder(blocks_, bits_, floats_of(dtype, band_.parameters), zeros));
  }

  void run_palette(DType dtype) {
    const PaletteProblem problem{weights_, metrics_, blocks_, dtype, bits_};
    std::vector<float> tables = floats_of(dtype, band_.parameters);
    start(PaletteRounder(blocks_, bits_, tables));
    // With N unknowns per group of rows, the normal equations have N² coefficients, and their
    // solution takes time proportional to N³.
    const bool small = blocks_.across() << bits_ <= kMaxUnknowns;
    for (int round = 0; small && round < table_rounds(bits_); ++round)
      if (!improve_tables(problem, tables)) break;
    encode(dtype, tables.data(), tables.size(), band_.parameters.data());
  }

  BandCodes result() {
    band_.codes = elements_of(blocks_, std::move(best_.codes));
    if (is_filled_up())
      band_.codes =
          with_row_length(band_.codes, blocks_.rows, blocks_.columns, blocks_.stored_columns());
    band_.error = sum(best_.errors);
    return std::move(band_);
  }

 private:
  bool is_filled_up() const { return blocks_.stored_columns() != blocks_.columns; }

  void start(const Rounder& rounder) {
    best_ = cost_of(weights_, metrics_, rounder, std::move(best_.codes));
    // Computed before feed_errors(), whose better rows replace rows of `best_`.
    band_.nearest_error = sum(best_.errors);
    keep_better_rows(best_, feed_errors(weights_, metrics_, rounder));
  }

  // Runs one round; returns true if a table improved.
  bool improve_tables(const PaletteProblem& problem, std::vector<float>& tables) {
    PaletteCodes next{best_.codes, tables};
    refit_tables(problem, next);
    const PaletteRounder rounder(blocks_, bits_, next.tables);
    RoundedRows rows = cost_of(weights_, metrics_, rounder, std::move(next.codes));
    keep_better_rows(rows, feed_errors(weights_, metrics_, rounder));
    // The descent starts from the better of two candidates per row: the former codes and those of
    // the feedback, both with the new tables.
    next.codes = std::move(rows.codes);
    descend_codes(problem, next);
    rows = cost_of(weights_, metrics_, rounder, std::move(next.codes));
    return keep_better_tables(rows, next.tables, tables);
  }

  // Copies the tables whose rows have a lower total cost. All rows that share tables change
  // together, so a single row may get worse.
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
  std::span<const ErrorMetric> metrics_;
  BandCodes band_;
  RoundedRows best_;
};

}  // namespace

Result<BandCodes> code_band(const Encoding& encoding, const Type& type, const CodeBlocks& blocks,
                            std::span<const std::byte> values,
                            std::span<const ErrorMetric> metrics) {
  // The nearest codes are the starting point and the fallback of each row.
  MOEC_ASSIGN(BandCodes nearest, nearest_codes(encoding, type, values));
  Search search(blocks, static_cast<int>(code_bits(encoding)),
                columns_of(blocks, floats_of(type.dtype, values)), metrics, std::move(nearest));
  if (std::holds_alternative<AffineEncoding>(encoding))
    search.run_affine(type.dtype);
  else
    search.run_palette(type.dtype);
  return search.result();
}

}  // namespace moec
