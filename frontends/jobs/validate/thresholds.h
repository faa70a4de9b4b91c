// What a golden validation must reach. The numbers stand in
// frontends/jobs/validate/thresholds.json, or in a file of the user's with the same fields.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// By the fewest bits of a weight: 32 and 16 are floats, computed in f32 or f16; fewer are codes.
inline constexpr std::array<int64_t, 8> kThresholdBits = {32, 16, 8, 6, 4, 3, 2, 1};

struct Thresholds {
  int64_t bits = 32;                   // one of kThresholdBits
  double cosine = 1, relative_l2 = 0;  // of a shard's output and cache rows, on golden inputs
  double worst_row = std::numeric_limits<double>::infinity();  // the relative L2 of each row
  double expert_agreement = 1;  // fraction of tokens whose chosen experts are the golden's
  double top1 = 1;     // of the model: fraction of tokens with the golden's likeliest next token
  bool greedy = true;  // of the model: whether its greedy text must be the golden's
  bool operator==(const Thresholds&) const = default;
};

class ThresholdTable {
 public:
  static const ThresholdTable& builtin();
  // The table in a JSON text; `file` is for messages. Errors: thresholds.syntax,
  // thresholds.missing_field (also a row of bits), thresholds.unknown_field,
  // thresholds.duplicate_key, thresholds.bad_value.
  static Result<ThresholdTable> parse(std::string_view text, const std::string& file);
  // The table in a file, at most 1 MiB. Errors: those of parse(), and of opening a file.
  static Result<ThresholdTable> read(const std::string& file);

  // `bits` is one of kThresholdBits.
  const Thresholds& of_bits(int64_t bits) const;

 private:
  std::vector<Thresholds> rows_;  // in the order of kThresholdBits
};

}  // namespace moec
