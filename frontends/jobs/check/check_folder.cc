#include "frontends/jobs/check/check_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "backends/coverage/check_weights.h"
#include "backends/formats/format.h"
#include "backends/formats/read_shard.h"
#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/from_shard.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "backends/targets/find_target.h"
#include "backends/targets/load_target.h"
#include "frontends/jobs/check/check_gguf.h"
#include "ir/analysis/cost.h"
#include "ir/base/byte_text.h"
#include "ir/experts/probe_table.h"
#include "ir/verify/verify.h"

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
          "export the model again",
          {.shard = shard.name, .file = file}};
}

// Compares the ports of a file with those that the manifest lists.
void check_ports(const manifest::Shard& shard, const std::vector<manifest::Port>& described,
                 const std::vector<manifest::Port>& found, const std::string& file,
                 Diagnostics& findings) {
  // Different counts are reported in addition to missing ports, because surplus ports of the file
  // are not searched for.
  if (described.size() != found.size())
    findings.push_back(finding("check.ports",
                               fmt::format("the manifest lists {} ports, but the file has {}",
                                           described.size(), found.size()),
                               shard, file));
  for (const manifest::Port& port : described) {
    auto same = [&](const manifest::Port& other) { return other == port; };
    if (std::none_of(found.begin(), found.end(), same))
      findings.push_back(
          finding("check.ports",
                  fmt::format("the manifest lists port {} of type {}, which the file lacks",
                              port.name, to_string(port.type())),
                  shard, file));
  }
}

ShardFacts facts_of(const manifest::Shard& shard, const manifest::Width& width, const Shard& body) {
  // Token limits apply to the widest graph, which is the last of `widths`.
  ShardFacts facts{.kind = shard.kind, .tokens = shard.widths.back().tokens};
  const auto in_file = std::count_if(
      shard.widths.begin(), shard.widths.end(),
      [&](const manifest::Width& other) { return other.file.path == width.file.path; });
  // Without functions, a file that serves several widths accepts a range of token counts.
  if (!width.function.empty()) facts.functions = in_file;
  facts.ranged = width.function.empty() && in_file > 1;
  facts.weight_bytes = filed_weight_bytes(body);
  return facts;
}

class Checker {
 public:
  Checker(std::string folder, CheckReport& report, const CheckOptions& options)
      : folder_(std::move(folder)),
        report_(report),
        options_(options),
        weights_(report.manifest, folder_, options.digests) {}

  void check_shard(const manifest::Shard& shard) {
    CheckedShard checked;
    checked.name = shard.name;
    checked.kind = shard.kind;
    for (size_t width = 0; width < shard.widths.size(); ++width)
      // WeightCheck reports the experts of an unreadable graph as unreadable instead of missing.
      if (!check_width(shard, width, checked)) weights_.cannot_read(shard, width);
    note_undecided(checked);
    check_coverage(checked);
    check_budget(checked);
    note_overflows(shard);
    report_.coverage += checked.coverage;
    report_.shards.push_back(std::move(checked));
  }

  void finish() { append(report_.findings, weights_.finish()); }

 private:
  // Checks one file; returns false if its graph cannot be read.
  bool check_width(const manifest::Shard& shard, size_t index, CheckedShard& checked) {
    const manifest::Width& width = shard.widths[index];
    const std::string path = folder_ + "/" + width.file.path;
    const Format& format = format_of(report_.manifest.build.format);
    if (format.check)
      if (Status status = format.check(path); !status)
        return append(report_.findings, std::move(status.error())), false;
    auto file = read_shard(report_.manifest, folder_, width);
    if (!file) return append(report_.findings, std::move(file.error())), false;
    const Shard& body = file->shard;
    append(report_.findings, verify(body));
    check_ports(shard, width.inputs, ports_of(body, true), path, report_.findings);
    check_ports(shard, width.outputs, ports_of(body, false), path, report_.findings);
    if (const int64_t bytes = filed_weight_bytes(body); bytes != shard.weight_bytes)
      report_.findings.push_back(finding("check.weight_bytes",
                                         fmt::format("the graph has {} bytes of weights, but the "
                                                     "manifest says {}",
                                                     bytes, shard.weight_bytes),
                                         shard, path));
    // Rules for single ops depend on the token width, so they are checked per file.
    find_broken_rules(shard, width, body);
    // `checked.widths` is empty only for the first readable width.
    if (checked.widths.empty()) find_broken_shard_rules(shard, width, body, checked);
    if (checked.widths.empty()) {
      checked.ops = std::ssize(body.ops);
      checked.weight_bytes = filed_weight_bytes(body);
      checked.placement = predict_placement(body, report_.target);
    }
    // The last file remains, which has the largest width.
    checked.peak_activation_bytes = peak_activation_bytes(body);
    PlacementReport placement = report_placement(report_.target, body);
    name_as_in_file(placement, body, file->nodes);
    checked.coverage += placement.coverage;
    checked.widths.push_back({width.tokens, width.file.path, std::move(placement), index});
    // WeightCheck compares weights across shards, so it receives every graph.
    weights_.take(shard, index, *file);
    return true;
  }

