// Calls of experts as bodies of HTTP requests: a line of JSON, followed by the rows as f32, little
// endian.
//
//   {"layer": 3, "numerics": "cpu f32 ", "shards": [{"name": "…", "digest": "…"}, …],
//    "inputs": [{"port": "x", "columns": 64, "count": 1}, …]}
//
// The rows of the inputs follow in their order. The reply has the form {"columns": 64, "count": 1}.
#pragma once

#include <string>
#include <string_view>

#include "backends/runtime/session/expert_peers.h"

namespace moec {

inline constexpr const char* kExpertsPath = "/v1/experts";

std::string call_text(const ExpertCall& call);
std::string rows_text(const Rows& rows);

// Errors: peers.bad_call (no line of JSON, missing or unknown fields, another number of bytes).
Result<ExpertCall> parse_call(std::string_view body);
Result<Rows> parse_rows(std::string_view body);

}  // namespace moec
