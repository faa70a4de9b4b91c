// What a model takes, apart from any text: parameters, memory, what a token reads and multiplies,
// and how long a step of its export takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/measure/analyze_options.h"
#include "ir/graph/type.h"

namespace moec {

// How long steps of an export take here, with the engine of its session.

struct StepTime {
  int64_t tokens = 0;  // of the step: an exported width
  double seconds = 0;  // the median of the runs
  bool operator==(const StepTime&) const = default;
};

// Times the narrowest and the widest exported width; one of them where they are the same. Each
// runs once before it is timed, so that its shards are loaded where the session's memory holds
// them. The token ids are 0, 1, … of the vocabulary. Errors: those of Session::pass(), and of
// `stop`.
Result<std::vector<StepTime>> time_steps(Session& session, int64_t runs,
                                         const std::function<Status()>& stop);

// The middle one of the values in order; of an even number the mean of the middle two.
double median(std::vector<double> values);

// An estimate of the energy of a token: weight bytes read and multiply-adds, each at a price. It
// leaves out caches, values, and everything that is neither; it compares models, it does not
// predict a device.

// Prices in picojoules.
struct EnergyPrices {
  double per_byte = 0;  // of weights, from DRAM
  double per_mac = 0;   // a multiply and an add
  std::string source;
  bool operator==(const EnergyPrices&) const = default;
};

// M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, 45 nm at
// 0.9 V: DRAM 1.3 to 2.6 nJ for 64 bits, of which the lower one is taken (162.5 pJ a byte);
// multiply and add in f32 3.7 + 0.9 pJ, in f16 1.1 + 0.4 pJ. bf16 is priced as f16.
EnergyPrices horowitz_prices(DType multiplied);

// In joules.
double energy_of(int64_t bytes, int64_t macs, const EnergyPrices& prices);

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
