// Compares two exports of the same checkpoint on a text, to measure the cost of compression.
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
  std::string tokens_file;          // or a file of token ids
  int64_t window = 256;             // tokens per window, at most the maximum of both exports
  SessionOptions session;           // for both exports; each gets half of the memory
  TopKRequest top_k;                // for the compared export
  std::shared_ptr<Engine> engine;   // runs the compared export; null: that of `session`
  DType cache_dtype = DType::f32;   // SessionOptions::cache_dtype of the compared export
  CompareLimits limits;
  bool inside = false;  // also compare the values inside shards: CompareReport::inside
  // Receives the tokens that both exports processed since its previous call, and the total. May be
  // empty.
  std::function<void(uint64_t tokens, uint64_t total)> progress;
};

// Reports missed thresholds as findings compare.threshold, and logits that are NaN or infinite as a
// finding compare.nonfinite, not as errors. Errors: compare.checkpoint (the exports are of
// different checkpoints), those of read_windows() with codes compare.*, those of Session.
Result<CompareReport> compare_exports(const CompareOptions& options);

}  // namespace moec
