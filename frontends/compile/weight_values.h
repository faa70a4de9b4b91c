// Reports weight values that overflow the exported element type, and values that are NaN or
// infinite in the checkpoint. They are errors, or warnings if ValueOptions allows them.
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

// Returns the name of the first checkpoint tensor that a view reads; empty if the view reads no
// tensor.
std::string first_tensor(const WeightView& view);

// Returns the findings for one weight with elements of type `dtype`.
Diagnostics judge_values(const EmittedTensor& weight, DType dtype, const ValueOptions& allowed,
                         const Place& place);

// Reads a view and checks its values without emitting them. If the view concatenates several
// tensors, each finding names the tensor with the bad values. Errors: those of
// WeightReader::stream().
Result<Diagnostics> scan_values(const WeightView& view, const WeightReader& reader,
                                const ValueOptions& allowed, const std::string& shard);

// Checks the weights of one shard while they are written. The first error aborts writing.
class WrittenValues {
 public:
  WrittenValues(const ValueOptions& allowed, std::string shard)
      : allowed_(allowed), shard_(std::move(shard)) {}

  // Callback for EmitOptions::on_written.
  Status take(const WeightView& view, const EmittedTensor& written);

  // Returns `failure`. If take() caused it, returns findings that name the checkpoint's tensors
  // instead.
  Diagnostics explain(Diagnostics failure, const WeightReader& reader) const;

 private:
  const ValueOptions& allowed_;
  std::string shard_;
  std::optional<WeightView> refused_;
};

// Returns true if the shard of an earlier run contains values that `allowed` refuses.
bool holds_refused_values(const EmitReport& part, const ValueOptions& allowed);

// Reads the weights of norms and routers, which affect every token, of a shard in form `model`.
// Fails if a weight has values that `allowed` refuses. `fine` contains the texts of checked views;
// skips these and adds the views that are read.
Status check_sensitive_weights(const Shard& shard, const WeightReader& reader,
                               const ValueOptions& allowed, std::set<std::string>& fine);

}  // namespace moec
