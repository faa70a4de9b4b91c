#include "frontends/jobs/split/split_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "frontends/jobs/split/split_folder.h"
#include "frontends/jobs/split/split_report.h"
#include "frontends/sources/gguf/open_gguf.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

Status check_source(const std::string& source) {
  if (names_gguf(source)) return {};
  return fail("split.source", "the source is neither a GGUF file nor an exported folder",
              "pass the first .gguf file of a model, or a folder that moec export wrote",
              {.file = source});
}

Status check_apart(const std::string& out, const Gguf& gguf) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(out, error);
  // A model may have several files, each of which may lie elsewhere.
  for (const WeightFile& file : gguf.files) {
    const fs::path path = fs::weakly_canonical(file.path, error);
    const auto [end, unused] =
        std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
    // If all components of the output path were matched, the file lies below it.
    if (end == folder.end())
      return fail("split.out_has_source", "a file of the model lies in the output folder",
                  "pass another folder with --out", {.file = file.path});
  }
  return {};
}

Result<std::vector<KeptShares>> shares_of(const SplitOptions& options, const MoeSource& source,
                                          const std::vector<SplitNode>& nodes) {
  std::vector<KeptShares> shares(nodes.size());
  if (options.profile.empty()) return shares;
  MOEC_ASSIGN(const ExpertProfile profile, read_expert_profile(options.profile));
  MOEC_TRY(check_profile(profile, source.grid, options.profile));
  // The profile is read even if it is not needed, so that errors in it are always reported.
  if (source.routing == KeptRouting::masked) return shares;
  for (size_t i = 0; i < nodes.size(); ++i) {
    MOEC_ASSIGN(shares[i], kept_shares(profile, nodes[i], source.grid, options.profile));
  }
  return shares;
}

// ---- Notes -------------------------------------------------------------------------------------

// Returns the names of the nodes with this routing, separated by commas.
std::string nodes_with(const SplitReport& report, NodeRouting routing) {
  std::vector<std::string> names;
  for (const NodePlan& node : report.plan.nodes)
    if (report.routing_of(node) == routing) names.push_back(node.node.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void note_routing(SplitReport& report, const SplitOptions& options) {
  const auto add = [&](Severity severity, std::string code, NodeRouting routing, std::string what,
                       std::string next) {
    // One note for all nodes with the same routing.
    if (const std::string names = nodes_with(report, routing); !names.empty())
      report.notes.push_back({severity,
                              std::move(code),
                              fmt::format("{}: {}", names, what),
                              std::move(next),
                              {.file = report.source}});
  };
  add(Severity::warning, "split.inflated", NodeRouting::inflated,
      fmt::format("routing weights of {} are shares of all experts and are not normalised, so the "
                  "weights of the remaining experts are too large",
                  report.arch),
      "pass a --profile of moec analyze to correct their mean");
  add(Severity::note, "split.compensated", NodeRouting::compensated,
      "ffn_down_exps are scaled by the mean share of the routing weights that each layer keeps "
      "according to the profile",
      {});
  add(Severity::warning, "split.unknown_routing", NodeRouting::unknown,
      fmt::format("moec does not know the routing of {}: the weights of the remaining experts are "
                  "too large unless they are normalised over the picked experts",
                  report.arch),
      "compare the node with the whole model, and pass --profile to correct such weights");
  if (!options.profile.empty() && report.routing == KeptRouting::masked)
    report.notes.push_back(
        {Severity::note,
         "split.no_correction",
         fmt::format("the profile is not used: routing of {} needs no correction", report.arch),
         {},
         {.file = options.profile}});
}

void note_layers(SplitReport& report, const MoeSource& source) {
  if (!source.behind.empty())
    report.notes.push_back(
        {Severity::note,
         "split.layers_behind",
         fmt::format("layers {}, which predict further tokens, keep the experts of layer {}",
                     fmt::join(source.behind, ","), source.grid.layers.back()),
         {},
         {.file = report.source}});
  std::vector<std::string> changed;
  for (const NodePlan& node : report.plan.nodes)
    if (node.node.groups != source.grid.groups)
      changed.push_back(fmt::format("{} in {}", node.node.groups, node.node.name));
  if (!changed.empty())
    report.notes.push_back(
        {Severity::note,
         "split.groups",
         fmt::format("the {} groups of experts become {}: empty groups are removed, and groups are "
                     "merged if a token would keep all of them",
                     source.grid.groups, fmt::join(changed, ", ")),
         {},
         {.file = report.source}});
}

// ---- Writing -----------------------------------------------------------------------------------

OutFiles files_of(const SplitPlan& plan) {
  OutFiles files = {kSplitIndex};
  for (const NodePlan& node : plan.nodes)
    for (const SplitFile* file : {&node.header, &plan.trunk, &node.experts})
      files.insert(fmt::format("{}/{}", node.node.name, file->name));
  return files;
}

Status write_report(const SplitOptions& options, const MoeSource& source, SplitReport& report) {
  MOEC_TRY(check_apart(options.out, source.gguf));
  MOEC_TRY(create_folder(options.out));
  MOEC_ASSIGN(const FolderLock lock, FolderLock::take(options.out));
  MOEC_TRY(make_room(options.out, files_of(report.plan), options.force));
  const OutputPath index{options.out, kSplitIndex};
  // Written before the nodes, so that an interrupted split is recognised.
  MOEC_TRY(write_file(index, split_index_text(report, false)));
  MOEC_ASSIGN(report.written, write_split(options, source, report.plan));
  if (!report.written.trunk_linked)
    report.notes.push_back({Severity::note,
                            "split.trunk_copied",
                            "the file system has no hard links: each node has a copy of the trunk",
                            {},
                            {.file = options.out}});
  // The nodes must be durable before the index says that the split is finished.
  MOEC_TRY(sync_folder(options.out));
  MOEC_TRY(write_file(index, split_index_text(report, true)));
  return sync_folder(options.out);
}

}  // namespace

Result<SplitReport> split_model(const SplitOptions& options) {
  // Exports have been handled by the caller, so only a GGUF file is valid here.
  MOEC_TRY(check_source(options.source));
  if (!options.update.empty())
    return fail("split.update",
                "--update links whole files of exports, but the file of a GGUF node has all of its "
                "experts",
                "omit --update", {.file = options.source});
  MOEC_ASSIGN(const MoeSource source, read_moe_source(options.source));
  MOEC_ASSIGN(const std::vector<SplitNode> nodes, choose_nodes(options, source));
  MOEC_ASSIGN(const std::vector<KeptShares> shares, shares_of(options, source, nodes));
  SplitReport report{options.source, options.out,         source.arch,
                     source.digest,  source.grid.experts, source.routing};
  MOEC_ASSIGN(report.plan, plan_split(source, nodes, shares));
  report.dry_run = options.dry_run;
  // Notes depend on the plan, so a dry run reports them, too.
  note_routing(report, options);
  note_layers(report, source);
  if (!options.dry_run) MOEC_TRY(write_report(options, source, report));
  return report;
}

}  // namespace moec
