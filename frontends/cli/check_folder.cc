#include "frontends/cli/check_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "backends/onnx/check_onnx.h"
#include "frontends/cli/describe_export.h"
#include "frontends/cli/read_shard.h"
#include "ir/cost.h"
#include "ir/target_rules.h"
#include "ir/verify.h"

namespace moec {
namespace {

void append(Diagnostics& to, Diagnostics from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

Diagnostic finding(std::string code, std::string cause, const manifest::Shard& shard,
                   const std::string& file) {
  return {Severity::error,
          std::move(code),
          std::move(cause),
          "the file is not the one that the manifest describes: export again",
          {.shard = shard.name, .file = file}};
}

// The file's ports, one by one, against the manifest's.
void check_ports(const manifest::Shard& shard, const std::vector<manifest::Port>& described,
                 const std::vector<manifest::Port>& found, const std::string& file,
                 Diagnostics& findings) {
  if (described.size() != found.size())
    findings.push_back(finding(
        "check.ports",
        fmt::format("the manifest lists {} ports, the file has {}", described.size(), found.size()),
        shard, file));
  for (const manifest::Port& port : described) {
    auto same = [&](const manifest::Port& other) { return other == port; };
    if (std::none_of(found.begin(), found.end(), same))
      findings.push_back(finding(
          "check.ports",
          fmt::format("port {} of type {} is not in the file", port.name, to_string(port.type())),
          shard, file));
  }
}

// Each declared expert must have its three projections in an unrolled graph: a weight that fell out
// of the graph is an expert lost.
void check_experts(const manifest::Shard& shard, const Shard& body, const std::string& file,
                   Diagnostics& findings) {
  for (int64_t e = shard.first_expert; e < shard.first_expert + shard.experts; ++e) {
    const std::string prefix = fmt::format("experts.{}.", e);
    int64_t projections = 0;
    for (const Op& op : body.ops)
      projections += std::holds_alternative<Weight>(op.data) &&
                     body.values[op.results[0]].name.starts_with(prefix);
    if (projections != 3)
      findings.push_back(
          finding("check.expert_missing",
                  fmt::format("expert {} has {} of its 3 projections in the graph", e, projections),
                  shard, file));
  }
}

class Checker {
 public:
  Checker(std::string folder, const Target& target, CheckReport& report)
      : folder_(std::move(folder)), target_(target), report_(report) {}

  void check_shard(const manifest::Shard& shard) {
    CheckedShard checked;
    checked.name = shard.name;
    for (const manifest::Width& width : shard.widths) check_width(shard, width, checked);
    report_.shards.push_back(std::move(checked));
  }

 private:
  void check_width(const manifest::Shard& shard, const manifest::Width& width,
                   CheckedShard& checked) {
    const std::string path = folder_ + "/" + width.file.path;
    if (report_.manifest.build.format == ShardFormat::onnx)
      if (Status status = check_onnx_file(path); !status)
        return append(report_.findings, std::move(status.error()));
    auto file = read_shard(report_.manifest, folder_, width);
    if (!file) return append(report_.findings, std::move(file.error()));
    const Shard& body = file->shard;
    append(report_.findings, verify(body));
    check_ports(shard, width.inputs, ports_of(body, true), path, report_.findings);
    check_ports(shard, width.outputs, ports_of(body, false), path, report_.findings);
    if (report_.manifest.build.experts == "unrolled" && shard.experts > 0)
      check_experts(shard, body, path, report_.findings);
    if (const int64_t bytes = weight_bytes(body); bytes != shard.weight_bytes)
      report_.findings.push_back(finding("check.weight_bytes",
                                         fmt::format("the graph holds {} bytes of weights, the "
                                                     "manifest says {}",
                                                     bytes, shard.weight_bytes),
                                         shard, path));
    place(body, path);
    checked.peak_activation_bytes = peak_activation_bytes(body);
    if (!checked.placement.empty()) return;
    checked.ops = static_cast<int64_t>(body.ops.size());
    checked.weight_bytes = weight_bytes(body);
    checked.placement = predict_placement(body, target_);
  }

  void place(const Shard& body, const std::string& path) {
    for (const auto& [op, rule] : find_breaches(target_, body)) {
      if (rule->severity != Severity::error) continue;
      report_.findings.push_back(
          {Severity::error,
           "target." + rule->id,
           rule->reason,
           "export for another target or in another form",
           {.shard = body.name, .op = std::string(mnemonic(body.ops[op].data)), .file = path}});
    }
  }

  std::string folder_;
  const Target& target_;
  CheckReport& report_;
};

}  // namespace

Result<CheckReport> check_folder(const std::string& folder, const Target& target,
                                 const CheckOptions& options) {
  CheckReport report;
  MOEC_ASSIGN(report.manifest, read_manifest(folder));
  report.findings = verify_files(report.manifest, folder, options.digests);
  Checker checker(folder, target, report);
  for (const manifest::Shard& shard : report.manifest.shards) checker.check_shard(shard);
  return report;
}

}  // namespace moec
