#include "ir/experts/probe_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr std::string_view kTableFormat = "moec.probe_table";
constexpr int64_t kTableVersion = 1;
constexpr double kRounding = 1e-4;  // tolerance for sums of shares with six digits each

std::string numbers_text(const std::vector<double>& values) {
  std::string text;
  // Six digits are enough for shares and keep the file small; kRounding covers their rounding.
  for (const double value : values)
    text += fmt::format("{}{:.6g}", text.empty() ? "" : ", ", value);
  return "[" + text + "]";
}

std::string category_row(const ProbeCategory& category) {
  std::vector<std::string> layers;
  for (const std::vector<double>& shares : category.routing) layers.push_back(numbers_text(shares));
  return fmt::format(
      "    {{\"name\": {}, \"documents\": {},\n     \"kept\": {},\n     \"log_probability\": {},\n"
      "     \"regret\": {},\n     \"routing\": [\n      {}]}}",
      json_string(category.name), category.documents, numbers_text(category.kept),
      numbers_text(category.log_probability), numbers_text(category.regret),
      fmt::join(layers, ",\n      "));
}

// Returns the squared Euclidean distance; the nearest category does not need the root.
double distance(const RoutingShares& a, const RoutingShares& b) {
  double sum = 0;
  for (size_t layer = 0; layer < a.size(); ++layer)
    for (size_t e = 0; e < a[layer].size(); ++e)
      sum += (a[layer][e] - b[layer][e]) * (a[layer][e] - b[layer][e]);
  return sum;
}

class TableReader {
 public:
  TableReader(const ExpertGrid& grid, std::vector<ExpertGroup> groups) : grid_(grid) {
    table_.groups = std::move(groups);
  }

  Result<ProbeTable> read(JsonFields& fields) {
    MOEC_TRY(read_head(fields));
    MOEC_TRY(fields.each("categories", [&](JsonFields& item) { return read_category(item); }));
    MOEC_TRY(fields.value("groups"));  // already parsed as expert groups
    MOEC_TRY(fields.finish());
    if (table_.categories.empty()) return fields.bad("categories", "must have at least one");
    return std::move(table_);
  }

 private:
  Status read_head(JsonFields& fields) {
    MOEC_TRY(fields.form(kTableFormat, kTableVersion));
    MOEC_TRY(fields.positive("prefill", table_.prefill));
    MOEC_TRY(fields.integers("layers", table_.layers));
    MOEC_TRY(fields.positive("experts", table_.experts));
    // Routing shares are measured per layer and expert, so the model must have the same ones.
    if (table_.layers != grid_.layers)
      return fields.bad("layers", fmt::format("must be the MoE layers of the model, {}",
                                              fmt::join(grid_.layers, ", ")));
    if (table_.experts != grid_.experts)
      return fields.bad("experts", fmt::format("must be {}, as in the model", grid_.experts));
    return {};
  }

  Status read_category(JsonFields& fields) {
    ProbeCategory category;
    MOEC_TRY(fields.text("name", category.name));
    MOEC_TRY(fields.positive("documents", category.documents));
    const auto same = [&](const ProbeCategory& other) { return other.name == category.name; };
    if (std::any_of(table_.categories.begin(), table_.categories.end(), same))
      return fields.bad(
          "name", fmt::format("is '{}', the name of another category", printable(category.name)));
    MOEC_TRY(read_routing(fields, category.routing));
    // `kept` has shares of `routing`, which lie between 0 and 1.
    MOEC_TRY(read_groups(fields, "kept", 0, 1, category.kept));
    MOEC_TRY(read_groups(fields, "log_probability", kLowest, 0, category.log_probability));
    // The best group of a document has regret 0, so no regret is negative.
    MOEC_TRY(read_groups(fields, "regret", 0, -kLowest, category.regret));
    MOEC_TRY(fields.finish());
    table_.categories.push_back(std::move(category));
    return {};
  }

