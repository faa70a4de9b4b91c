// The job of `moec analyze --table`: the costs of a model beside those of a baseline.
#pragma once

#include "frontends/jobs/analyze/model_table.h"
#include "frontends/measure/analysis.h"

namespace moec {

struct TabulatedModel {
  std::optional<Analysis> analysis;  // of the model's experts; nothing without experts or a text
  ModelTable table;
  Diagnostics notes;  // those of the analysis, and what the table lacks and why
};

// Runs analyze_model() where the model has experts and the options a text or an imatrix, and writes
// table.csv, table.md and table.json (model_table.h) into options.folder. The baseline's experts
// are measured with the same text. Notes: table.no_experts, table.no_text, table.no_latency,
// table.no_parameters, table.context.
//
// Errors: those of analyze_model() and of costs_of_model(), for either model, and of writing.
Result<TabulatedModel> tabulate_model(const AnalyzeOptions& options);

}  // namespace moec
