// Makes an MoE checkpoint from a dense one, or from one with fewer experts (README.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/checkpoint/result_folder.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Comparison of the dense and the new model's logits. The reference executor runs both models in
// f32 on the same tokens.
struct UpcycleComparison {
  int64_t tokens = 0;
  // Maximum over tokens: largest logit difference, relative to the largest logit of the dense
  // model.
  double max_error = 0;
  double mean_kl = 0;  // KL(dense || new) per token, in nats
  double top1 = 0;     // share of tokens with the same most likely next token
  // Routing decisions of all MoE layers, and how many of them picked each group of equal router
  // rows either completely or not at all.
  int64_t choices = 0, whole = 0;

  bool within(double error) const { return max_error <= error; }
  double whole_rate() const {
    return choices == 0 ? 1 : static_cast<double>(whole) / static_cast<double>(choices);
  }
};

// Compares the source with the new checkpoint in `folder`. Errors: those of open_source(),
// read_windows() (with codes upcycle.*), plan_model() and Executor; upcycle.nonfinite,
// kUpcycle.interrupted().
Result<UpcycleComparison> verify_upcycle(const UpcycleOptions& options, const UpcyclePlan& plan,
                                         const std::string& folder);

struct UpcycleReport {
  std::string source, out;
  UpcyclePlan plan;
  uint64_t tensor_bytes = 0;       // of all tensors
  std::vector<WrittenFile> files;  // empty after a dry run
  std::optional<UpcycleComparison> comparison;
  double max_error = 0;  // maximum that the comparison allows
  bool dry_run = false;

  // True if there was no comparison or its error is within the maximum.
  bool passed() const { return !comparison || comparison->within(max_error); }
};

// Validates the whole plan before writing anything. The folder appears only when it is complete and
// reads back as a checkpoint. Errors: those of plan_upcycle(), plan_multiplied(), ResultFolder,
// publish_checkpoint(), open_source() and verify_upcycle(); output.in_source.
//
// Notes and warnings: those of open_source(), upcycle.idle_shared, upcycle.odd_width,
// upcycle.left_out, upcycle.nonfinite_weights, upcycle.other_weights (attention, norms or
// embeddings of an --expert model differ from the dense model's).
Result<UpcycleReport> upcycle_model(const UpcycleOptions& options);

// The report as JSON (ir/base/report_json.h): source, architecture and sizes of the new model, its
// exactness class, factors of its experts, files with bytes and digests, and the comparison, if
// there is one.
nlohmann::ordered_json upcycle_json(const UpcycleReport& report, double seconds);

// Returns the error upcycle.verify if the comparison exceeds its maximum; empty otherwise.
Diagnostics shortfalls(const UpcycleReport& report);

}  // namespace moec
