// The job of `moec analyze`: measures the experts of a model with a text, and writes what it found.
#pragma once

#include "frontends/measure/analysis.h"

namespace moec {

// Writes into options.folder, over files of these names that are there: profile.json
// (ir/experts/expert_profile.h), analysis.json, experts.csv, capture.csv, categories.csv,
// heatmap.svg, capture.svg, and, where routing weights were measured, ranking_LNN.csv of each layer
// and ranking.csv. With pairs_file coactivation.csv, too, and with imatrix_file imatrix.gguf.
//
// Errors: analyze.imatrix_source (imatrix_file for what is no checkpoint); those of
// measure_checkpoint(), measure_export() or read_imatrix(), and of writing.
Result<Analysis> analyze_model(const AnalyzeOptions& options);

// What it measures with the text of the options, and nothing written. Errors: as above, but for
// those of writing.
Result<Analysis> analyze_text(const AnalyzeOptions& options);

}  // namespace moec