  // Reads a list of lists, which JsonFields does not support.
  Status read_routing(JsonFields& fields, RoutingShares& routing) const {
    MOEC_ASSIGN(const JsonValue* value, fields.value("routing"));
    const JsonValue::Array* layers = value->array();
    if (layers == nullptr || layers->size() != table_.layers.size())
      return fields.bad("routing",
                        fmt::format("must have {} lists, one per layer", table_.layers.size()));
    for (const JsonValue& layer : *layers)
      if (!read_shares(layer, routing.emplace_back()))
        return fields.bad(
            "routing",
            fmt::format("must have lists of {} shares of at least 0 with a sum of at most 1",
                        table_.experts));
    return {};
  }

  // Returns false if the value is not a list of shares.
  bool read_shares(const JsonValue& layer, std::vector<double>& shares) const {
    if (layer.array() == nullptr || std::ssize(*layer.array()) != table_.experts) return false;
    double sum = 0;
    for (const JsonValue& share : *layer.array()) {
      // A value that is not a number becomes −1, which the check below refuses.
      shares.push_back(share.number().value_or(-1));
      // Negated, so that NaN is refused, too.
      if (!(shares.back() >= 0)) return false;
      sum += shares.back();
    }
    return sum <= 1 + kRounding;
  }

  Status read_groups(JsonFields& fields, std::string_view name, double least, double most,
                     std::vector<double>& out) const {
    MOEC_TRY(fields.numbers(name, out));
    if (out.size() != table_.groups.size())
      return fields.bad(name,
                        fmt::format("must have {} numbers, one per group", table_.groups.size()));
    // Comparisons with NaN are false, so NaN does not fit.
    const auto fits = [&](double value) {
      return value >= least - kRounding && value <= most + kRounding;
    };
    if (!std::all_of(out.begin(), out.end(), fits))
      return fields.bad(name, fmt::format("must be finite and from {:g} to {:g}", least, most));
    return {};
  }

  static constexpr double kLowest = -1e6;  // nats per token

  const ExpertGrid& grid_;
  ProbeTable table_;
};

}  // namespace

const ProbeCategory& nearest_category(const ProbeTable& table, const RoutingShares& routing) {
  // min_element() returns the first of equal distances, so the result is deterministic.
  return *std::min_element(table.categories.begin(), table.categories.end(),
                           [&](const ProbeCategory& a, const ProbeCategory& b) {
                             return distance(a.routing, routing) < distance(b.routing, routing);
                           });
}

std::string probe_table_text(const ProbeTable& table) {
  std::vector<std::string> groups, categories;
  for (const ExpertGroup& group : table.groups)
    groups.push_back(fmt::format(R"(    {{"name": {}, "experts": {}}})", json_string(group.name),
                                 json_string(to_string(group.experts))));
  for (const ProbeCategory& category : table.categories)
    categories.push_back(category_row(category));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"prefill\": {},\n  \"layers\": [{}],\n"
      "  \"experts\": {},\n  \"groups\": [\n{}\n  ],\n  \"categories\": [\n{}\n  ]\n}}\n",
      kTableFormat, kTableVersion, table.prefill, fmt::join(table.layers, ", "), table.experts,
      fmt::join(groups, ",\n"), fmt::join(categories, ",\n"));
}

static JsonReport report_of(std::string_view text, const std::string& file) {
  return JsonReport(
      text, file,
      JsonCodes::by_prefix("probe_table", "measure it again: moec probe OUT --groups … --write"));
}

Result<ProbeTable> parse_probe_table(std::string_view text, const std::string& file,
                                     const ExpertGrid& grid) {
  MOEC_ASSIGN(std::vector<ExpertGroup> groups, parse_expert_groups(text, file, grid));
  // A probe selects a single group, which must have enough experts for every token.
  for (const ExpertGroup& group : groups)
    MOEC_TRY(check_enough(group.experts, grid, fmt::format("{}: group {}", file, group.name)));
  const JsonReport report = report_of(text, file);
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return TableReader(grid, std::move(groups)).read(fields);
}

Result<ProbeTable> read_probe_table(const std::string& path, const ExpertGrid& grid) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "probe_table.file"));
  return parse_probe_table(text, path, grid);
}

Result<ProbeTable> read_any_probe_table(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "probe_table.file"));
  const JsonReport report = report_of(text, path);
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  ExpertGrid grid;
  MOEC_TRY(fields.integers("layers", grid.layers));
  MOEC_TRY(fields.positive("experts", grid.experts));
  return parse_probe_table(text, path, grid);
}

}  // namespace moec
