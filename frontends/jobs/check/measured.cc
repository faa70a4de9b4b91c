#include "frontends/jobs/check/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

constexpr std::string_view kMeasuredFormat = "moec-measured-placement";
constexpr int64_t kVersion = 1;
// The name that confirm_on_mac.py writes, which differs from the name of the target's unit.
constexpr std::string_view kNeuralEngine = "neural_engine";
constexpr std::string_view kNextStep =
    "run moec confirm again, or scripts/confirm_on_mac.py on a Mac";

JsonCodes codes() {
  JsonCodes codes = JsonCodes::all_as("measured.field", std::string(kNextStep));
  // A broken file is a syntax error; everything else is a wrong field.
  codes.syntax = codes.duplicate_key = "measured.syntax";
  return codes;
}

// Allows for large graphs: each op has three values.
constexpr JsonLimits kJsonLimits{.bytes = kMaxUserTextBytes, .values = 8 << 20};

Result<MeasuredOp> read_op(JsonFields& fields) {
  MeasuredOp op;
  MOEC_TRY(fields.text("name", op.name));
  MOEC_TRY(fields.text("op", op.op));
  // `preferred` is null if Core ML reports no device.
  if (!fields.is_null("preferred")) MOEC_TRY(fields.text("preferred", op.preferred));
  if (fields.has("message")) MOEC_TRY(fields.text("message", op.message));
  return op;
}

Result<MeasuredGraph> read_graph(JsonFields& fields) {
  MeasuredGraph graph;
  MOEC_TRY(fields.text("shard", graph.shard));
  MOEC_TRY(fields.text("digest", graph.digest));
  MOEC_TRY(fields.integer("tokens", graph.tokens));
  // The tools omit optional fields, whose defaults mean "not reported".
  if (fields.has("function")) MOEC_TRY(fields.text("function", graph.function));
  if (fields.has("error")) MOEC_TRY(fields.text("error", graph.error));
  if (fields.has("cosine")) MOEC_TRY(fields.number("cosine", graph.cosine.emplace()));
  MOEC_TRY(fields.each("ops", [&](JsonFields& item) -> Status {
    MOEC_ASSIGN(graph.ops.emplace_back(), read_op(item));
    return {};
  }));
  return graph;
}

Status check_format(JsonFields& fields) {
  std::string format;
  int64_t version = 0;
  MOEC_TRY(fields.text("format", format));
  if (format != kMeasuredFormat)
    return fields.bad("format", fmt::format("must be \"{}\"", kMeasuredFormat));
  MOEC_TRY(fields.integer("version", version));
  if (version != kVersion) return fields.bad("version", fmt::format("must be {}", kVersion));
  return {};
}

// Reads the engine. Files of Core ML have the versions of macOS and coremltools; other files have
// the version of the engine.
Status read_machine(JsonFields& machine, Measured& measured) {
  MOEC_TRY(machine.text("chip", measured.chip));
  std::string version;
  if (machine.has("engine")) {
    MOEC_TRY(machine.text("engine", measured.engine));
    MOEC_TRY(machine.text("version", version));
    measured.engine += " " + version;
    return machine.text("packages", measured.tools);
  }
  MOEC_TRY(machine.text("macos", version));
  measured.engine = "Core ML of macOS " + version;
  MOEC_TRY(machine.text("coremltools", version));
  measured.tools = "coremltools " + version;
  return {};
}

Result<Measured> read_fields(JsonFields fields) {
  MOEC_TRY(check_format(fields));
  Measured measured;
  MOEC_ASSIGN(JsonFields machine, fields.object("machine"));
  MOEC_TRY(read_machine(machine, measured));
  MOEC_TRY(fields.each("graphs", [&](JsonFields& item) -> Status {
    MOEC_ASSIGN(measured.graphs.emplace_back(), read_graph(item));
    return {};
  }));
  return measured;
}

// True for ops that emitters add and that have no counterpart in the shard.
bool is_added(const MeasuredOp& op) {
  static constexpr std::array<std::string_view, 5> kAdded = {"const", "identity", "Identity",
                                                             "Expand", "DequantizeLinear"};
  // Core ML prefixes kinds with the opset, such as "ios17.conv".
  const std::string kind = op.op.substr(op.op.rfind('.') + 1);
  // Core ML has several ops of constants, such as constexpr_lut_to_dense.
  return kind.starts_with("constexpr") ||
         std::find(kAdded.begin(), kAdded.end(), kind) != kAdded.end();
}

class LogComparer {
 public:
  explicit LogComparer(const CheckReport& report) : report_(report) {
    // Counts only ops with a name in the file, because only these can be measured.
    for (const CheckedShard& shard : report.shards)
      for (const CheckedWidth& width : shard.widths)
        result_.ops += std::count_if(width.placement.ops.begin(), width.placement.ops.end(),
                                     [](const PlacedOp& op) { return !op.file_name.empty(); });
  }

  Status compare(const MeasuredGraph& graph) {
    MOEC_ASSIGN(const CheckedWidth* width, find(graph));
    note(graph);
    std::map<std::string_view, const PlacedOp*> by_name;
    for (const PlacedOp& op : width->placement.ops)
      if (!op.file_name.empty()) by_name[op.file_name] = &op;
    note_replaced(graph, by_name);
    for (const MeasuredOp& op : graph.ops) {
      const auto placed = by_name.find(op.name);
      if (placed == by_name.end() && is_added(op)) {
        ++result_.unknown;
        continue;
      }
      if (placed == by_name.end())
        return fail("measured.unknown_op",
                    fmt::format("op \"{}\" ({}) is not in the shard", op.name, op.op),
                    std::string(kNextStep), {.shard = graph.shard, .file = width->file});
      add(graph, op, *placed->second);
    }
    return {};
  }

