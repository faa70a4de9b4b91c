#include "frontends/jobs/analyze/analyze_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/files/output_file.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/out_folder.h"
#include "frontends/jobs/analyze/analysis_csv.h"
#include "frontends/jobs/analyze/analysis_json.h"
#include "frontends/jobs/analyze/plots.h"
#include "frontends/jobs/analyze/read_imatrix.h"
#include "frontends/jobs/analyze/write_imatrix.h"
#include "frontends/measure/measure_checkpoint.h"
#include "frontends/measure/measure_export.h"
#include "frontends/sources/open_source.h"
#include "ir/base/json_output.h"
#include "ir/model/model_experts.h"

namespace moec {
namespace {

Result<Analysis> analyze_imatrix(const AnalyzeOptions& options) {
  ImatrixModel model;
  if (options.exported) {
    MOEC_ASSIGN(const Manifest manifest, read_manifest(options.source));
    model = {manifest.model.family, expert_grid(manifest)};
  } else {
    MOEC_ASSIGN(const Checkpoint checkpoint, open_config_only(options.source, options.family_file));
    model = {checkpoint.config.family, expert_grid(checkpoint.config)};
  }
  MOEC_TRY(check_has_experts(std::ssize(model.grid.layers), options.source));
  return read_imatrix(options.imatrix, model);
}

Status write_rankings(const Analysis& analysis, const std::string& folder) {
  for (const LayerProfile& layer : analysis.profile.layers) {
    if (layer.mass.empty()) return {};
    MOEC_TRY(
        write_file({folder, fmt::format("ranking_L{:02}.csv", layer.layer)}, ranking_csv(layer)));
  }
  return write_file({folder, "ranking.csv"}, summed_ranking_csv(analysis.profile));
}

// The name of what was run, as llama-imatrix tells it.
std::string dataset_of(const AnalysisSource& text) {
  if (!text.prompts.empty()) return text.prompts;
  if (!text.prompt.empty()) return "prompt";
  return (text.texts.empty() ? text.tokens : text.texts).front();
}

Status write_imatrix(const Analysis& analysis, const AnalyzeOptions& options) {
  MOEC_ASSIGN(const std::string bytes, imatrix_bytes(analysis, dataset_of(options.text)));
  return write_file({options.folder, kImatrixFile}, bytes);
}

Status write_results(const Analysis& analysis, const AnalyzeOptions& options) {
  const std::string& folder = options.folder;
  const std::string report = json_text(analysis_json(analysis, folder)) + "\n";
  MOEC_TRY(write_file({folder, kExpertProfileFile}, expert_profile_text(analysis.profile)));
  MOEC_TRY(write_file({folder, "analysis.json"}, report));
  MOEC_TRY(write_file({folder, "experts.csv"}, experts_csv(analysis)));
  MOEC_TRY(write_file({folder, "capture.csv"}, capture_csv(analysis)));
  MOEC_TRY(write_file({folder, "categories.csv"}, categories_csv(analysis)));
  MOEC_TRY(write_file({folder, "heatmap.svg"}, heat_map_svg(analysis.profile)));
  MOEC_TRY(write_file({folder, "capture.svg"}, capture_svg(analysis)));
  MOEC_TRY(write_rankings(analysis, folder));
  if (options.pairs_file)
    MOEC_TRY(write_file({folder, "coactivation.csv"}, coactivation_csv(analysis.profile)));
  return options.imatrix_file ? write_imatrix(analysis, options) : Status();
}

}  // namespace

Result<Analysis> analyze_text(const AnalyzeOptions& options) {
  MOEC_ASSIGN(Measurement measured, options.exported
                                        ? measure_export(options)
                                        : measure_checkpoint(options, options.imatrix_file));
  return analysis_of(std::move(measured));
}

Result<Analysis> analyze_model(const AnalyzeOptions& options) {
  if (options.imatrix_file && (options.exported || !options.imatrix.empty()))
    return fail("analyze.imatrix_source",
                "an imatrix is made of the inputs of matrices, which only a checkpoint shows",
                "analyze the checkpoint, or leave out --imatrix", {.file = options.source});
  MOEC_ASSIGN(Analysis analysis,
              options.imatrix.empty() ? analyze_text(options) : analyze_imatrix(options));
  MOEC_TRY(create_folder(options.folder));
  MOEC_TRY(write_results(analysis, options));
  return analysis;
}

}  // namespace moec
