#include "frontends/analyze/analyze_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/files/output_file.h"
#include "backends/output/out_folder.h"
#include "frontends/analyze/analysis_csv.h"
#include "frontends/analyze/analysis_json.h"
#include "frontends/analyze/measure_checkpoint.h"
#include "frontends/analyze/measure_export.h"
#include "frontends/analyze/plots.h"
#include "frontends/analyze/read_imatrix.h"
#include "frontends/source/open_source.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

Result<Analysis> analyze_imatrix(const AnalyzeOptions& options) {
  ImatrixModel model;
  if (options.exported) {
    MOEC_ASSIGN(const ExportShape shape, shape_of_export(options.source));
    model = {shape.family, {shape.layers, shape.experts, shape.top_k, 1, 1}};
  } else {
    MOEC_ASSIGN(const Checkpoint checkpoint, open_config_only(options.source, options.family_file));
    model = {checkpoint.config.family, expert_grid(checkpoint.config)};
  }
  MOEC_TRY(check_has_experts(std::ssize(model.grid.layers), options.source));
  return read_imatrix(options.imatrix, model);
}

Result<Analysis> analyze_text(const AnalyzeOptions& options) {
  MOEC_ASSIGN(Measurement measured,
              options.exported ? measure_export(options) : measure_checkpoint(options, false));
  return analysis_of(std::move(measured));
}

Status write_rankings(const Analysis& analysis, const std::string& folder) {
  for (const LayerProfile& layer : analysis.profile.layers) {
    if (layer.mass.empty()) return {};
    MOEC_TRY(
        write_file({folder, fmt::format("ranking_L{:02}.csv", layer.layer)}, ranking_csv(layer)));
  }
  return write_file({folder, "ranking.csv"}, summed_ranking_csv(analysis.profile));
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
  if (!options.pairs_file) return {};
  return write_file({folder, "coactivation.csv"}, coactivation_csv(analysis.profile));
}

}  // namespace

Result<Analysis> analyze_model(const AnalyzeOptions& options) {
  MOEC_ASSIGN(Analysis analysis,
              options.imatrix.empty() ? analyze_text(options) : analyze_imatrix(options));
  MOEC_TRY(create_folder(options.folder));
  MOEC_TRY(write_results(analysis, options));
  return analysis;
}

}  // namespace moec
