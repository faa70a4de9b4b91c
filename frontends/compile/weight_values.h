// Judges the values of emitted weights: finite ones that are too large for the element type, and
// those that are NaN or infinite in the checkpoint. Both are errors unless ValueOptions allows
// them, then warnings.
//   export.cast_overflow       values became infinite
//   export.nonfinite_weight    values are NaN or infinite in the checkpoint
#pragma once

#include <optional>
#include <set>
#include <string>

#include "backends/emit/emit.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/compile/compile_options.h"
#include "ir/graph/shard.h"

namespace moec {

// The first checkpoint tensor that a view reads; empty where it reads none.
std::string first_tensor(const WeightView& view);

// The findings of one weight in elements of `dtype`.
Diagnostics judge_values(const EmittedTensor& weight, DType dtype, const ValueOptions& allowed,
                         const Place& place);

// Reads a view only to judge its values. Where it joins several tensors, each finding names the one
// with the values. Errors: those of WeightReader::stream().
Result<Diagnostics> scan_values(const WeightView& view, const WeightReader& reader,
                                const ValueOptions& allowed, const std::string& shard);

// Judges the weights of one part while they are written, which ends at the first error.
class WrittenValues {
 public:
  WrittenValues(const ValueOptions& allowed, std::string shard)
      : allowed_(allowed), shard_(std::move(shard)) {}

  // For EmitOptions::on_written.
  Status take(const WeightView& view, const EmittedTensor& written);

  // The failure of an emission; if take() caused it, with the names of the checkpoint's tensors.
  Diagnostics explain(Diagnostics failure, const WeightReader& reader) const;

 private:
  const ValueOptions& allowed_;
  std::string shard_;
  std::optional<WeightView> refused_;
};

// Whether an earlier run wrote the part only because it allowed values that `allowed` does not.
bool holds_refused_values(const EmitReport& part, const ValueOptions& allowed);

// Reads the weights of a shard in form `model` that every token depends on (those of norms and
// routers) and fails if one of them has values that are not allowed. `fine` holds the texts of
// views that were read before; those that are read now are added.
Status check_sensitive_weights(const Shard& shard, const WeightReader& reader,
                               const ValueOptions& allowed, std::set<std::string>& fine);

}  // namespace moec
