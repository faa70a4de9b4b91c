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
  return fail("split.source", "this is neither a GGUF file nor an exported folder",
              "give the first .gguf file of a model, or the folder that moec export wrote",
              {.file = source});
}

Status check_apart(const std::string& out, const Gguf& gguf) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(out, error);
  for (const WeightFile& file : gguf.files) {
    const fs::path path = fs::weakly_canonical(file.path, error);
    const auto [end, unused] =
        std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
    if (end == folder.end())
      return fail("split.out_has_source", "a file of the model lies in the output folder",
                  "give --out another folder", {.file = file.path});
  }
  return {};
}

Result<std::vector<KeptShares>> shares_of(const SplitOptions& options, const MoeSource& source,
                                          const std::vector<SplitNode>& nodes) {
  std::vector<KeptShares> shares(nodes.size());
  if (options.profile.empty()) return shares;
  MOEC_ASSIGN(const ExpertProfile profile, read_expert_profile(options.profile));
  MOEC_TRY(check_profile(profile, source.grid, options.profile));
  if (source.routing == KeptRouting::masked) return shares;
  for (size_t i = 0; i < nodes.size(); ++i) {
    MOEC_ASSIGN(shares[i], kept_shares(profile, nodes[i], source.grid, options.profile));
  }
  return shares;
}

// ---- Notes -------------------------------------------------------------------------------------

// The names of the nodes with this routing.
std::string nodes_with(const SplitReport& report, NodeRouting routing) {
  std::vector<std::string> names;
  for (const NodePlan& node : report.plan.nodes)
    if (report.routing_of(node) == routing) names.push_back(node.node.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void note_routing(SplitReport& report, const SplitOptions& options) {
  const auto add = [&](Severity severity, std::string code, NodeRouting routing, std::string what,
                       std::string next) {
    if (const std::string names = nodes_with(report, routing); !names.empty())
      report.notes.push_back({severity,
                              std::move(code),
                              fmt::format("of {}: {}", names, what),
                              std::move(next),
                              {.file = report.source}});
  };
  add(Severity::warning, "split.inflated", NodeRouting::inflated,
      fmt::format("routing weights of {} are shares of all experts and not normalised: those of "
                  "the experts that are left become too large",
                  report.arch),
      "give --profile of moec analyze, which corrects their mean");
  add(Severity::note, "split.compensated", NodeRouting::compensated,
      "outputs of experts are multiplied by the mean share of the routing weights that each layer "
      "keeps by the profile, in the scales of ffn_down_exps",
      {});
  add(Severity::warning, "split.unknown_routing", NodeRouting::unknown,
      fmt::format("moec does not know how {} routes: if its weights are not normalised over the "
                  "chosen experts, those of the experts that are left become too large",
                  report.arch),
      "compare the node with the whole model; --profile corrects such weights");
  if (!options.profile.empty() && report.routing == KeptRouting::masked)
    report.notes.push_back(
        {Severity::note,
         "split.no_correction",
         fmt::format("routing of {} needs no correction, the profile is not used", report.arch),
         {},
         {.file = options.profile}});
}

void note_layers(SplitReport& report, const MoeSource& source) {
  if (!source.behind.empty())
    report.notes.push_back(
        {Severity::note,
         "split.layers_behind",
         fmt::format("layers {}, which guess further tokens, keep the experts of layer {}",
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
         fmt::format("the {} groups of experts become {}: groups without experts are left out, and "
                     "as many as a token keeps are one",
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
  MOEC_TRY(write_file(index, split_index_text(report, false)));
  MOEC_ASSIGN(report.written, write_split(options, source, report.plan));
  if (!report.written.trunk_linked)
    report.notes.push_back({Severity::note,
                            "split.trunk_copied",
                            "the file system has no hard links: each node has a copy of the trunk",
                            {},
                            {.file = options.out}});
  MOEC_TRY(sync_folder(options.out));
  MOEC_TRY(write_file(index, split_index_text(report, true)));
  return sync_folder(options.out);
}

}  // namespace

Result<SplitReport> split_model(const SplitOptions& options) {
  MOEC_TRY(check_source(options.source));
  MOEC_ASSIGN(const MoeSource source, read_moe_source(options.source));
  MOEC_ASSIGN(const std::vector<SplitNode> nodes, choose_nodes(options, source));
  MOEC_ASSIGN(const std::vector<KeptShares> shares, shares_of(options, source, nodes));
  SplitReport report{options.source, options.out,         source.arch,
                     source.digest,  source.grid.experts, source.routing};
  MOEC_ASSIGN(report.plan, plan_split(source, nodes, shares));
  report.dry_run = options.dry_run;
  note_routing(report, options);
  note_layers(report, source);
  if (!options.dry_run) MOEC_TRY(write_report(options, source, report));
  return report;
}

}  // namespace moec
