#include "models/cluster/cluster_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/base/json_fields.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"
#include "ir/experts/expert_id.h"

namespace moec {
namespace {

// Bounds that no machine exceeds. They keep times and their sums finite and above 0.
constexpr double kMaxTeraflops = 1e9, kMaxLatencyMs = 1e6;

// Parses "936GB/s" or "10Gbit/s"; returns bytes/s. The unit has the case of the sizes in
// parse_bytes(): kbit, Mbit, Gbit, Tbit.
std::optional<double> parse_rate(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s", kBit = "bit";
  if (!text.ends_with(kPerSecond)) return std::nullopt;
  text.remove_suffix(kPerSecond.size());
  if (!text.ends_with(kBit)) {
    // parse_bytes() accepts numbers without a unit, but "936/s" is probably a mistake.
    const auto bytes = text.ends_with('B') ? parse_bytes(text) : std::nullopt;
    return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
  }
  text.remove_suffix(kBit.size());
  // "10G" is not a size of parse_bytes(), but "10GB" is.
  const auto bits = parse_bytes(std::string(text) + "B");
  return bits ? std::optional(static_cast<double>(*bits) / 8) : std::nullopt;
}

class ClusterReader {
 public:
  Result<std::vector<ClusterNode>> read(JsonFields& fields) {
    MOEC_TRY(fields.each("nodes", [&](JsonFields& node) { return read_node(node); }));
    if (nodes_.empty()) return fields.bad("nodes", "is empty");
    MOEC_TRY(fields.finish());
    return std::move(nodes_);
  }

 private:
  Status read_node(JsonFields& fields) {
    ClusterNode node;
    MOEC_TRY(fields.text("name", node.name));
    if (node.name.empty()) return fields.bad("name", "must not be empty");
    if (!names_.insert(node.name).second) return fields.bad("name", "is used by another node");
    MOEC_TRY(read_memory(fields, node.memory));
    MOEC_TRY(read_rate(fields, "bandwidth", node.bandwidth));
    MOEC_TRY(read_rate(fields, "link", node.link));
    MOEC_TRY(read_amount(fields, "tflops", kMaxTeraflops, node.flops));
    node.flops *= 1e12;
    if (fields.has("latency_ms") && node.link == 0)
      return fields.bad("latency_ms", "requires the field \"link\"");
    MOEC_TRY(read_amount(fields, "latency_ms", kMaxLatencyMs, node.latency));
    node.latency /= 1e3;
    if (fields.has("min_experts")) {
      MOEC_TRY(fields.positive("min_experts", node.min_experts));
      if (node.min_experts > kMaxExperts)
        return fields.bad("min_experts", fmt::format("must be at most {}", kMaxExperts));
    }
    // A forecast of some nodes only would look like one of all nodes.
    if (!nodes_.empty()) {
      MOEC_TRY(same(fields, "bandwidth", nodes_.front().bandwidth, node.bandwidth));
      MOEC_TRY(same(fields, "link", nodes_.front().link, node.link));
    }
    nodes_.push_back(std::move(node));
    return fields.finish();
  }

  static Status read_memory(JsonFields& fields, int64_t& out) {
    std::string text;
    MOEC_TRY(fields.text("memory", text));
    const auto bytes = parse_bytes(text);
    if (!bytes) return fields.bad("memory", "must be a positive size, such as \"24GB\"");
    out = *bytes;
    return {};
  }

  static Status read_rate(JsonFields& fields, std::string_view name, double& out) {
    if (!fields.has(name)) return {};
    std::string text;
    MOEC_TRY(fields.text(name, text));
    const auto rate = parse_rate(text);
    if (!rate)
      return fields.bad(name, "must be a positive rate, such as \"936GB/s\" or \"10Gbit/s\"");
    out = *rate;
    return {};
  }

  static Status read_amount(JsonFields& fields, std::string_view name, double most, double& out) {
    if (!fields.has(name)) return {};
    MOEC_TRY(fields.number(name, out));
    // A negated comparison, so that NaN fails.
    if (!(out > 0 && out <= most))
      return fields.bad(name, fmt::format("is {}, must be above 0 and at most {}", out, most));
    return {};
  }

  static Status same(const JsonFields& fields, std::string_view name, double first, double own) {
    if ((first > 0) == (own > 0)) return {};
    return fields.bad(name, own > 0 ? "is given, but the first node lacks it"
                                    : "is missing, but the first node has it");
  }

  std::vector<ClusterNode> nodes_;
  std::set<std::string> names_;
};

}  // namespace

Result<std::vector<ClusterNode>> parse_cluster_nodes(std::string_view text,
                                                     const std::string& file) {
  const JsonReport report(
      text, file,
      JsonCodes::by_prefix("cluster", "see the file of nodes in models/plan/README.md"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return ClusterReader().read(fields);
}

Result<std::vector<ClusterNode>> read_cluster_nodes(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "cluster.file"));
  return parse_cluster_nodes(text, path);
}

}  // namespace moec
