#include "frontends/compile/weight_values.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

// True for steps that apply to each element separately and keep its position. Only these steps can
// change the verdict on a value and also apply to a part of a concatenation.
bool changes_values_alone(const ViewStep& step) {
  return std::holds_alternative<CastStep>(step) || std::holds_alternative<ScaleStep>(step) ||
         std::holds_alternative<RemainderStep>(step) || std::holds_alternative<MapStep>(step);
}

// Splits a view into the parts that it concatenates, each followed by the view's elementwise steps.
// Returns the view itself if it is not a concatenation or if its steps combine elements.
std::vector<WeightView> joined_parts(const WeightView& view) {
  const auto* joined = std::get_if<ConcatSource>(&view.source);
  const bool apart = std::none_of(view.steps.begin(), view.steps.end(), [](const ViewStep& step) {
    return std::holds_alternative<DequantStep>(step) || std::holds_alternative<UnpackStep>(step) ||
           std::holds_alternative<UnblockStep>(step) || std::holds_alternative<CenterStep>(step) ||
           std::holds_alternative<BlockwiseStep>(step) || std::holds_alternative<GatherStep>(step);
  });
  if (joined == nullptr || !apart) return {view};
  std::vector<WeightView> all;
  for (WeightView part : joined->parts) {
    for (const ViewStep& step : view.steps)
      if (changes_values_alone(step)) part = then(std::move(part), step);
    for (WeightView& inner : joined_parts(part)) all.push_back(std::move(inner));
  }
  return all;
}

EmittedTensor counts_of(const StreamReport& report) {
  EmittedTensor counts;
  counts.overflows = report.overflows;
  counts.nonfinite = report.nonfinite;
  return counts;
}

const char* way_out(DType dtype) {
  return dtype == DType::f16
             ? "export with --dtype f32, with --fold-overflow if this is an up or down projection "
               "of an expert, or with --allow-overflow to write them as infinities"
             : "pass --allow-overflow to write them as infinities";
}

// Returns the operands of `op` in which a non-finite weight would make every token non-finite: the
// weights of norms and of routers.
std::vector<ValueId> sensitive_operands(const Shard& shard, const Op& op) {
  if (std::holds_alternative<RmsNorm>(op.data)) return {op.operands[1]};
  if (std::holds_alternative<Router>(op.data)) {
    // Operand 0 is the logits. The others are choice_bias and its low half.
    std::vector<ValueId> values(op.operands.begin() + 1, op.operands.end());
    // The router's matrix is an operand of the Linear that computes the logits. Operand 0 of the
    // Linear is the hidden state.
    if (shard.producer_as<Linear>(op.operands[0])) {
      const Op& linear = shard.ops[shard.values[op.operands[0]].producer];
      values.insert(values.end(), linear.operands.begin() + 1, linear.operands.end());
    }
    return values;
  }
  if (const auto* attention = std::get_if<Attention>(&op.data);
      attention && attention->qk_norm != QkNorm::none)
    return op.operands;  // the norm operands are the only ones produced by weights
  return {};
}

}  // namespace

std::string first_tensor(const WeightView& view) {
  std::string tensor;
  for_each_tensor(view, [&](const TensorSource& source, const Type&) {
    if (tensor.empty()) tensor = source.name;
  });
  return tensor;
}

Diagnostics judge_values(const EmittedTensor& weight, DType dtype, const ValueOptions& allowed,
                         const Place& place) {
  Diagnostics findings;
  const auto add = [&](uint64_t values, bool is_allowed, const char* code, std::string what,
                       const char* next) {
    if (values > 0)
      findings.push_back({is_allowed ? Severity::warning : Severity::error, code,
                          fmt::format("{} of its values {}", values, what), next, place});
  };
  add(weight.overflows, allowed.overflow, "export.cast_overflow",
      fmt::format("{} finite, but infinite in {}", weight.overflows == 1 ? "is" : "are",
                  dtype_name(dtype)),
      way_out(dtype));
  // `nonfinite` includes the `overflows`, which a cast, scale or dequantization caused. The
  // difference is what the checkpoint itself contains. The minimum prevents an unsigned
  // wrap-around.
  add(weight.nonfinite - std::min(weight.nonfinite, weight.overflows), allowed.nonfinite,
      "export.nonfinite_weight", "are NaN or infinite in the checkpoint",
      "download the file again, or pass --allow-nonfinite to export them unchanged");
  return findings;
}

Result<Diagnostics> scan_values(const WeightView& view, const WeightReader& reader,
                                const ValueOptions& allowed, const std::string& shard) {
  Diagnostics findings;
  for (const WeightView& part : joined_parts(view)) {
    MOEC_ASSIGN(const Type type, view_type(part));
    MOEC_ASSIGN(const StreamReport report, reader.scan(part));
    for (Diagnostic& finding : judge_values(counts_of(report), type.dtype, allowed,
                                            {.shard = shard, .tensor = first_tensor(part)}))
      findings.push_back(std::move(finding));
  }
  return findings;
}

Status WrittenValues::take(const WeightView& view, const EmittedTensor& written) {
  if (written.overflows == 0 && written.nonfinite == 0) return {};
  MOEC_ASSIGN(const Type type, view_type(view));
  Diagnostics findings =
      judge_values(written, type.dtype, allowed_, {.shard = shard_, .tensor = first_tensor(view)});
  if (!has_error(findings)) return {};
  refused_ = view;
  return fail(std::move(findings));
}

Diagnostics WrittenValues::explain(Diagnostics failure, const WeightReader& reader) const {
  if (!refused_) return failure;
  // Read without the shared series: it would wait for the other targets.
  auto findings = scan_values(*refused_, reader.with_series({}), allowed_, shard_);
  return findings && has_error(*findings) ? std::move(*findings) : failure;
}

// judge_values() uses the element type only in the text of findings, which is discarded here.
bool holds_refused_values(const EmitReport& part, const ValueOptions& allowed) {
  return std::any_of(part.tensors.begin(), part.tensors.end(), [&](const EmittedTensor& tensor) {
    return has_error(judge_values(tensor, DType::f32, allowed, {}));
  });
}

Status check_sensitive_weights(const Shard& shard, const WeightReader& reader,
                               const ValueOptions& allowed, std::set<std::string>& fine) {
  for (const Op& op : shard.ops)
    for (ValueId operand : sensitive_operands(shard, op)) {
      const auto* weight = shard.producer_as<Weight>(operand);
      // The shards and targets of an export share `fine`, because several of them often read the
      // same norm.
      if (!weight || !fine.insert(to_string(weight->view)).second) continue;
      MOEC_ASSIGN(Diagnostics findings, scan_values(weight->view, reader, allowed, shard.name));
      if (has_error(findings)) return fail(std::move(findings));
    }
  return {};
}

}  // namespace moec
