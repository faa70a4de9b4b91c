#include "frontends/jobs/split/requested_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "backends/output/folder_lock.h"
#include "frontends/jobs/split/split_folder.h"
#include "ir/base/json_fields.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// Below NAME_MAX (255), with room for the prefix of a stage.
constexpr size_t kLongestName = 100;
// Bounds `last + 1`; no known model has as many layers.
constexpr int64_t kMaxLayers = 4096;

// Returns the experts of node `node` of `count`: one run of consecutive experts. If each router
// group divides evenly into at least two experts per node, returns one run per group instead, so
// that every node has experts of all groups.
std::vector<int64_t> equal_part(int64_t node, int64_t count, const ExpertGrid& grid) {
  const int64_t in_group = grid.experts / grid.groups;
  // At least two experts per group, because llama.cpp ranks groups by their two best experts.
  const bool divided = in_group % count == 0 && in_group / count >= 2;
  const int64_t runs = divided ? grid.groups : 1;
  const int64_t of_run = grid.experts / runs;
  std::vector<int64_t> experts;
  for (int64_t run = 0; run < runs; ++run)
    // node * n / count distributes the remainder evenly and covers every expert once.
    for (int64_t e = node * of_run / count; e < (node + 1) * of_run / count; ++e)
      experts.push_back(run * of_run + e);
  return experts;
}

std::vector<ExpertGroup> equal_groups(int64_t count, const ExpertGrid& grid) {
  std::vector<ExpertGroup> groups;
  for (int64_t node = 0; node < count; ++node) {
    ExpertGroup group{fmt::format("node{}", node), {}};
    for (const int64_t layer : grid.layers)
      group.experts.layers[layer] = equal_part(node, count, grid);
    groups.push_back(std::move(group));
  }
  return groups;
}

Result<std::vector<ExpertGroup>> asked_groups(const SplitOptions& options, const ExpertGrid& grid) {
  // `groups` is 0 if the option is absent.
  const int given =
      !options.place_file.empty() + (options.groups != 0) + !options.expert_list.empty();
  if (given != 1)
    return fail("split.selection",
                fmt::format("{} of --place, --groups and --expert-list are given",
                            given == 0 ? "none" : "several"),
                "pass exactly one of them to define the experts per node");
  if (!options.place_file.empty()) {
    MOEC_ASSIGN(const std::string text, read_user_text(options.place_file, "groups.file"));
    return parse_expert_groups(text, options.place_file, grid);
  }
  if (!options.expert_list.empty()) {
    MOEC_ASSIGN(ExpertSets experts, parse_expert_sets(options.expert_list, grid, "--expert-list"));
    return std::vector<ExpertGroup>{{"node0", std::move(experts)}};
  }
  if (options.groups < 1 || options.groups > grid.experts)
    return fail("split.selection",
                fmt::format("{} nodes are too many for {} experts", options.groups, grid.experts),
                fmt::format("pass --groups from 1 to {}", grid.experts));
  return equal_groups(options.groups, grid);
}

Status check_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (plain && name.size() <= kLongestName && !name.starts_with('.') && name != kSplitIndex &&
      name != kLockFile)
    return {};
  return fail("split.name",
              fmt::format("the node name '{}' is not a valid folder name", printable(name)),
              fmt::format("use up to {} letters, digits, '-', '_' and '.', but no leading '.'",
                          kLongestName));
}

// Parses a range such as "4-7". Returns an empty span if the text is invalid.
LayerSpan span_of(std::string_view text) {
  // take_number() advances `text`, so the rest begins at the dash.
  const auto first = take_number<int64_t>(text);
  if (!first || !text.starts_with('-')) return {};
  const auto last = parse_number<int64_t>(text.substr(1));
  if (!last || *last > kMaxLayers) return {};
  LayerSpan span;
  span.first = *first;
  span.end = *last + 1;
  return span;
}

// Reads the field "stages": ["0-23", "24-47", …]. Returns no spans for a single stage.
Result<std::vector<LayerSpan>> stages_of_file(const std::string& file) {
  MOEC_ASSIGN(const std::string text, read_user_text(file, "groups.file"));
  const JsonReport report(text, file,
                          JsonCodes::by_prefix("groups", "make the file with moec place"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  std::vector<std::string> words;
  std::vector<LayerSpan> spans;
  if (fields.has("stages")) MOEC_TRY(fields.texts("stages", words));
  // A single stage is the whole model, so its range needs no check.
  if (words.size() <= 1) return spans;
  for (const std::string& word : words) {
    const LayerSpan span = span_of(word);
    // The stages must cover all layers without gaps, because each stage reads the output of the
    // previous one.
    const int64_t due = spans.empty() ? 0 : spans.back().end;
    if (span.first != due || span.end <= span.first)
      return fields.bad("stages",
                        fmt::format("has '{}', but a range that starts at layer {} is expected",
                                    printable(word), due));
    spans.push_back(span);
  }
  return spans;
}

Status check_all_covered(const SplitOptions& options, const RequestedNodes& asked,
                         const ExpertGrid& grid) {
  // A list of one node is an excerpt by definition.
  if (options.allow_uncovered || !options.expert_list.empty()) return {};
  const std::string what = options.place_file.empty() ? "--groups" : options.place_file;
  const Status covered = check_covered(asked.groups, grid, what);
  if (covered) return {};
  return fail(covered.error().front().code, covered.error().front().cause,
              "add these experts to a node, or pass --allow-uncovered to leave them out");
}

}  // namespace

Result<RequestedNodes> requested_nodes(const SplitOptions& options, const ExpertGrid& grid) {
  RequestedNodes asked;
  MOEC_ASSIGN(asked.groups, asked_groups(options, grid));
  for (const ExpertGroup& group : asked.groups) MOEC_TRY(check_name(group.name));
  if (!options.place_file.empty()) {
    MOEC_ASSIGN(asked.stages, stages_of_file(options.place_file));
  }
  MOEC_TRY(check_all_covered(options, asked, grid));
  return asked;
}

}  // namespace moec
