#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "ir/graph/stored_codes.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"
#include "passes/token_layout.h"
#include "passes/weight_sources.h"

namespace moec {
namespace {

using ExpertOperands = SoftMoeOperands<ValueId>;
using Views = MlpParts<const WeightView*>;

// QMoE computes with blocks of a power of two, from this size on.
constexpr int64_t kLeastBlock = 16;

// The weights of a fused op: interleaved gates and ups of all experts, and their downs.
struct StackedViews {
  WeightView gate_up, down;
};

// [count, …] as [1, count, …].
WeightView with_leading_one(WeightView view) {
  Dims dims = view_type(view)->dims;
  dims.insert(dims.begin(), 1);
  return then(std::move(view), ReshapeStep{std::move(dims)});
}

// Rows of a and b alternately, with a leading axis of size 1: [f, …] and [f, …] as [1, 2f, …].
WeightView interleaved(const WeightView& a, const WeightView& b) {
  const Dims rows = view_type(a)->dims;
  Dims apart = rows, joined = rows;
  apart.insert(apart.begin() + 1, 1);
  joined.at(0) *= 2;
  joined.insert(joined.begin(), 1);
  WeightView pairs = concat_view(1, {then(a, ReshapeStep{apart}), then(b, ReshapeStep{apart})});
  return then(std::move(pairs), ReshapeStep{std::move(joined)});
}

StackedViews stacked(const std::vector<Views>& experts) {
  std::vector<WeightView> pairs, downs;
  for (const Views& expert : experts) {
    pairs.push_back(interleaved(*expert.gate, *expert.up));
    downs.push_back(with_leading_one(*expert.down));
  }
  return {concat_view(0, std::move(pairs)), concat_view(0, std::move(downs))};
}

// The form of codes in a fused op: one for all its matrices.
struct Codes {
  int64_t bits = 0, block = 0;  // block 0: one scale per row
  bool operator==(const Codes&) const = default;
};

// One soft_moe op, and the reason why it cannot become a moe op, if there is one.
class Candidate {
 public:
  Candidate(const Shard& shard, const Op& op, const WeightForms& forms)
      : shard_(shard),
        moe_(std::get<SoftMoe>(op.data)),
        operands_(soft_moe_operands<ValueId>(moe_, op.operands)),
        forms_(forms) {
    weights_ = views_of(operands_.weights);
    biases_ = views_of(operands_.biases);
  }

  const std::vector<Views>& weights() const { return weights_; }
  const std::vector<Views>& biases() const { return biases_; }

  // Empty if the op can be fused.
  std::string refusal() const {
    if (moe_.weight_on == RoutedWeight::input)
      return "the routing weight multiplies the input of an expert";
    const Activation activation = moe_.gating.activation;
    if (activation != Activation::silu && activation != Activation::clamped_swiglu)
      return fmt::format("the activation is {}", enum_name(activation));
    if (!all_known_) return "a weight is not read from the checkpoint";
    return refusal_of_forms();
  }

  // True if onnxruntime rounds the activations: codes of 8 bits with a scale per block.
  bool rounds_activations() const {
    const std::optional<WeightForm> form = common_form();
    const std::optional<Codes> codes = form ? codes_of(*form) : std::nullopt;
    return codes && codes->bits == 8 && codes->block > 0;
  }

 private:
  std::vector<Views> views_of(const std::vector<MlpParts<ValueId>>& parts) {
    const auto view = [&](ValueId value) -> const WeightView* {
      const auto* weight = value.valid() ? shard_.producer_as<Weight>(value) : nullptr;
      all_known_ &= weight != nullptr;
      return weight ? &weight->view : nullptr;
    };
    std::vector<Views> views;
    for (const MlpParts<ValueId>& part : parts)
      views.push_back({view(part.gate), view(part.up), view(part.down)});
    return views;
  }

  // The form that all matrices have; nullopt if forms differ.
  std::optional<WeightForm> common_form() const {
    std::optional<WeightForm> form;
    bool differ = false;
    for (const Views& expert : weights_)
      for (const WeightView* view : {expert.gate, expert.up, expert.down})
        each_source(*view, [&](const std::string& source) {
          const WeightForm& own = forms_.of_source(source);
          if (!form) form = own;
          differ |= own != *form;
        });
    if (differ) return std::nullopt;
    return form.value_or(forms_.base);
  }

  DType dtype() const { return shard_.type(operands_.x).dtype; }

  std::string refusal_of_forms() const {
    const std::optional<WeightForm> form = common_form();
    if (!form) return "the matrices have different weight forms";
    if (dtype() == DType::bf16) return "onnxruntime has no bf16 kernel";
    if (is_float(*form) || (is_copy(*form) && !any_stored_codes())) {
      // The logarithm of a routing weight, which the float op reads, has few digits in f16.
      return dtype() == DType::f32 ? "" : "f16 rounds the logarithms of routing weights";
    }
    const std::optional<Codes> codes = codes_of(*form);
    if (!codes) return fmt::format("the op has no weight form {}", to_string(*form));
    if (codes->block == 0 || (divides(codes->block) && codes->block >= kLeastBlock &&
                              std::has_single_bit(static_cast<uint64_t>(codes->block))))
      return {};
    return fmt::format("the inputs of the matrices are not several blocks of {}", codes->block);
  }

  // True if the checkpoint stores codes of at least one matrix; the others may be floats.
  bool any_stored_codes() const {
    return std::any_of(weights_.begin(), weights_.end(), [](const Views& of) {
      return decodes_stored(*of.gate) || decodes_stored(*of.up) || decodes_stored(*of.down);
    });
  }

