#include "backends/formats/coreml/coreml_metadata.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <vector>

#include "backends/emit/metadata_keys.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> fail_metadata(std::string cause) {
  return fail("coreml.metadata", std::move(cause), "export the model again");
}

// Accepts a last line with or without a newline.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

struct Pair {
  std::string_view first, second;
};

// Splits at the first space, because layouts and IR labels, which come first, contain no space.
Result<Pair> two_words(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos)
    return fail_metadata("a metadata line does not consist of two words");
  return Pair{line.substr(0, space), line.substr(space + 1)};
}

Status read_layout(std::string_view line, CoremlMetadata& metadata) {
  MOEC_ASSIGN(const Pair pair, two_words(line));
  const auto layout = parse_layout(pair.first);
  if (!layout) return fail_metadata("the entry \"layouts\" contains an unknown layout");
  metadata.layouts[std::string(pair.second)] = *layout;
  return {};
}

// The line has the IR label first, but the map is keyed by the MIL name.
Status read_label(std::string_view line, CoremlMetadata& metadata) {
  MOEC_ASSIGN(const Pair pair, two_words(line));
  metadata.labels[std::string(pair.second)] = std::string(pair.first);
  return {};
}

Result<int64_t> width(std::string_view text) {
  if (const auto value = parse_count(text)) return *value;
  return fail_metadata("the entry \"range\" does not consist of two token widths");
}

Result<WidthRange> read_range(std::string_view text) {
  MOEC_ASSIGN(const Pair pair, two_words(text));
  MOEC_ASSIGN(const int64_t least, width(pair.first));
  MOEC_ASSIGN(const int64_t largest, width(pair.second));
  // size_at() divides by the difference of the two widths.
  if (least >= largest)
    return fail_metadata("the token widths in the entry \"range\" are not ascending");
  return WidthRange{least, largest};
}

}  // namespace

Result<CoremlMetadata> read_metadata(const mlmodel::Metadata& stored, const std::string& function) {
  // Returns an empty text for an absent entry: packages of other tools have no metadata of moec.
  auto text = [&](std::string_view what) -> std::string_view {
    const auto found = stored.userdefined().find(metadata_key(what, function));
    return found == stored.userdefined().end() ? std::string_view() : found->second;
  };
  CoremlMetadata metadata;
  metadata.shard = text(kShardEntry);
  for (std::string_view line : lines_of(text(kLayoutsEntry))) MOEC_TRY(read_layout(line, metadata));
  for (std::string_view line : lines_of(text(kNamesEntry))) MOEC_TRY(read_label(line, metadata));
  // Without these entries, consts in the blob file are weights, and products with −1 are products.
  for (std::string_view line : lines_of(text(kConstantsEntry))) metadata.constants.emplace(line);
  for (std::string_view line : lines_of(text(kNegationsEntry))) metadata.negations.emplace(line);
  if (!text(kWeightsEntry).empty()) {
    metadata.owners = parse_weight_owners(text(kWeightsEntry));
    if (!metadata.owners)
      return fail_metadata("the entry \"weights\" is not a list of weights and owners");
  }
  if (!text(kRangeEntry).empty()) {
    MOEC_ASSIGN(metadata.range, read_range(text(kRangeEntry)));
  }
  return metadata;
}

}  // namespace moec
