#include "frontends/check/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/base/regular_file.h"

namespace moec {
namespace {

using nlohmann::json;

constexpr std::string_view kMeasuredFormat = "moec-measured-placement";
constexpr int64_t kVersion = 1;
constexpr std::string_view kNeuralEngine = "neural_engine";
constexpr std::string_view kNextStep = "write it again with scripts/confirm_on_mac.py";

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  tl::unexpected<Diagnostics> bad(std::string_view field, std::string_view what) const {
    return fail("measured.field", fmt::format("field \"{}\" {}", field, what),
                std::string(kNextStep), {.file = file_});
  }

  template <class T>
  Status take(const json& object, const char* field, T& out) const {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (!object.is_object() || found == object.end()) return bad(field, "is missing");
    if constexpr (std::is_same_v<T, std::string>) {
      if (!found->is_string()) return bad(field, "must be a string");
    } else if (!found->is_number_integer()) {
      return bad(field, "must be a whole number");
    }
    out = found->get<T>();
    return {};
  }

  Result<const json*> list(const json& object, const char* field) const {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_array())
      return bad(field, "must be a list");
    return &*found;
  }

  // Null where Core ML names no device.
  Status take_device(const json& object, std::string& out) const {
    if (object.is_object() && object.contains("preferred") && object["preferred"].is_null())
      return {};
    return take(object, "preferred", out);
  }

  Result<MeasuredGraph> graph(const json& object) const {
    MeasuredGraph graph;
    MOEC_TRY(take(object, "shard", graph.shard));
    MOEC_TRY(take(object, "digest", graph.digest));
    MOEC_TRY(take(object, "tokens", graph.tokens));
    MOEC_ASSIGN(const json* ops, list(object, "ops"));
    for (const json& item : *ops) {
      MeasuredOp op;
      MOEC_TRY(take(item, "name", op.name));
      MOEC_TRY(take(item, "op", op.op));
      MOEC_TRY(take_device(item, op.preferred));
      graph.ops.push_back(std::move(op));
    }
    return graph;
  }

  Result<Measured> measured(const json& object) const {
    std::string format;
    int64_t version = 0;
    MOEC_TRY(take(object, "format", format));
    if (format != kMeasuredFormat)
      return bad("format", fmt::format("is not \"{}\"", kMeasuredFormat));
    MOEC_TRY(take(object, "version", version));
    if (version != kVersion) return bad("version", fmt::format("is not {}", kVersion));
    Measured measured;
    const json machine = object.value("machine", json());
    MOEC_TRY(take(machine, "chip", measured.chip));
    MOEC_TRY(take(machine, "macos", measured.macos));
    MOEC_TRY(take(machine, "coremltools", measured.coremltools));
    MOEC_ASSIGN(const json* graphs, list(object, "graphs"));
    for (const json& item : *graphs) {
      MOEC_ASSIGN(MeasuredGraph read, graph(item));
      measured.graphs.push_back(std::move(read));
    }
    return measured;
  }

 private:
  std::string file_;
};

// Ops of a package that no op of the shard stands for.
bool is_added(const MeasuredOp& op) {
  const std::string kind = op.op.substr(op.op.rfind('.') + 1);
  return kind == "const" || kind == "identity" || kind.starts_with("constexpr");
}

class LogComparer {
 public:
  explicit LogComparer(const CheckReport& report) : report_(report) {}

  Status compare(const MeasuredGraph& graph) {
    MOEC_ASSIGN(const CheckedWidth* width, find(graph));
    std::map<std::string_view, const PlacedOp*> by_name;
    for (const PlacedOp& op : width->placement.ops) by_name[op.file_name] = &op;
    for (const MeasuredOp& op : graph.ops) {
      if (is_added(op)) {
        ++result_.unknown;
        continue;
      }
      const auto placed = by_name.find(op.name);
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
      return fail("measured.unknown_shard", "the export has no such shard",
                  "give the measured.json of this export", {.shard = graph.shard});
    for (const manifest::Width& width : described->widths)
      if (width.tokens == graph.tokens && width.file.digest == graph.digest)
        for (const CheckedWidth& read : checked->widths)
          if (read.tokens == graph.tokens) return &read;
    return fail("measured.other_export",
                fmt::format("it was measured with a file of digest {} for {} tokens, which is not "
                            "this export's",
                            graph.digest, graph.tokens),
                "give the measured.json of this export", {.shard = graph.shard});
  }

  void add(const MeasuredGraph& graph, const MeasuredOp& op, const PlacedOp& placed) {
    if (op.preferred.empty()) {
      ++result_.unknown;
      return;
    }
    const bool predicted = placed.unit == report_.target.unit;
    const bool agrees = predicted == (op.preferred == kNeuralEngine);
    if (!placed.rule.empty()) {
      RuleScore& score = result_.rules[placed.rule];
      ++(agrees ? score.confirmed : score.contradicted);
    }
    if (agrees)
      ++result_.agreed;
    else
      result_.differences.push_back({graph.shard, placed.name, placed.op, graph.tokens, placed.unit,
                                     placed.rule, op.preferred, predicted});
  }

  const CheckReport& report_;
  PlacementComparison result_;
};

}  // namespace

bool PlacementComparison::is_worse() const {
  return std::any_of(differences.begin(), differences.end(),
                     [](const Difference& difference) { return difference.is_worse; });
}

Result<Measured> parse_measured(std::string_view text, const std::string& file) {
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded())
    return fail("measured.syntax", "this is not JSON", std::string(kNextStep), {.file = file});
  return Reader(file).measured(object);
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

}  // namespace moec
