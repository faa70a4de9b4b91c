// Options of `moec analyze`, independent of the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/sources/family_options.h"

namespace moec {

// Error code of an analysis that AnalyzeOptions::stop aborted.
inline constexpr const char* kAnalyzeInterrupted = "analyze.interrupted";

// Source of the text. Exactly one of texts, tokens, prompts and prompt must be set.
struct AnalysisSource {
  std::vector<std::string> texts;   // files, one document each
  std::vector<std::string> tokens;  // files of token ids, one document each
  std::string prompts;              // "default", or the file of a suite (prompt_suite.h)
  int64_t window = 256;             // tokens per window; attention does not cross windows
  std::string prompt;               // the text itself

  bool given() const {
    return !prompt.empty() || !texts.empty() || !tokens.empty() || !prompts.empty();
  }
};

// Options of the table of costs (model_table.h).
struct TableOptions {
  std::string baseline;            // checkpoint or export to compare with; empty: none
  bool baseline_exported = false;  // the baseline is an export
  int64_t runs = 5;                // timed runs per step
  std::optional<double> energy_per_byte, energy_per_mac;  // in pJ; absent: horowitz_prices()
};

struct AnalyzeOptions {
  std::string source;  // checkpoint folder, GGUF file or exported folder
  bool exported = false;
  FamilyOptions family;
  AnalysisSource text;
  std::string imatrix;                       // file with counts, which replaces the text
  std::string folder;                        // output folder
  uint64_t group_bytes = uint64_t{1} << 30;  // CalibrateOptions::group_bytes; checkpoints only
  SessionOptions session;                    // exports only
  // Kernels that run a checkpoint; null: the sums of the reference executor.
  std::shared_ptr<const Products> products;
  bool imatrix_file = false;          // writes imatrix.gguf; checkpoints only
  bool pairs_file = false;            // writes coactivation.csv
  std::optional<TableOptions> table;  // also computes the table of costs; the text is then optional
  std::function<bool()> stop;         // may be empty
  std::function<void(uint64_t bytes, uint64_t total, const std::string& part)> progress;
};

}  // namespace moec
