#include "frontends/export/options/option_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "backends/formats/format.h"
#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

// Returns the error, or an empty text if the word is a whole number in the range.
std::string wrong_whole(const std::string& word, int64_t least, int64_t most) {
  const auto value = parse_whole(word);
  if (value && *value >= least && *value <= most) return "";
  // INT64_MAX is the default of a row and means that there is no upper limit.
  return most == INT64_MAX
             ? fmt::format("\"{}\" is not a whole number of at least {}", word, least)
             : fmt::format("\"{}\" is not a whole number from {} to {}", word, least, most);
}

std::string wrong_name(const std::string& word, const Words& names) {
  if (std::find(names.begin(), names.end(), word) != names.end()) return "";
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fmt::format("\"{}\" is not one of {}{}", word, fmt::join(names, ", "),
                     did_you_mean(word, known));
}

// --help-all lists the groups in the order of these tables.
std::vector<const OptionRow*> all_rows() {
  std::vector<const OptionRow*> rows;
  for (const auto table : {form_options(), shard_options(), device_options(), output_options(),
                           weight_options(), target_options()})
    for (const OptionRow& row : table) rows.push_back(&row);
  return rows;
}

}  // namespace

Words OptionValue::accepted() const {
  if (names) return names();
  Words words;
  if (choices.empty()) return words;
  std::istringstream text{std::string(choices)};
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::string_view OptionRow::long_name() const { return name.substr(name.rfind(',') + 1); }

bool OptionRow::differs(const Words& words) const {
  return value.initial.empty() || fmt::format("{}", fmt::join(words, ",")) != value.initial;
}

std::string OptionRow::wrong_word(const std::string& word) const {
  // A list of names takes precedence over the kind, for example a `text` with choices.
  if (const Words names = value.accepted(); !names.empty()) return wrong_name(word, names);
  switch (value.kind) {
    case OptionKind::whole:
    case OptionKind::wholes:
      return wrong_whole(word, value.least, value.most);
    case OptionKind::positive:
      return parse_positive(word) ? "" : fmt::format("\"{}\" is not a positive number", word);
    // The parser of the row checks these words, if they have a grammar.
    case OptionKind::flag:
    case OptionKind::text:
    case OptionKind::list:
    case OptionKind::repeated:
      return "";
  }
  return "";
}

bool OptionRow::has_effect(const Target& target) const {
  switch (scope.formats) {
    case OptionFormats::all:
      return true;
    case OptionFormats::graphs:
      return format_of(target.format).shape == FormatShape::graphs;
    case OptionFormats::onnx:
      return target.format == ShardFormat::onnx;
    case OptionFormats::coreml:
      return target.format == ShardFormat::coreml;
    case OptionFormats::gguf:
      return target.format == ShardFormat::gguf;
  }
  return false;
}

std::span<const OptionRow* const> option_rows() {
  static const std::vector<const OptionRow*> rows = all_rows();
  return rows;
}

}  // namespace moec
