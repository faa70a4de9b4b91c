#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/graph/rewriter.h"
#include "ir/graph/stored_codes.h"
#include "ir/graph/weight_form.h"
#include "passes/passes.h"
#include "passes/weight_sources.h"

namespace moec {
namespace {

// The number of equal parts that a view joins, and the axis along which it joins them.
struct JoinedParts {
  int64_t axis = 0, count = 1;
};

int64_t elements_before(const Dims& dims, int64_t axis) {
  int64_t product = 1;
  for (int64_t i = 0; i < axis; ++i) product *= dims.at(i);
  return product;
}

// Returns the parts after one more step; empty if they do not lie along a single axis. `dims` are
// the sizes before the step.
std::optional<JoinedParts> after_step(JoinedParts parts, const Dims& dims, const ViewStep& step) {
  const int64_t size = dims.at(parts.axis);
  if (const auto* reshape = std::get_if<ReshapeStep>(&step)) {
    for (int64_t axis = 0; axis < reshape->dims.rank(); ++axis)
      if (reshape->dims.at(axis) == size &&
          elements_before(reshape->dims, axis) == elements_before(dims, parts.axis))
        return JoinedParts{axis, parts.count};
    return std::nullopt;
  }
  if (const auto* permute = std::get_if<PermuteStep>(&step)) {
    const auto found = std::find(permute->axes.begin(), permute->axes.end(), parts.axis);
    return JoinedParts{found - permute->axes.begin(), parts.count};
  }
  if (const auto* slice = std::get_if<SliceStep>(&step)) {
    if (slice->axis != parts.axis) return parts;
    const int64_t each = size / parts.count;
    if (slice->begin % each != 0 || slice->size % each != 0) return std::nullopt;
    return JoinedParts{parts.axis, slice->size / each};
  }
  const bool keeps_axes =
      std::holds_alternative<CastStep>(step) || std::holds_alternative<ScaleStep>(step);
  return keeps_axes ? std::optional(parts) : std::nullopt;
}

// Returns the parts of a bank's weight, one per expert; one part if the view is not a join. Empty
// if the parts do not lie along a single axis.
std::optional<JoinedParts> joined_parts(const WeightView& view) {
  const auto* concat = std::get_if<ConcatSource>(&view.source);
  if (!concat) return JoinedParts{};
  std::optional<JoinedParts> parts =
      JoinedParts{concat->axis, static_cast<int64_t>(concat->parts.size())};
  const auto first = view_type(concat->parts.front());
  for (const WeightView& part : concat->parts)
    if (const auto type = view_type(part); !type || !first || type->dims != first->dims)
      return std::nullopt;
  WeightView prefix{view.source, view.source_type, {}};
  for (const ViewStep& step : view.steps) {
    const auto type = view_type(prefix);
    if (!type) return std::nullopt;
    parts = after_step(*parts, type->dims, step);
    if (!parts) return std::nullopt;
    prefix.steps.push_back(step);
  }
  return parts;
}

bool scales_experts(const WeightForm& form) {
  const auto* affine = std::get_if<AffineForm>(&form);
  return affine && affine->scope == ScaleScope::expert;
}

// True for [K, N], and for [1, …, K, N], which is used if activations have more axes.
bool is_one_matrix(const Dims& dims) {
  for (int64_t axis = 0; axis + 2 < dims.rank(); ++axis)
    if (dims.at(axis) != 1) return false;
  return dims.rank() >= 2;
}

// The view of a matrix with sizes `dims` as rows [N, K].
WeightView rows_of(WeightView view, const Dims& dims) {
  const int64_t rank = dims.rank();
  view = then(std::move(view), ReshapeStep{{dims.at(rank - 2), dims.at(rank - 1)}});
  return then(std::move(view), PermuteStep{{1, 0}});
}

// The inverse of rows_of() as ops: the matrix with sizes `dims` from its rows.
ValueId turned_back(Builder& b, ValueId rows, const Dims& dims) {
  const ValueId columns = b.transpose(rows, {1, 0});
  return dims.rank() == 2 ? columns : b.reshape(columns, dims);
}

// The use of a value, if all its uses agree. experts: the matrices of a moe, [E, N, K].
enum class MatrixUse : uint8_t { none, conv, matmul, experts, other };

class ShardEncoder {
 public:
  ShardEncoder(const Shard& shard, const WeightForms& forms, bool float_rows)
      : shard_(shard),
        forms_(forms),
        float_rows_(float_rows),
        uses_(shard.values.size(), MatrixUse::none) {
    for (const Op& op : shard.ops)
      for (size_t i = 0; i < op.operands.size(); ++i) note(op.operands[i], use_of(op, i));
    for (const Output& output : shard.outputs) note(output.value, MatrixUse::other);
  }

  Result<Shard> run() {
    Rewriter rewriter(shard_);
    for (OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (const auto* weight = std::get_if<Weight>(&op.data)) {
        MOEC_TRY(rewrite_weight(rewriter, id, *weight));
      } else if (op.operands.size() > 1 && turned_.contains(op.operands[1])) {
        std::vector<ValueId> operands = rewriter(op.operands);
        operands[1] = turned_back(rewriter.build(), operands[1], shard_.type(op.operands[1]).dims);
        rewriter.copy_as(id, op.data, std::move(operands));
      } else {
        rewriter.copy(id);
      }
    }
    return rewriter.finish();
  }

