// Costs of a model that do not depend on a text: parameters, memory, bytes and multiply-adds per
// token, and the time per step of an export.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/measure/analyze_options.h"
#include "ir/graph/type.h"

namespace moec {

struct StepTime {
  int64_t tokens = 0;  // token width of the step
  double seconds = 0;  // median over the runs
  bool operator==(const StepTime&) const = default;
};

// Times the smallest and the largest exported token width with the session's engine: the median of
// `runs` steps per width, and one entry if the widths are equal. Each width first runs one untimed
// step, which loads its shards if they fit the session's memory. Feeds token ids 0, 1, …, modulo
// the vocabulary size. Errors: those of Session::pass() and `stop`.
Result<std::vector<StepTime>> time_steps(Session& session, int64_t runs,
                                         const std::function<Status()>& stop);

// Prices of the energy estimate, in picojoules. The estimate covers only weight bytes read and
// multiply-adds per token. It ignores caches, values and all other costs, so that it can compare
// models but not predict a device.
struct EnergyPrices {
  double per_byte = 0;  // per weight byte read from DRAM
  double per_mac = 0;   // per multiply-add
  std::string source;
  bool operator==(const EnergyPrices&) const = default;
};

// M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, 45 nm at
// 0.9 V: DRAM 1.3 to 2.6 nJ for 64 bits, of which moec uses the lower bound (162.5 pJ per byte);
// multiply and add in f32 3.7 + 0.9 pJ, in f16 1.1 + 0.4 pJ. bf16 counts as f16.
EnergyPrices horowitz_prices(DType multiplied);

// Returns the energy in joules.
double energy_of(int64_t bytes, int64_t macs, const EnergyPrices& prices);

// Costs per token: bytes of weights, including one row of the embedding, and multiply-adds.
struct TokenReads {
  int64_t bytes = 0, macs = 0;
};

struct ModelCosts {
  std::string source, model;  // path and family
  bool exported = false;
  DType multiplied = DType::f32;  // type of products; for an export, the type of its values
  // From ParameterCounts; absent for an export whose report.json has no counts.
  std::optional<int64_t> parameters, active;
  int64_t weight_bytes = 0;  // export: weights and tables; checkpoint: weights as stored
  // Exports only: caches of one sequence of the context, and values between ops.
  std::optional<int64_t> cache_bytes, value_bytes;
  int64_t context = 0;          // keys that a token attends to
  TokenReads all, chosen;       // with all experts of each layer; with the picked experts only
  std::vector<StepTime> steps;  // exports only: smallest and largest token width
};

// Returns the costs of options.source. Times each step of an export `options.table->runs` times.
// Errors: those of open_source(), read_manifest(), plan_model(), Session; analyze.no_graphs (a
// folder without graphs, such as a GGUF export), analyze.report (an invalid report.json),
// analyze.interrupted.
Result<ModelCosts> costs_of_model(const AnalyzeOptions& options);

}  // namespace moec
