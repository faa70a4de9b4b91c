// `moec analyze`: measures a model's experts on a text and writes the results.
#pragma once

#include "frontends/measure/analysis.h"

namespace moec {

// Writes into options.folder, replacing existing files: profile.json (ir/experts/expert_profile.h),
// analysis.json, experts.csv, capture.csv, categories.csv, heatmap.svg, capture.svg; if routing
// weights were measured, ranking_LNN.csv per layer and ranking.csv; with pairs_file,
// coactivation.csv; with imatrix_file, imatrix.gguf.
//
// Errors: analyze.imatrix_source (imatrix_file requires a checkpoint); those of
// measure_checkpoint(), measure_export() or read_imatrix(); write errors.
Result<Analysis> analyze_model(const AnalyzeOptions& options);

// Measures the experts on the text that `options` selects, without writing files. Errors: as above,
// except write errors.
Result<Analysis> analyze_text(const AnalyzeOptions& options);

}  // namespace moec