  PlacementComparison take() { return std::move(result_); }

 private:
  Result<const CheckedWidth*> find(const MeasuredGraph& graph) const {
    const manifest::Shard* described = report_.manifest.find_shard(graph.shard);
    const auto checked =
        std::find_if(report_.shards.begin(), report_.shards.end(),
                     [&](const CheckedShard& shard) { return shard.name == graph.shard; });
    if (!described || checked == report_.shards.end())
      return fail("measured.unknown_shard", "the export has no shard with this name",
                  "pass the measured.json of this export", {.shard = graph.shard});
    for (const CheckedWidth& read : checked->widths) {
      const manifest::Width& width = described->widths[read.index];
      // The digest identifies the file, because shards of different exports may share names and
      // widths. Functions of one file have the same digest, so the name distinguishes them.
      if (width.tokens == graph.tokens && width.file.digest == graph.digest &&
          (graph.function.empty() || width.function == graph.function))
        return &read;
    }
    return fail("measured.other_export",
                fmt::format("the measured file has digest {} for {} tokens, which is not from "
                            "this export",
                            graph.digest, graph.tokens),
                "pass the measured.json of this export", {.shard = graph.shard});
  }

  // Counts ops of a compiled file that the measurement does not list.
  void note_replaced(const MeasuredGraph& graph,
                     const std::map<std::string_view, const PlacedOp*>& by_name) {
    // A rejected file lists no ops; counting them as replaced would hide the rejection.
    if (!graph.error.empty()) return;
    std::set<std::string_view> listed;
    for (const MeasuredOp& op : graph.ops)
      if (by_name.contains(op.name)) listed.insert(op.name);
    const auto replaced = std::ssize(by_name) - std::ssize(listed);
    result_.replaced += replaced;
    // Replaced ops leave the total, because nothing was measured for them.
    result_.ops -= replaced;
  }

  void note(const MeasuredGraph& graph) {
    if (!graph.error.empty()) result_.refused.push_back(&graph);
    const MeasuredGraph*& farthest = result_.farthest;
    // Keeps the smallest cosine, which is the worst output.
    if (graph.cosine && (farthest == nullptr || *graph.cosine < *farthest->cosine))
      farthest = &graph;
  }

  void add(const MeasuredGraph& graph, const MeasuredOp& op, const PlacedOp& placed) {
    if (op.preferred.empty()) {
      ++result_.unknown;
      return;
    }
    const bool predicted = placed.unit == report_.target.unit;
    // Accepts both names, because tools other than confirm_on_mac.py report the target's name.
    const bool on_unit = op.preferred == kNeuralEngine || op.preferred == report_.target.unit;
    const bool agrees = predicted == on_unit;
    result_.confirmed += on_unit;
    // An op without a rule runs on the target's unit by default, so it scores no rule.
    if (!placed.rule.empty()) {
      RuleScore& score = result_.rules[placed.rule];
      ++(agrees ? score.confirmed : score.contradicted);
    }
    if (agrees)
      ++result_.agreed;
    else
      // A difference is worse only if the prediction was the unit.
      result_.differences.push_back({graph.shard, placed.name, placed.op, graph.tokens, placed.unit,
                                     placed.rule, op.preferred, op.message, predicted});
  }

  const CheckReport& report_;
  PlacementComparison result_;
};

}  // namespace

bool PlacementComparison::is_worse() const {
  return !refused.empty() ||
         std::any_of(differences.begin(), differences.end(),
                     [](const Difference& difference) { return difference.is_worse; });
}

Result<Measured> parse_measured(std::string_view text, const std::string& file) {
  const JsonReport report(text, file, codes());
  MOEC_ASSIGN(const JsonValue root, report.parse(kJsonLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  return read_fields(std::move(fields));
}

Result<Measured> read_measured(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "measured.open"));
  return parse_measured(text, path);
}

Result<PlacementComparison> compare_placement(const CheckReport& report, const Measured& measured) {
  LogComparer comparer(report);
  for (const MeasuredGraph& graph : measured.graphs) MOEC_TRY(comparer.compare(graph));
  return comparer.take();
}

using nlohmann::ordered_json;

ordered_json measured_json(const PlacementComparison& comparison, const Measured& measured) {
  auto differences = ordered_json::array();
  for (const Difference& found : comparison.differences)
    differences.push_back({{"shard", found.shard},
                           {"tokens", found.tokens},
                           {"op", found.op},
                           {"kind", found.kind},
                           {"predicted", found.predicted},
                           {"rule", found.rule},
                           {"measured", found.measured},
                           {"message", found.message}});
  auto rules = ordered_json::object();
  for (const auto& [rule, score] : comparison.rules)
    rules[rule] = {{"confirmed", score.confirmed}, {"contradicted", score.contradicted}};
  auto refused = ordered_json::array();
  for (const MeasuredGraph* graph : comparison.refused)
    refused.push_back(
        {{"shard", graph->shard}, {"tokens", graph->tokens}, {"error", graph->error}});
  ordered_json json = {
      {"machine",
       {{"chip", measured.chip}, {"engine", measured.engine}, {"tools", measured.tools}}},
      {"ops", comparison.ops},
      {"confirmed", comparison.confirmed},
      {"agreed", comparison.agreed},
      {"unknown", comparison.unknown},
      {"replaced", comparison.replaced},
      {"refused", refused},
      {"differences", differences},
      {"rules", rules}};
  if (comparison.farthest != nullptr) json["least_cosine"] = *comparison.farthest->cosine;
  return report_json(!comparison.is_worse(), json);
}

}  // namespace moec
