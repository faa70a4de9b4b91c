// Compares two exports of one checkpoint on a text: what the compression of one of them costs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/compare_report.h"

namespace moec {

struct CompareOptions {
  std::string reference, compared;  // exported folders
  std::vector<std::string> texts;   // files
  std::string tokens_file;          // or token ids
  int64_t window = 256;             // tokens that see one another, at most what both exports take
  SessionOptions session;           // of both; each may take half of its memory
  TopKRequest top_k;                // of the compared one
  CompareLimits limits;
  // Told of the bytes of tokens that went through both exports, and of those of all. May be empty.
  std::function<void(uint64_t bytes, uint64_t total)> progress;
};

// A missed threshold is no error of the function, but a finding compare.threshold; logits that are
// NaN or infinite are a finding compare.nonfinite. Errors: compare.checkpoint (the exports are not
// of one checkpoint), those of read_windows() as compare.…, those of Session.
Result<CompareReport> compare_exports(const CompareOptions& options);

}  // namespace moec
