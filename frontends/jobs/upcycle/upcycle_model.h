// Makes a model with experts of a dense one, or of one with fewer experts (README.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/verify_upcycle.h"
#include "frontends/jobs/upcycle/write_checkpoint.h"
#include "ir/base/diagnostics.h"

namespace moec {

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

}  // namespace moec
