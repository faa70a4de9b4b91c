// Forecast of the speed and memory of an export in the engine `cpu`, before any weight is read.
//
// The time of a token is the sum over all shards of
//   products   each product with weights, at the measured speed of its storage form, but at least
//              the time to read its bytes from memory;
//   attention  products of queries with the filled part of the cache, and of probabilities with it;
//   elements   elementwise ops, moves and reductions, at measured times per element;
//   ops        a measured time per evaluated op, per skipped op and per run of a graph;
// plus the time to read missing experts from the disk. Reads are not assumed to overlap with
// computation.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/target/device_profile.h"
#include "models/plan/plan_report.h"
#include "models/plan/residency.h"

namespace moec {

// A product with a weight.
struct ProductWork {
  Encoding encoding;
  DType dtype = DType::f32;
  int64_t inner = 1;   // length of a row of the weight
  double weights = 0;  // elements
  double bytes = 0;    // as stored
  double tokens = 1;   // vectors per execution
  double times = 1;    // expected executions per run of the graph
};

// Expected work of one run of a graph. An op that runs for some tokens only counts partially.
struct ShardWork {
  std::vector<ProductWork> products;
  // Products of two activations. `weights` counts the elements of the right factor.
  struct Activations {
    double weights = 0, tokens = 1, times = 1;
  };
  std::vector<Activations> activations;
  std::array<double, enum_count<ElementWork>> elements{};
  double ops = 0, idle_ops = 0;  // steps of the plan that a run takes, and that it skips
};

// Seconds by cause.
struct WorkSeconds {
  double products = 0, attention = 0, elements = 0, ops = 0;
  double total() const { return products + attention + elements + ops; }
  WorkSeconds& operator+=(const WorkSeconds& other);
  WorkSeconds scaled(double factor) const;
};

// Prices the work of one run of a graph. Error forecast.form: the profile has no times of a storage
// form.
Result<WorkSeconds> price(const ShardWork& work, const DeviceProfile& profile);

// Memory of a run by its parts.
struct ForecastMemory {
  int64_t budget_bytes = 0;
  int64_t experts_bytes = 0;  // slots, or all experts
  int64_t other_bytes = 0;    // trunk, tables, graphs, activations, logits
  int64_t cache_bytes = 0;    // of one sequence, as the engine stores it
  int64_t needed() const { return experts_bytes + other_bytes + cache_bytes; }
  int64_t free() const { return budget_bytes - needed(); }
  bool fits() const { return free() >= 0; }
};

// Properties of a run that the plan does not determine.
struct RunSetting {
  int64_t ops = 0;  // of all graphs that are loaded at the same time
  int64_t budget_bytes = 0;
  // Histories and recurrent states, as planned: the part of PlanReport::cache_bytes that the engine
  // stores as f32.
  int64_t state_bytes = 0;
  DType cache_dtype = DType::f32;  // of keys and values
};

// The memory of everything except the experts.
ForecastMemory memory_without_experts(const Plan& plan, const PlanReport& report,
                                      const RunSetting& setting);

// The probability that at least one of `tokens` independent tokens does what a single token does
// with the probability `chance`.
double chance_of_one(double chance, double tokens);

// Distinct experts that `tokens` tokens choose if each chooses `chosen` of `all` experts, all
// choices equally likely and independent.
double distinct_experts(double tokens, int64_t chosen, int64_t all);

// Rates of one phase: decoding, or processing a prompt.
struct PhaseForecast {
  int64_t width = 1;        // token width of the graphs
  int64_t used = 1;         // tokens per run; the rest of the width is padding
  WorkSeconds work;         // per token
  double miss_rate = 0;     // share of the chosen experts that must be read
  double read_seconds = 0;  // per token
  double seconds() const { return work.total() + read_seconds; }
  double tokens_per_second() const { return seconds() > 0 ? 1 / seconds() : 0; }
};

struct Forecast {
  std::string machine;  // "cpu with 8 threads (AVX2)"
  int64_t context = 0;
  int64_t filled = 0;            // tokens in the cache while decoding; length of the prompt
  int64_t experts = 0;           // per MoE layer; 0: a dense model
  int64_t capacity = 0;          // slots per MoE layer; equal to `experts` if all stay in memory
  int64_t largest_capacity = 0;  // largest number of slots that fits; 0: none does
  bool pages_experts = false;    // the plan has expert groups, which a session can page
  bool from_trace = false;       // the miss rate comes from a trace
  ForecastMemory memory;
  PhaseForecast decode, prefill;
  double load_seconds = 0;  // to read trunk and slots once, from start to end
};

}  // namespace moec
