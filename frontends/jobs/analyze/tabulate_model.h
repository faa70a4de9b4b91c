// `moec analyze --table`: compares the costs of a model with those of a baseline.
#pragma once

#include "frontends/jobs/analyze/model_table.h"
#include "frontends/measure/analysis.h"

namespace moec {

struct TabulatedModel {
  std::optional<Analysis> analysis;  // of the model's experts; none without experts or text
  ModelTable table;
  Diagnostics notes;  // of the analysis, and about missing rows
};

// Runs analyze_model() if the model has experts and the options have a text or an imatrix. Writes
// table.csv, table.md and table.json (model_table.h) into options.folder. Measures the baseline's
// experts on the same text. Notes: table.no_experts, table.no_text, table.no_latency,
// table.no_parameters, table.context.
//
// Errors: those of analyze_model() and costs_of_model() for both models; write errors.
Result<TabulatedModel> tabulate_model(const AnalyzeOptions& options);

}  // namespace moec
