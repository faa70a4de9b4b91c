// What a model takes, apart from any text: parameters, memory, what a token reads and multiplies,
// and how long a step of its export takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/analyze/step_times.h"
#include "frontends/measure/analyze_options.h"

namespace moec {

// Of one token: bytes of weights, the embedding's row with them, and multiply-adds.
struct TokenReads {
  int64_t bytes = 0, macs = 0;
};

struct ModelCosts {
  std::string source, model;  // the path, and the family
  bool exported = false;
  DType multiplied = DType::f32;  // the type of its products: of an export that of its values
  // ParameterCounts; nothing for an export whose report.json does not tell.
  std::optional<int64_t> parameters, active;
  int64_t weight_bytes = 0;  // of all weights: of an export with its tables, else as stored
  // Of an export: the caches of one sequence of the context, and what values between ops take here.
  std::optional<int64_t> cache_bytes, value_bytes;
  int64_t context = 0;          // rows of keys that a token's attention multiplies
  TokenReads all, chosen;       // with all experts of each layer, and with the chosen ones alone
  std::vector<StepTime> steps;  // of an export: the narrowest width, and the widest
};

// The costs of options.source. Steps of an export are timed `options.table->runs` times. Errors:
// those of open_source(), read_manifest(), plan_model(), Session; analyze.no_graphs for a folder of
// weights alone, such as an export as GGUF; analyze.report for a report.json that is none;
// analyze.interrupted.
Result<ModelCosts> costs_of_model(const AnalyzeOptions& options);

}  // namespace moec
