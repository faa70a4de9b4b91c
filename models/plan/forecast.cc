#include "models/plan/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/base/at.h"

namespace moec {
namespace {

// Bytes of a loaded op with its name, operands and results, as the executor counts them
// (backends/reference/program.cc).
constexpr int64_t kGraphOpBytes = 1024;

Result<double> price_product(const ProductWork& product, const DeviceProfile& profile) {
  const ProductTimes* times = profile.times_of(product.encoding, product.dtype, product.inner);
  if (times == nullptr)
    return fail("forecast.form",
                fmt::format("the device profile has no times of weights stored as {} of {}",
                            to_string(product.encoding), dtype_name(product.dtype)),
                "measure the machine again with moec doctor");
  // Small weights of a large model are not in the cache of the CPU, although they were when doctor
  // measured them.
  const double seconds = std::max(times->seconds(product.weights, product.tokens),
                                  product.bytes / profile.memory_rate);
  return seconds * product.times;
}

// Products of attention are small, so that one thread computes each. Unlike in the measurement of
// doctor, the caches of CPUs do not hold the keys and values of all layers.
double price_attention(const ShardWork::Activations& part, const DeviceProfile& profile) {
  const double rate = profile.memory_rate / static_cast<double>(profile.threads);
  const double bytes = part.weights * static_cast<double>(sizeof(float));
  return part.times *
         std::max(profile.activations.seconds(part.weights, part.tokens), bytes / rate);
}

}  // namespace

WorkSeconds& WorkSeconds::operator+=(const WorkSeconds& other) {
  products += other.products;
  attention += other.attention;
  elements += other.elements;
  ops += other.ops;
  return *this;
}

WorkSeconds WorkSeconds::scaled(double factor) const {
  return {products * factor, attention * factor, elements * factor, ops * factor};
}

Result<WorkSeconds> price(const ShardWork& work, const DeviceProfile& profile) {
  WorkSeconds seconds;
  for (const ProductWork& product : work.products) {
    MOEC_ASSIGN(const double priced, price_product(product, profile));
    seconds.products += priced;
  }
  for (const ShardWork::Activations& part : work.activations)
    seconds.attention += price_attention(part, profile);
  for (size_t kind = 0; kind < work.elements.size(); ++kind)
    seconds.elements += at(work.elements, kind) * at(profile.element_seconds, kind);
  seconds.ops =
      work.ops * profile.op_seconds + work.idle_ops * profile.idle_op_seconds + profile.run_seconds;
  return seconds;
}

ForecastMemory memory_without_experts(const Plan& plan, const PlanReport& report,
                                      const RunSetting& setting) {
  // The engine keeps activations and states as f32.
  const int64_t planned = dtype_bytes(plan.build.dtype);
  const int64_t widening = static_cast<int64_t>(sizeof(float)) / planned;
  int64_t peak = 0;
  for (const KindReport& kind : report.kinds) peak = std::max(peak, kind.peak_activation_bytes);
  ForecastMemory memory;
  memory.budget_bytes = setting.budget_bytes;
  memory.cache_bytes =
      (report.cache_bytes - setting.state_bytes) / planned * dtype_bytes(setting.cache_dtype) +
      setting.state_bytes * widening;
  // As in parts_beside_shards() (backends/runtime/session/session_memory.h).
  const int64_t rows = plan.build.tokens.back() * (3 * plan.model.vocab + 2 * plan.model.hidden) *
                       static_cast<int64_t>(sizeof(float));
  memory.other_bytes = report.trunk_bytes + report.embedding_bytes + report.rope_bytes +
                       peak * widening + rows + setting.ops * kGraphOpBytes;
  return memory;
}

double chance_of_one(double chance, double tokens) { return 1 - std::pow(1 - chance, tokens); }

double distinct_experts(double tokens, int64_t chosen, int64_t all) {
  if (all == 0) return 0;
  const double share = static_cast<double>(chosen) / static_cast<double>(all);
  return static_cast<double>(all) * chance_of_one(share, tokens);
}

}  // namespace moec
