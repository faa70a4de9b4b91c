// What `moec analyze` is asked to do, as a program without a command line would say it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/sources/family_options.h"

namespace moec {

// The code of the error that ends an analysis when AnalyzeOptions::stop returns true.
inline constexpr const char* kAnalyzeInterrupted = "analyze.interrupted";

// One of the four kinds is given.
struct AnalysisSource {
  std::vector<std::string> texts;   // files, a document each
  std::vector<std::string> tokens;  // files of token ids, a document each
  std::string prompts;              // a suite: "default", or a file (prompt_suite.h)
  int64_t window = 256;             // tokens that see one another
  std::string prompt;               // or a text itself

  bool given() const {
    return !prompt.empty() || !texts.empty() || !tokens.empty() || !prompts.empty();
  }
};

// What the table of costs (model_table.h) is asked to show.
struct TableOptions {
  std::string baseline;            // a checkpoint or an export to compare with; empty: none
  bool baseline_exported = false;  // it is an export
  int64_t runs = 5;                // of each step that is timed
  std::optional<double> energy_per_byte, energy_per_mac;  // in pJ; nothing: energy.h
};

struct AnalyzeOptions {
  std::string source;  // a checkpoint folder, a GGUF file or an exported folder
  bool exported = false;
  FamilyOptions family;
  AnalysisSource text;
  std::string imatrix;                       // a file to read the counts from, instead of a text
  std::string folder;                        // of the results
  uint64_t group_bytes = uint64_t{1} << 30;  // CalibrateOptions::group_bytes, of a checkpoint
  SessionOptions session;                    // of an export
  bool imatrix_file = false;                 // write imatrix.gguf; of a checkpoint
  bool pairs_file = false;                   // write coactivation.csv
  std::optional<TableOptions> table;         // the table of costs, too; a text is not needed then
  std::function<bool()> stop;                // may be empty
  std::function<void(uint64_t bytes, uint64_t total, const std::string& part)> progress;
};

}  // namespace moec
