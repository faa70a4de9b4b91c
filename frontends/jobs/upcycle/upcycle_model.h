// Makes a model with experts of a dense one, or of one with fewer experts (README.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/formats/safetensors/safetensors_layout.h"
#include "frontends/jobs/upcycle/result_folder.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Runs a dense model and what became of it side by side in the reference executor, in f32, on the
// same tokens, and compares their logits.

struct UpcycleComparison {
  int64_t tokens = 0;
  // The largest difference of two logits of a token, relative to the token's largest logit in the
  // dense model; of all tokens the largest.
  double max_error = 0;
  double mean_kl = 0;  // KL(dense || new) of a token, in nats
  double top1 = 0;     // share of the tokens with the same likeliest next token
  // Of all choices of all MoE layers: how many took each group of equal router rows as a
  // whole or not at all.
  int64_t choices = 0, whole = 0;

  bool within(double error) const { return max_error <= error; }
  double whole_rate() const {
    return choices == 0 ? 1 : static_cast<double>(whole) / static_cast<double>(choices);
  }
};

// `folder` holds the new checkpoint of the plan. Errors: those of open_source(), read_windows() (as
// upcycle.…), plan_model() and Executor; upcycle.nonfinite, kUpcycleInterrupted.
Result<UpcycleComparison> verify_upcycle(const UpcycleOptions& options, const UpcyclePlan& plan,
                                         const std::string& folder);

// Writes the files of a planned checkpoint into a folder: config.json, the tensors, their index and
// the files of the tokenizer. Memory does not depend on the sizes of the tensors.

// The files of the tensors. Errors: those of plan_safetensors().
Result<std::vector<SafetensorsPart>> plan_files(const UpcyclePlan& plan, uint64_t max_bytes);

struct WrittenCheckpoint {
  std::vector<WrittenFile> files;  // in their order
  uint64_t nonfinite = 0;          // values that are NaN or infinite
};

// Errors: kUpcycleInterrupted, those of WeightReader,
// PieceWriter, OutputFile and carry_files().
Result<WrittenCheckpoint> write_checkpoint(const UpcycleOptions& options, const UpcyclePlan& plan,
                                           const std::vector<SafetensorsPart>& parts,
                                           const std::string& folder);

struct UpcycleReport {
  std::string source, out;
  UpcyclePlan plan;
  uint64_t tensor_bytes = 0;       // of all tensors
  std::vector<WrittenFile> files;  // empty after a dry run
  std::optional<UpcycleComparison> comparison;
  double max_error = 0;  // that the comparison may have
  bool dry_run = false;

  // Whether the comparison, if there is one, is within its bound.
  bool passed() const { return !comparison || comparison->within(max_error); }
};

// Nothing is written before the whole plan is known to be good, and the folder appears only when it
// is complete and reads back as a checkpoint. Errors: those of plan_upcycle(), plan_multiplied(),
// ResultFolder, write_checkpoint(), open_source() and verify_upcycle(); output.in_source.
//
// Notes and warnings: those of open_source(), upcycle.idle_shared, upcycle.odd_width,
// upcycle.left_out,
// upcycle.nonfinite_weights, upcycle.other_weights (a model of `experts` has other attention, norms
// or embeddings).
Result<UpcycleReport> upcycle_model(const UpcycleOptions& options);

// The report of an upcycling as JSON (ir/base/report_json.h).

// The source, the new model's architecture and sizes, its class of exactness, the factors of its
// experts, the files with bytes and digests, and the comparison if there was one.
nlohmann::ordered_json upcycle_json(const UpcycleReport& report, double seconds);

// What falls short of the bound of --verify: an error upcycle.verify; empty: nothing.
Diagnostics shortfalls(const UpcycleReport& report);

}  // namespace moec
