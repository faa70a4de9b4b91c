// Thresholds of a golden validation, read from frontends/jobs/validate/thresholds.json or from a
// user's file with the same fields.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Bit widths for which thresholds exist. 32 and 16 bits are floats, computed in f32 or f16;
// narrower weights are quantized.
inline constexpr std::array<int64_t, 8> kThresholdBits = {32, 16, 8, 6, 4, 3, 2, 1};

struct Thresholds {
  int64_t bits = 32;                   // one of kThresholdBits
  double cosine = 1, relative_l2 = 0;  // of a shard's output and cache rows, on golden inputs
  double worst_row = std::numeric_limits<double>::infinity();  // maximum relative L2 of any row
  double expert_agreement = 1;  // fraction of tokens that pick the golden's experts
  double top1 = 1;     // whole model: fraction of tokens with the golden's most likely next token
  bool greedy = true;  // whole model: greedy text must equal the golden's
  bool operator==(const Thresholds&) const = default;
};

class ThresholdTable {
 public:
  static const ThresholdTable& builtin();
  // Parses a JSON text; `file` is for messages. Errors: thresholds.syntax,
  // thresholds.missing_field (also for a missing row of bits), thresholds.unknown_field,
  // thresholds.duplicate_key, thresholds.bad_value.
  static Result<ThresholdTable> parse(std::string_view text, const std::string& file);
  // Reads a file of at most 1 MiB. Errors: those of parse(), and of opening a file.
  static Result<ThresholdTable> read(const std::string& file);

  // Returns the row of `bits`, which must be one of kThresholdBits.
  const Thresholds& of_bits(int64_t bits) const;

 private:
  std::vector<Thresholds> rows_;  // in the order of kThresholdBits
};

}  // namespace moec
