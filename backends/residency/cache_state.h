// What a cache of experts knows, as a file, so that a later run begins where an earlier one ended.
//
//   {"format": "moec.expert_cache", "version": 1,
//    "model": "qwen3_moe", "digest": "…", "policy": "lcp", "step": 812,
//    "experts": [{"layer": 0, "expert": 3, "count": 5, "last_step": 811, "last_use": 3120}, …]}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/residency/expert_policy.h"

namespace moec {

struct CacheState {
  std::string model;   // its family
  std::string digest;  // of its experts, as an export has them
  PolicyKind policy = PolicyKind::lru;
  int64_t step = 0;                     // of the run
  std::vector<ResidentExpert> experts;  // each once
  bool operator==(const CacheState&) const = default;
};

// Of each layer the `slots` experts that were used last, the latest one first; layers ascending.
std::vector<ResidentExpert> latest_used(const CacheState& state, int64_t slots);

// The text of the file.
std::string cache_state_text(const CacheState& state);

// Errors: cache_state.syntax, cache_state.duplicate_key, cache_state.missing_field,
// cache_state.unknown_field, cache_state.bad_value (an expert twice, a use behind the last step, a
// count that cannot be), each with file and line.
Result<CacheState> parse_cache_state(std::string_view text, const std::string& file);

// Errors: cache_state.file, and those of parse_cache_state().
Result<CacheState> read_cache_state(const std::string& path);

}  // namespace moec
