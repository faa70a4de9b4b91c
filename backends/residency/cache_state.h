// State of an expert cache as a file from which a later run can continue.
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
  std::string model;   // model family
  std::string digest;  // digest of the export's experts (ExpertPlaces::digest())
  PolicyKind policy = PolicyKind::lru;
  int64_t step = 0;                     // last step of the run
  std::vector<ResidentExpert> experts;  // each at most once
  bool operator==(const CacheState&) const = default;
};

// Returns the `slots` most recently used experts per layer, latest first; layers ascending.
std::vector<ResidentExpert> latest_used(const CacheState& state, int64_t slots);

// Returns the text of the file.
std::string cache_state_text(const CacheState& state);

// Errors, with file and line: cache_state.syntax, cache_state.duplicate_key,
// cache_state.missing_field, cache_state.unknown_field, cache_state.bad_value (a repeated expert, a
// use after the last step, an impossible count).
Result<CacheState> parse_cache_state(std::string_view text, const std::string& file);

// Errors: cache_state.file, and those of parse_cache_state().
Result<CacheState> read_cache_state(const std::string& path);

}  // namespace moec