  void find_broken_rules(const manifest::Shard& shard, const manifest::Width& width,
                         const Shard& body) {
    std::map<const TargetRule*, size_t> counted;
    for (const auto& [op, rule] : find_breaches(report_.target, body)) {
      const Op& broken = body.ops[op];
      const std::string name = broken.results.empty() ? std::string(mnemonic(broken.data))
                                                      : body.label(broken.results[0]);
      // Rules are identified by address: they live in the report's target, which does not move.
      const auto [known, is_new] = counted.try_emplace(rule, report_.rules.size());
      if (!is_new && rule->severity != Severity::error)
        ++report_.rules[known->second].ops;
      else
        add({rule, shard.name, width.file.path, name, 1, rule->reason});
    }
  }

  // Checks rules about the shard as a whole for the first width only, because the result is the
  // same for all widths.
  void find_broken_shard_rules(const manifest::Shard& shard, const manifest::Width& width,
                               const Shard& body, CheckedShard& checked) {
    for (ShardBreach& breach :
         find_shard_breaches(report_.target, body, facts_of(shard, width, body))) {
      add({breach.rule, shard.name, width.file.path, "", 0,
           fmt::format("{}: {}", breach.what, breach.rule->reason)});
      if (breach.rule->severity == Severity::warning) checked.doubts.push_back(breach.rule);
    }
  }

  // A warning about the whole shard makes the unit of all its ops undecided, regardless of the
  // rules for single ops. The finding is a warning, because only a measurement can determine the
  // unit.
  void note_undecided(CheckedShard& checked) {
    if (checked.doubts.empty()) return;
    checked.coverage.doubt();
    for (CheckedWidth& width : checked.widths) width.placement.coverage.doubt();
    if (checked.coverage.ops.undecided == 0) return;
    const TargetRule& rule = *checked.doubts.front();
    // The message names only the first rule; the table and the JSON report list all of them.
    report_.findings.push_back(
        {Severity::warning,
         "check.undecided",
         fmt::format("whether {} of {} compute ops run on {} is undecided by rule {}: {}",
                     checked.coverage.ops.undecided, checked.coverage.ops.whole,
                     report_.target.unit, rule.id, rule.reason),
         fmt::format("measure the export on a device (--measured), or see the sources with "
                     "moec check --explain {}",
                     rule.id),
         {.shard = checked.name}});
  }

  void add(RuleFinding found) {
    if (found.rule->severity == Severity::error)
      report_.findings.push_back(
          {Severity::error,
           "target." + found.rule->id,
           found.what,
           "export for another target or with other options",
           {.shard = found.shard, .op = found.op, .file = folder_ + "/" + found.file}});
    report_.rules.push_back(std::move(found));
  }

  // An infinite weight makes all results that depend on it NaN or infinite.
  void note_overflows(const manifest::Shard& shard) {
    if (shard.cast_overflows == 0) return;
    report_.findings.push_back(
        {Severity::error,
         "check.cast_overflow",
         fmt::format("{} weights became infinite in {}", shard.cast_overflows,
                     dtype_name(report_.manifest.build.dtype)),
         "run moec validate to measure the effect, or export with --dtype f32",
         {.shard = shard.name}});
  }

  void check_coverage(const CheckedShard& checked) {
    const Share& ops = checked.coverage.ops;
    // Undecided ops count as covered here, because only a measurement could refute them.
    if (ops.reaches(report_.min_coverage)) return;
    report_.findings.push_back(
        {Severity::error,
         "check.coverage",
         fmt::format(
             "{} of {} compute ops ({:.1f} %) are predicted to run on {}, but at least {} % "
             "are required",
             ops.on_unit + ops.undecided, ops.whole, ops.percent() + ops.percent_undecided(),
             report_.target.unit, report_.min_coverage),
         "run moec check --ops to see the rules, or pass another limit with --min-coverage",
         {.shard = checked.name}});
  }

