#include "frontends/jobs/prune/prune_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/weights/views/equal_tensors.h"
#include "frontends/checkpoint/write_checkpoint.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/base/output_apart.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

// Files with weights or lists of weights. Copies of them would contain all experts.
bool lists_weights(const std::string& name) {
  constexpr std::array<std::string_view, 11> kEndings = {".safetensors", ".safetensors.index.json",
                                                         ".bin",         ".bin.index.json",
                                                         ".pt",          ".pth",
                                                         ".ckpt",        ".gguf",
                                                         ".h5",          ".msgpack",
                                                         ".onnx"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

// Files that describe the source folder itself.
bool describes_folder(const std::string& name) {
  return name == "config.json" || name.starts_with('.') || name == "moec_upcycle.json" ||
         name == kPrune.list_file();
}

// Returns the source's files other than weights. `folders` receives the names of its folders.
Result<CarriedSource> other_files(const std::string& source, std::vector<std::string>& folders) {
  MOEC_ASSIGN(CarriedSource carried, carried_source(source));
  std::error_code error;
  for (fs::directory_iterator at(carried.folder.empty() ? "." : carried.folder, error), end;
       !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (lists_weights(name) || describes_folder(name)) continue;
    if (at->is_directory(error))
      folders.push_back(name);
    else if (std::find(kCarriedFiles.begin(), kCarriedFiles.end(), name) == kCarriedFiles.end())
      carried.further.push_back(name);
  }
  // The order of a folder's entries depends on the file system.
  std::sort(carried.further.begin(), carried.further.end());
  std::sort(folders.begin(), folders.end());
  return carried;
}

void note_folders(const std::vector<std::string>& folders, PruneReport& report) {
  if (folders.empty()) return;
  report.plan.notes.push_back(
      {Severity::note,
       "prune.not_copied",
       fmt::format("folders inside of the source are not copied: {}", fmt::join(folders, ", ")),
       "copy them if the model needs them",
       {.file = report.source}});
}

Status write_pruned(const PruneOptions& options, const std::vector<SafetensorsPart>& parts,
                    CarriedSource carried, PruneReport& report) {
  const PrunePlan& plan = report.plan;
  const auto reads_back = [&](const std::string& folder) -> Status {
    const auto made = open_source(folder, options.family, equal_tensors);
    return made ? Status() : fail(made.error());
  };
  MOEC_ASSIGN(WrittenCheckpoint written,
              publish_checkpoint({plan.config_text, plan.tensors, plan.weights, std::move(carried)},
                                 parts, {kPrune, options.output, options.hooks}, reads_back));
  report.files = std::move(written.files);
  return {};
}

}  // namespace

Result<PruneReport> prune_model(const PruneOptions& options) {
  PruneReport report{options.source, options.output.folder, {}, {}, options.dry_run};
  MOEC_ASSIGN(report.plan, plan_prune(options));
  MOEC_ASSIGN(const std::vector<SafetensorsPart> parts,
              plan_files(report.plan.tensors, options.output.max_shard_bytes));
  std::vector<std::string> folders;
  MOEC_ASSIGN(CarriedSource carried, other_files(options.source, folders));
  MOEC_TRY(check_carried_files(carried));
  note_folders(folders, report);
  if (options.dry_run) return report;
  MOEC_TRY(check_apart_from(options.source, options.output.folder, "--out"));
  MOEC_TRY(write_pruned(options, parts, std::move(carried), report));
  return report;
}

static nlohmann::ordered_json overlaps_json(const std::vector<ScoreOverlap>& overlaps) {
  auto list = nlohmann::ordered_json::array();
  for (const ScoreOverlap& overlap : overlaps)
    list.push_back({{"by", enum_name(overlap.by)},
                    {"same", overlap.same},
                    {"fewest", overlap.fewest},
                    {"layer", overlap.fewest_layer}});
  return list;
}

nlohmann::ordered_json prune_json(const PruneReport& report, double seconds) {
  const PrunePlan& plan = report.plan;
  const auto bytes = [](const CheckpointBytes& of) {
    return nlohmann::ordered_json{{"experts", of.experts}, {"all", of.all}};
  };
  nlohmann::ordered_json fields = {{"source", report.source},
                                   {"out", report.out},
                                   {"dry_run", report.dry_run},
                                   {"seconds", seconds},
                                   {"architecture", plan.result.family},
                                   {"experts_before", plan.source.moe.experts},
                                   {"experts", plan.result.moe.experts},
                                   {"top_k", plan.result.moe.routing.top_k},
                                   {"routing", enum_name(plan.routing)},
                                   {"expert_mask", to_string(plan.choice.kept)},
                                   {"scores", overlaps_json(plan.choice.overlaps)}};
  if (plan.choice.selections) fields["kept_selections"] = *plan.choice.selections;
  if (plan.choice.mass) fields["kept_mass"] = *plan.choice.mass;
  fields["bytes_before"] = bytes(plan.before);
  fields["bytes"] = bytes(plan.after);
  fields["files"] = files_json(report.files);
  return report_json(true, fields, plan.notes);
}

}  // namespace moec
