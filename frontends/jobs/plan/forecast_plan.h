// Forecasts the speed and memory of a planned export on a measured machine.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/graph/shard.h"
#include "models/cluster/measure_plan.h"
#include "models/plan/forecast.h"

namespace moec {

struct ForecastOptions {
  std::string profile;                  // file that moec doctor wrote
  std::string trace;                    // file of moec trace with the choices of experts; "": none
  int64_t capacity = 0;                 // slots per MoE layer; 0: as many as fit
  int64_t filled = 0;                   // tokens in the cache; 0: half of the context
  std::optional<int64_t> budget_bytes;  // memory; absent: that of the profile's machine
  DType cache_dtype = DType::f32;       // SessionOptions::cache_dtype
};

// Compiles shard `index` of the plan for one token width, to form `placed`.
using CompileWidth = std::function<Result<Shard>(size_t index, int64_t tokens)>;

// Decoding uses the narrowest width of the plan, prompts the widest. Errors: those of
// read_device_profile(), read_trace(), price() and `compile`; forecast.filled (more tokens than the
// context has), forecast.capacity (slots that the plan cannot use), forecast.trace (a trace of
// another model).
Result<Forecast> forecast_plan(const Plan& plan, const MeasuredPlan& measured,
                               const ForecastOptions& options, const CompileWidth& compile);

// The forecast in words, and the times by cause.
std::string forecast_text(const Forecast& forecast);
nlohmann::ordered_json forecast_json(const Forecast& forecast);

}  // namespace moec
