#include "frontends/jobs/run/expert_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/residency/changes_json.h"
#include "ir/base/byte_text.h"
#include "ir/base/process_memory.h"

namespace moec {

using nlohmann::ordered_json;

namespace {

double per_token(uint64_t bytes, const Session& session) {
  return static_cast<double>(bytes) /
         // max() avoids a division by zero before the first token.
         static_cast<double>(std::max<int64_t>(session.tokens_run(), 1));
}

double per_second(const WarmStart& start) {
  // A clock may report 0 for a small load.
  return start.seconds > 0 ? static_cast<double>(start.bytes) / start.seconds : 0;
}

std::string slots_report(const Session& session, const ExpertStore& experts) {
  const ExpertStoreCounts counts = experts.counts();
  std::string text = fmt::format(
      "[experts: {} per layer in {}, {:.1f} % hits, {} read per token, {:.2f} s waited, peak "
      "memory {}]\n",
      experts.capacity(), decimal_bytes(experts.used_bytes()), 100 * counts.hit_rate(),
      decimal_bytes(per_token(counts.bytes_read, session)), counts.wait_seconds,
      decimal_bytes(process_memory().peak));
  if (counts.skipped > 0)
    text += fmt::format("[skipped {} missing experts, with {:.2f} % of the routing weight]\n",
                        counts.skipped, 100 * counts.dropped_share());
  return text;
}

double changed_share(const PreferredCounts& counts) {
  return static_cast<double>(counts.changed) /
         static_cast<double>(std::max<int64_t>(counts.choices, 1));
}

// A bias of 0 leaves the model's routing unchanged.
bool is_exact(const PreferredCounts& counts) { return counts.bias.bias == 0; }

std::string preference_report(const Session& session) {
  const auto counts = session.preferred();
  if (!counts || is_exact(*counts)) return {};
  return fmt::format(
      "[inexact: with a bias of {} for experts in memory, {:.1f} % of the choices differ from the "
      "model's]\n",
      counts->bias.bias, 100 * changed_share(*counts));
}

ordered_json preference_json(const PreferredCounts& counts) {
  // Depends on the bias alone: a run may change no choice by chance.
  return {{"exact", is_exact(counts)},
          {"bias", counts.bias.bias},
          {"keep_top", counts.bias.keep_top},
          {"choices", counts.choices},
          {"changed", counts.changed}};
}

ordered_json start_json(const WarmStart& start) {
  return {{"experts", start.experts},
          {"bytes", start.bytes},
          {"seconds", start.seconds},
          {"bytes_per_second", per_second(start)},
          {"first_tokens", start.first.tokens},
          {"hit_rate", start.first.hit_rate()},
          {"cold_hit_rate", start.first.cold_hit_rate()}};
}

}  // namespace

std::string change_text(const DomainChange& change) {
  return fmt::format(
      "the domain has changed at token {}: {:.1f} % of the experts that {} tokens picked were in "
      "memory, down from {:.1f} %",
      change.token, 100 * change.within, kWindowTokens, 100 * change.before);
}

std::string start_report(const ExpertStore& experts) {
  const auto start = experts.start();
  if (!start) return {};
  return fmt::format(
      "[initial load: {} experts, {} read in {:.2f} s ({}/s); hits over the first {} tokens: "
      "{:.1f} %, from empty slots {:.1f} %]\n",
      start->experts, decimal_bytes(start->bytes), start->seconds,
      decimal_bytes(per_second(*start)), start->first.tokens, 100 * start->first.hit_rate(),
      100 * start->first.cold_hit_rate());
}

std::string expert_report(const Session& session) {
  // Without slots, all experts are loaded and there is nothing to count.
  const auto experts = session.experts();
  if (!experts) return {};
  std::string text =
      slots_report(session, *experts) + start_report(*experts) + preference_report(session);
  for (const DomainChange& change : experts->changes())
    text += fmt::format("[{}]\n", change_text(change));
  return text;
}

ordered_json expert_json(const Session& session) {
  const auto experts = session.experts();
  const ExpertStoreCounts counts = experts->counts();
  ordered_json json = {{"capacity", experts->capacity()},
                       {"slots_bytes", experts->used_bytes()},
                       {"hits", counts.hits},
                       {"misses", counts.misses},
                       {"hit_rate", counts.hit_rate()},
                       {"bytes_read", counts.bytes_read},
                       {"read_calls", counts.read_calls},
                       {"bytes_read_per_token", per_token(counts.bytes_read, session)},
                       {"prefetched", counts.prefetched},
                       {"prefetched_in_vain", counts.in_vain},
                       {"wait_seconds", counts.wait_seconds},
                       {"skipped", counts.skipped},
                       {"dropped_weight", counts.dropped_share()},
                       {"domain_changes", changes_json(experts->changes())}};
  if (const auto start = experts->start()) json["start"] = start_json(*start);
  if (const auto counts = session.preferred()) json["cache_bias"] = preference_json(*counts);
  return json;
}

}  // namespace moec
