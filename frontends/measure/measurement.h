// Raw measurements of an analysis.
#pragma once

#include "frontends/measure/analyze_options.h"
#include "frontends/measure/layer_counter.h"

namespace moec {

struct Measurement {
  std::string model;       // family
  std::string checkpoint;  // ExpertProfile::checkpoint
  std::string source;      // ExpertProfile::source
  int64_t experts = 0, top_k = 0;
  Text text;
  std::vector<LayerMeasurement> layers;  // ascending
  Diagnostics notes;
};

// Maximum number of pairs of experts in a profile (expert_profile.h). Models with more pairs have
// no pair counts.
inline constexpr int64_t kMaxPairs = int64_t{1} << 23;

// Fails with analyze.interrupted if options.stop returns true.
Status check_not_stopped(const AnalyzeOptions& options);
// Returns an observer of a session that checks for a stop and reports the progress in tokens. The
// arguments must outlive it.
Observer follow_run(const AnalyzeOptions& options, const Text& text);

// Reads the texts, token ids or prompts of the options and cuts them into windows of at most
// `positions` tokens. Errors: those of read_windows() with the prefix "analyze."; those of
// read_prompt_suite().
Result<Text> read_analysis_text(const AnalyzeOptions& options, const ModelTokenizer& tokenizer,
                                int64_t positions);
// As above, with the tokenizer and the longest window of the export options.source.
Result<Text> read_analysis_text(const AnalyzeOptions& options, const Manifest& manifest);

// Fails with analyze.no_experts if there are no MoE layers.
Status check_has_experts(int64_t layers, const std::string& source);

// Returns true if the number of pairs is within kMaxPairs; otherwise adds the note
// analyze.no_pairs.
bool counts_pairs(int64_t layers, int64_t experts, Diagnostics& notes);

}  // namespace moec
