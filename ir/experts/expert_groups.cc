#include "ir/experts/expert_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

class GroupReader {
 public:
  GroupReader(const ExpertGrid& grid, const std::string& file) : grid_(grid), file_(file) {}

  Status read(JsonFields& fields) {
    ExpertGroup group;
    std::string experts;
    MOEC_TRY(fields.text("name", group.name));
    MOEC_TRY(fields.text("experts", experts));
    MOEC_TRY(fields.finish());
    const auto same = [&](const ExpertGroup& other) { return other.name == group.name; };
    if (group.name.empty()) return fields.bad("name", "must not be empty");
    // Groups are referred to by name, so each name must be unique.
    if (std::any_of(groups_.begin(), groups_.end(), same))
      return fields.bad("name", fmt::format("is '{}', the name of another group", group.name));
    MOEC_ASSIGN(group.experts,
                parse_expert_sets(experts, grid_, fmt::format("{}: group {}", file_, group.name)));
    groups_.push_back(std::move(group));
    return {};
  }

  std::vector<ExpertGroup> take() { return std::move(groups_); }

 private:
  const ExpertGrid& grid_;
  const std::string& file_;
  std::vector<ExpertGroup> groups_;
};

}  // namespace

Result<std::vector<ExpertGroup>> parse_expert_groups(std::string_view text, const std::string& file,
                                                     const ExpertGrid& grid) {
  const JsonReport report(
      text, file,
      JsonCodes::by_prefix("groups",
                           R"(write {"groups": [{"name": …, "experts": "L0:0-7;…"}, …]})"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  GroupReader reader(grid, file);
  MOEC_TRY(fields.each("groups", [&](JsonFields& group) { return reader.read(group); }));
  std::vector<ExpertGroup> groups = reader.take();
  if (groups.empty()) return fields.bad("groups", "must have at least one group");
  return groups;
}

ExpertPartition parts_of_groups(const std::vector<ExpertGroup>& groups, const ExpertGrid& grid) {
  ExpertPartition parts;
  for (const int64_t layer : grid.layers) {
    // Experts of the same groups form one part, so a group has all experts of a part or none.
    std::map<std::vector<bool>, size_t> known;  // key: per group, whether it has the expert
    for (int64_t expert = 0; expert < grid.experts; ++expert) {
      std::vector<bool> in;
      for (const ExpertGroup& group : groups) in.push_back(group.experts.has(layer, expert));
      // Parts are numbered in the order of their first expert, not in the order of the map.
      const auto [found, is_new] = known.try_emplace(std::move(in), known.size());
      if (is_new) parts[layer].emplace_back();
      parts[layer][found->second].push_back(expert);
    }
  }
  return parts;
}

Result<ExpertPartition> read_expert_parts(const std::string& file, const ExpertGrid& grid) {
  MOEC_ASSIGN(const std::string text, read_user_text(file, "groups.file"));
  MOEC_ASSIGN(const std::vector<ExpertGroup> groups, parse_expert_groups(text, file, grid));
  return parts_of_groups(groups, grid);
}

std::string to_string(const ExpertPartition& parts) {
  std::string text;
  for (const auto& [layer, sets] : parts) {
    text += fmt::format("{}L{}:", text.empty() ? "" : "\n", layer);
    for (const auto& set : sets)
      text += fmt::format("{} {}", &set == &sets.front() ? "" : " |", fmt::join(set, " "));
  }
  return text;
}

Status check_covered(const std::vector<ExpertGroup>& groups, const ExpertGrid& grid,
                     const std::string& what) {
  // Reports only the first layer with a gap: a gap in the groups can recur in every layer.
  for (const int64_t layer : grid.layers) {
    ExpertSets missing;
    for (int64_t expert = 0; expert < grid.experts; ++expert)
      if (std::none_of(groups.begin(), groups.end(),
                       [&](const ExpertGroup& group) { return group.experts.has(layer, expert); }))
        missing.layers[layer].push_back(expert);
    // No group has the missing experts, although the router can choose them.
    if (!missing.layers.empty())
      return fail(
          "experts.uncovered",
          fmt::format("{}: {} {} in no group", what, to_string(missing),
                      missing.layers[layer].size() == 1 ? "is" : "are"),
          "add these experts to a group, or exclude them from the model with --expert-mask");
  }
  return {};
}

}  // namespace moec