  // True if the inputs of all matrices are whole blocks. A row of one block would count as a row
  // with one scale if codes have 8 bits.
  bool divides(int64_t block) const {
    const Views& expert = weights_.front();
    const auto fits = [&](const WeightView& view) {
      const int64_t inputs = view_type(view)->dims.at(1);
      return inputs % block == 0 && inputs > block;
    };
    return fits(*expert.up) && fits(*expert.down);
  }

  // The codes in which the op stores matrices of a form; nullopt if it cannot.
  std::optional<Codes> codes_of(const WeightForm& form) const {
    if (const auto* affine = std::get_if<AffineForm>(&form)) {
      // 8-bit codes have no zero points.
      if (affine->zero_point && affine->bits == 8) return std::nullopt;
      if (affine->scope == ScaleScope::block) return Codes{affine->bits, affine->block};
      return affine->scope == ScaleScope::row ? std::optional(Codes{affine->bits, 0})
                                              : std::nullopt;
    }
    if (!is_copy(form)) return std::nullopt;
    const StackedViews all = stacked(weights_);
    const std::optional<Codes> gate_up = copied_codes(all.gate_up), down = copied_codes(all.down);
    return gate_up == down ? gate_up : std::nullopt;
  }

  // Copied zeros are floats, which the op does not accept.
  static std::optional<Codes> copied_codes(const WeightView& view) {
    const std::optional<StoredCodes> stored = stored_codes(view);
    if (!stored || stored->zeros) return std::nullopt;
    const AffineEncoding& encoding = stored->encoding;
    return Codes{encoding.bits, encoding.block.back()};
  }

  const Shard& shard_;
  const SoftMoe& moe_;
  const ExpertOperands operands_;
  const WeightForms& forms_;
  std::vector<Views> weights_, biases_;
  bool all_known_ = true;
};

// The maximum number of experts of a token: the top-k of the router in the shard, or all.
int64_t chosen_experts(const Shard& shard, ValueId routing, int64_t experts) {
  while (shard.values[routing].producer.valid()) {
    const Op& op = shard.ops[shard.values[routing].producer];
    if (const auto* router = std::get_if<Router>(&op.data)) return std::min(router->top_k, experts);
    // Weights that are scaled, capped, cut to the experts of the shard, or converted.
    const bool keeps_zeros =
        std::holds_alternative<Slice>(op.data) || std::holds_alternative<Cast>(op.data) ||
        (std::holds_alternative<Binary>(op.data) && std::get<Binary>(op.data).fn == BinaryFn::mul);
    if (!keeps_zeros) break;
    routing = op.operands.front();
  }
  return experts;
}

class Fuser {
 public:
  Fuser(const Shard& shard, PassContext& context)
      : shard_(shard), context_(context), rewriter_(shard) {}

  Shard run() {
    for (OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (!std::holds_alternative<SoftMoe>(op.data)) {
        rewriter_.copy(id);
        continue;
      }
      const Candidate candidate(shard_, op, context_.options.weights);
      if (const std::string cause = candidate.refusal(); !cause.empty()) {
        note_kept(id, cause);
        rewriter_.copy(id);
      } else {
        if (candidate.rounds_activations()) note_rounded(id);
        rewriter_.replace(id, {fused(id, candidate)});
      }
    }
    return rewriter_.finish();
  }

 private:
  Place place_of(OpId id) const {
    return {.shard = shard_.name, .op = shard_.label(shard_.ops[id].results[0])};
  }

  void note_kept(OpId id, const std::string& cause) {
    context_.notes.push_back(
        {Severity::note, "experts.not_fused", fmt::format("the experts stay separate: {}", cause),
         "pass --routing rank or topk if all layers must have one form", place_of(id)});
  }

  void note_rounded(OpId id) {
    context_.notes.push_back(
        {Severity::warning, "experts.inexact",
         "onnxruntime rounds the activations of experts with int8 blocks to int8 (relative error "
         "1e-2)",
         "use int8 or int4:32 for experts, or run with ORT_QMOE_CPU_QNBIT_GEMM=fp32",
         place_of(id)});
  }

  ValueId fused(OpId id, const Candidate& candidate) {
    const Op& op = shard_.ops[id];
    const auto& moe = std::get<SoftMoe>(op.data);
    Builder& b = rewriter_.build();
    Builder::NameScope outer(b, outer_scope(rewriter_, id));
    Builder::NameScope scope(b, "experts");
    const ValueId x = rewriter_(op.operands[0]);
    ValueId routing = rewriter_(op.operands[1]);
    if (moe.experts < channels_of(b.type(routing)))
      routing = b.slice(routing, kChannelAxis, moe.first_expert, moe.experts, "routing");
    StackedViews weights = stacked(candidate.weights());
    std::vector<ValueId> operands = {to_layout(b, x, Layout::rows),
                                     to_layout(b, routing, Layout::rows),
                                     b.weight(std::move(weights.gate_up), "gate_up.weight"),
                                     b.weight(std::move(weights.down), "down.weight")};
    if (!candidate.biases().empty()) {
      StackedViews biases = stacked(candidate.biases());
      operands.push_back(b.weight(std::move(biases.gate_up), "gate_up.bias"));
      operands.push_back(b.weight(std::move(biases.down), "down.bias"));
    }
    const Moe data{chosen_experts(shard_, op.operands[1], moe.experts), moe.gating};
    return to_layout(b, b.emit(data, std::move(operands)), b.type(x).layout);
  }

  const Shard& shard_;
  PassContext& context_;
  Rewriter rewriter_;
};

}  // namespace

Result<Shard> fuse_experts(const Shard& shard, PassContext& context) {
  return Fuser(shard, context).run();
}

}  // namespace moec