 private:
  MatrixUse use_of(const Op& op, size_t operand) const {
    if (std::holds_alternative<Moe>(op.data) && (operand == 2 || operand == 3))
      return MatrixUse::experts;
    if (operand != 1) return MatrixUse::other;
    const Dims& dims = shard_.type(op.operands[1]).dims;
    const auto* conv = std::get_if<Conv>(&op.data);
    if (conv && conv->groups == 1 && dims.at(2) == 1 && dims.at(3) == 1) return MatrixUse::conv;
    const bool matmul = std::holds_alternative<MatMul>(op.data) && is_one_matrix(dims);
    return matmul ? MatrixUse::matmul : MatrixUse::other;
  }

  void note(ValueId value, MatrixUse use) {
    MatrixUse& known = uses_[value];
    known = known == MatrixUse::none || known == use ? use : MatrixUse::other;
  }

  Status rewrite_weight(Rewriter& rewriter, OpId id, const Weight& weight) {
    const ValueId value = shard_.ops[id].results[0];
    const MatrixUse use = uses_[value];
    if (!is_plain(weight.encoding) || use == MatrixUse::none || use == MatrixUse::other) {
      rewriter.copy(id);
      return {};
    }
    WeightView view = weight.view;
    if (use == MatrixUse::matmul) view = rows_of(std::move(view), shard_.type(value).dims);
    auto encoding =
        use == MatrixUse::experts ? encoding_of_experts(view, value) : encoding_for(view, value);
    if (!encoding) return fail(placed(std::move(encoding.error()), value));
    const bool turns = use == MatrixUse::matmul && (float_rows_ || !is_plain(*encoding));
    if (!turns && is_plain(*encoding)) {
      rewriter.copy(id);
      return {};
    }
    if (turns) turned_.insert(value);
    rewriter.copy_as(id, Weight{std::move(view), std::move(*encoding)}, {});
    return {};
  }

  // `view` has the matrix's rows along its first axis and its inputs along the second.
  Result<Encoding> encoding_for(const WeightView& view, ValueId value) const {
    MOEC_ASSIGN(const WeightForm form, form_of(view));
    if (is_float(form)) return PlainEncoding{};
    MOEC_ASSIGN(EncodedMatrix matrix, matrix_of(view, value));
    if (is_copy(form)) return copied(view, matrix.name);
    if (scales_experts(form)) {
      const auto parts = joined_parts(view);
      if (!parts || parts->axis > 1)
        return fail(
            "weights.expert",
            fmt::format(
                "{} contains fractions of experts, so int8:expert cannot have one scale per expert",
                matrix.name),
            "use int8, or pass a larger --bank-channel-limit or --experts unrolled");
      matrix.experts = parts->count;
      matrix.expert_axis = parts->axis;
    }
    return encoding_of(form, matrix);
  }

  // The rows of all experts of a moe are encoded as one matrix. fuse_experts has checked the form:
  // each row, or each block of a row, has its own scale.
  Result<Encoding> encoding_of_experts(const WeightView& view, ValueId value) const {
    MOEC_ASSIGN(const WeightForm form, form_of(view));
    if (is_copy(form)) return copied(view, shard_.label(value));
    const Dims& dims = shard_.type(value).dims;
    const WeightView rows = then(view, ReshapeStep{{dims.at(0) * dims.at(1), dims.at(2)}});
    MOEC_ASSIGN(Encoding encoding, encoding_for(rows, value));
    if (auto* affine = std::get_if<AffineEncoding>(&encoding))
      affine->block = {1, affine->block.at(0), affine->block.at(1)};
    return encoding;
  }

  static Result<Encoding> copied(const WeightView& view, const std::string& name) {
    if (auto stored = stored_codes(view)) return std::move(stored->encoding);
    if (!decodes_stored(view)) return PlainEncoding{};
    return fail(
        "weights.copy", fmt::format("the codes of {} cannot be copied: {}", name, to_string(view)),
        "use a form other than copy, or pass --experts unrolled without slices: copying needs "
        "evenly spaced codes of 4 or 8 bits in whole blocks");
  }

  Result<EncodedMatrix> matrix_of(const WeightView& view, ValueId value) const {
    EncodedMatrix matrix;
    MOEC_ASSIGN(matrix.type, view_type(view));
    for_each_tensor(view, [&](const TensorSource& tensor, const Type&) {
      if (matrix.name.empty()) matrix.name = tensor.name;
    });
    if (matrix.name.empty()) matrix.name = shard_.label(value);
    return matrix;
  }

  // All sources of a view must have one form, because a bank has one encoding.
  Result<WeightForm> form_of(const WeightView& view) const {
    std::optional<std::string> first, other;
    each_source(view, [&](const std::string& source) {
      if (!first)
        first = source;
      else if (!other && forms_.of_source(source) != forms_.of_source(*first))
        other = source;
    });
    if (!first) return forms_.base;
    if (!other) return forms_.of_source(*first);
    return fail("weights.mixed",
                fmt::format("one weight joins {} as {} and {} as {}", *first,
                            to_string(forms_.of_source(*first)), *other,
                            to_string(forms_.of_source(*other))),
                "use one form for both, or pass --experts unrolled");
  }

  Diagnostics placed(Diagnostics findings, ValueId value) const {
    for (Diagnostic& finding : findings) {
      finding.place.shard = shard_.name;
      finding.place.op = shard_.label(value);
    }
    return findings;
  }

  const Shard& shard_;
  const WeightForms& forms_;
  const bool float_rows_;
  IdMap<ValueId, MatrixUse> uses_;
  std::set<ValueId> turned_;  // stored as [N, K]; matmuls read [K, N]
};

}  // namespace

Result<Shard> encode_weights(const Shard& shard, PassContext& context) {
  const WeightForms& forms = context.options.weights;
  const bool float_rows = context.options.target.engine.matrix_rows;
  if (forms.all_float() && !float_rows) return shard;
  return ShardEncoder(shard, forms, float_rows).run();
}

}  // namespace moec