  // Compares the shard with the budgets that determined the cut of the model.
  void check_budget(const CheckedShard& checked) {
    for (const manifest::Budget& budget : report_.manifest.build.budgets)
      if (budget.kind == checked.kind && checked.weight_bytes > budget.bytes)
        report_.findings.push_back(
            {options_.allow_over_budget ? Severity::warning : Severity::error,
             "check.over_budget",
             fmt::format("the shard has {} of weights, above the budget of {} for kind {}",
                         decimal_bytes(checked.weight_bytes), decimal_bytes(budget.bytes),
                         enum_name(budget.kind)),
             "export without --allow-over-budget, or pass --allow-over-budget to moec check",
             {.shard = checked.name}});
  }

  std::string folder_;
  CheckReport& report_;
  const CheckOptions& options_;
  WeightCheck weights_;
};

// Counts a file once per width that lists it.
uint64_t bytes_to_check(const manifest::Shard& shard) {
  int64_t bytes = 0;
  for (const manifest::Width& width : shard.widths) bytes += width.file.bytes;
  for (const manifest::FileRef& file : shard.data) bytes += file.bytes;
  return static_cast<uint64_t>(bytes);
}

// Runtimes read manifest.bin. If manifest.json lists it, verify_files() has checked it.
void require_binary_form(const Manifest& manifest, const std::string& folder,
                         Diagnostics& findings) {
  if (manifest.binary) return;
  findings.push_back({Severity::error,
                      "manifest.no_binary",
                      "the manifest does not list manifest.bin, which runtimes read",
                      "export the model again",
                      {.file = (std::filesystem::path(folder) / kManifestJson).string()}});
}

// Checks the table of moec probe --write against the model's experts.
void check_probe_table(const Manifest& manifest, const std::string& folder, Diagnostics& findings) {
  // The table is optional: only `moec probe --write` adds it.
  if (manifest.find_side_file(kProbeTableFile) == nullptr) return;
  auto table = read_probe_table(folder + "/" + kProbeTableFile, expert_grid(manifest));
  if (!table) append(findings, std::move(table.error()));
}

// The manifest has the target's name but not its rules. The rules of a user-defined target are only
// in the user's file.
Status require_builtin(const std::string& target) {
  const auto names = builtin_target_names();
  if (std::find(names.begin(), names.end(), target) != names.end()) return {};
  return fail("check.target_file",
              fmt::format("the export was made for target \"{}\", which is not built in", target),
              "pass the target file of the export with --target FILE.json");
}

Result<Target> target_of(const Manifest& manifest, const CheckOptions& options) {
  // Only a name from the manifest must be built in; a --target of the user may be a file.
  if (options.target.empty()) MOEC_TRY(require_builtin(manifest.build.target));
  MOEC_ASSIGN(Target target,
              find_target(options.target.empty() ? manifest.build.target : options.target));
  if (options.chip.empty()) return target;
  return for_chip(std::move(target), options.chip);
}

}  // namespace

uint64_t checked_bytes(const Manifest& manifest, bool digests) {
  uint64_t bytes = 0;
  for (const manifest::Shard& shard : manifest.shards) bytes += bytes_to_check(shard);
  if (digests)
    manifest::for_each_file(manifest, [&](const manifest::FileRef& file, const std::string&) {
      bytes += static_cast<uint64_t>(file.bytes);
    });
  return bytes;
}

Result<std::unique_ptr<CheckReport>> check_folder(const std::string& folder,
                                                  const CheckOptions& options) {
  auto report = std::make_unique<CheckReport>();
  MOEC_ASSIGN(report->manifest, read_manifest(folder));
  MOEC_ASSIGN(report->target, target_of(report->manifest, options));
  report->min_coverage = options.min_coverage.value_or(report->target.min_coverage);
  const ReadCallback advance = [&, total = checked_bytes(report->manifest, options.digests)](
                                   uint64_t bytes, const std::string& part) {
    if (options.progress) options.progress(bytes, total, part);
  };
  report->findings = verify_files(report->manifest, folder, options.digests, advance);
  require_binary_form(report->manifest, folder, report->findings);
  check_probe_table(report->manifest, folder, report->findings);
  // The placement files are written next to the manifest by later commands, so they are not extra.
  append(report->findings,
         find_extra_files(report->manifest, folder,
                          {std::string(kExpectedPlacement), std::string(kMeasuredPlacement)}));
  // Exports without graphs have no placement, so the rest of the check does not apply.
  if (!report->manifest.has_graphs()) {
    check_gguf_export(*report, folder);
    return report;
  }
  Checker checker(folder, *report, options);
  for (const manifest::Shard& shard : report->manifest.shards) {
    checker.check_shard(shard);
    advance(bytes_to_check(shard), shard.name);
  }
  // Runs after all shards, because coverage of the weights needs their union.
  checker.finish();
  return report;
}

}  // namespace moec
