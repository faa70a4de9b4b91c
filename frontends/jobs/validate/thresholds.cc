#include "frontends/jobs/validate/thresholds.h"

#include <fmt/format.h>

#include <algorithm>

#include "embedded/embedded_thresholds.h"
#include "ir/base/invariant.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMaxThresholdBytes = 1 << 20;

Status read_fraction(JsonFields& fields, std::string_view name, double& out) {
  MOEC_TRY(fields.number(name, out));
  // NaN fails both comparisons, so it is rejected, too.
  return out >= 0 && out <= 1 ? Status() : fields.bad(name, "must be from 0 to 1");
}

Result<Thresholds> read_thresholds(JsonFields& fields) {
  Thresholds row;
  MOEC_TRY(fields.integer("bits", row.bits));
  // of_bits() looks up exact widths, so other widths would never be used.
  if (std::find(kThresholdBits.begin(), kThresholdBits.end(), row.bits) == kThresholdBits.end())
    return fields.bad("bits", fmt::format("must be one of {}", fmt::join(kThresholdBits, ", ")));
  MOEC_TRY(read_fraction(fields, "cosine", row.cosine));
  MOEC_TRY(fields.number("relative_l2", row.relative_l2));
  // The negation also rejects NaN.
  if (!(row.relative_l2 >= 0)) return fields.bad("relative_l2", "must be at least 0");
  // The worst row is optional: an absent limit is infinite in Thresholds.
  if (fields.has("worst_row")) {
    MOEC_TRY(fields.number("worst_row", row.worst_row));
    if (!(row.worst_row >= 0)) return fields.bad("worst_row", "must be at least 0");
  }
  MOEC_TRY(read_fraction(fields, "expert_agreement", row.expert_agreement));
  MOEC_TRY(read_fraction(fields, "top1", row.top1));
  MOEC_TRY(fields.boolean("greedy", row.greedy));
  MOEC_TRY(fields.finish());
  return row;
}

}  // namespace

Result<ThresholdTable> ThresholdTable::parse(std::string_view text, const std::string& file) {
  const JsonReport report(
      text, file,
      JsonCodes::by_prefix("thresholds",
                           "see frontends/jobs/validate/thresholds.json for all fields"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  // `about` is a comment for readers of the file, so its text is not used.
  std::string about;
  if (fields.has("about")) MOEC_TRY(fields.text("about", about));
  std::vector<Thresholds> rows;
  MOEC_TRY(fields.each("thresholds", [&](JsonFields& item) -> Status {
    MOEC_ASSIGN(const Thresholds row, read_thresholds(item));
    rows.push_back(row);
    return {};
  }));
  MOEC_TRY(fields.finish());
  ThresholdTable table;
  // Orders the rows like kThresholdBits, whatever the order in the file.
  for (const int64_t bits : kThresholdBits) {
    const auto of_bits = [&](const Thresholds& row) { return row.bits == bits; };
    // Exactly one entry per width, so that no width lacks limits and none is ambiguous.
    if (std::count_if(rows.begin(), rows.end(), of_bits) != 1)
      return fields.bad("thresholds", fmt::format("must have exactly one entry of {} bits", bits));
    table.rows_.push_back(*std::find_if(rows.begin(), rows.end(), of_bits));
  }
  return table;
}

Result<ThresholdTable> ThresholdTable::read(const std::string& file) {
  MOEC_ASSIGN(const std::string text, read_text_file(file, kMaxThresholdBytes));
  return parse(text, file);
}

const ThresholdTable& ThresholdTable::builtin() {
  static const ThresholdTable table = [] {
    auto parsed =
        parse(embedded_thresholds.front().text, "frontends/jobs/validate/thresholds.json");
    // The embedded file is part of the program, so an error in it is a bug.
    MOEC_CHECK(parsed, "{}", parsed.error().front().cause);
    return *parsed;
  }();
  return table;
}

const Thresholds& ThresholdTable::of_bits(int64_t bits) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Thresholds& row) { return row.bits == bits; });
  MOEC_CHECK(found != rows_.end(), "no thresholds of {} bits", bits);
  return *found;
}

}  // namespace moec
