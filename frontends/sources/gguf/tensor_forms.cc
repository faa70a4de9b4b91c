#include "frontends/sources/gguf/tensor_forms.h"

#include <algorithm>
#include <array>
#include <utility>

#include "frontends/sources/gguf/model_concepts.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

constexpr std::array<std::string_view, 4> kRotatedRoles = {"q", "k", "q_bias", "k_bias"};

// The dims of `axis` from `begin` on are a grid [outer, inner, size].
struct AxisGrid {
  int64_t axis = 0, begin = 0, outer = 1, inner = 1, size = 1;
  AxisGrid transposed() const { return {axis, begin, inner, outer, size}; }
};

// Exchanges the outer and the inner axis of the grid.
WeightView with_transposed(WeightView view, const Dims& dims, const AxisGrid& grid) {
  const int64_t moved = grid.outer * grid.inner * grid.size;
  const auto part = [&](int64_t begin, int64_t size) {
    return then(view, SliceStep{grid.axis, begin, size});
  };
  Dims split, same = dims;
  same.at(grid.axis) = moved;
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < dims.rank(); ++axis) {
    if (axis != grid.axis) {
      order.push_back(split.rank());
      split.push_back(dims.at(axis));
      continue;
    }
    const int64_t first = split.rank();
    order.insert(order.end(), {first + 1, first, first + 2});
    for (const int64_t size : {grid.outer, grid.inner, grid.size}) split.push_back(size);
  }
  WeightView turned =
      then(then(then(part(grid.begin, moved), ReshapeStep{std::move(split)}), PermuteStep{order}),
           ReshapeStep{std::move(same)});
  if (grid.begin == 0) return turned;
  return concat_view(grid.axis, {part(0, grid.begin), std::move(turned)});
}

// The value heads in a tensor of a gated delta net; absent if it has none.
std::optional<AxisGrid> value_heads_of(const FormedTensor& tensor) {
  if (!tensor.model.recurrent) return std::nullopt;
  const RecurrentConfig& config = *tensor.model.recurrent;
  const int64_t keys = config.key_heads;
  if (keys == 0) return std::nullopt;
  const int64_t shared = config.value_heads / keys;
  const std::string_view role = tensor.role;
  if (role == "mixer_qkv" || role == "mixer_conv")
    return AxisGrid{0, 2 * keys * config.key_dim, keys, shared, config.value_dim};
  if (role == "mixer_z") return AxisGrid{0, 0, keys, shared, config.value_dim};
  if (role == "mixer_out") return AxisGrid{1, 0, keys, shared, config.value_dim};
  const bool per_head =
      role == "mixer_a" || role == "mixer_b" || role == "mixer_decay" || role == "mixer_decay_bias";
  return per_head ? std::optional(AxisGrid{0, 0, keys, shared, 1}) : std::nullopt;
}

// The grid of rows that the file has transposed: [2, half] of each head of q and k in the family's
// order, with the heads outside of the grid, or the value heads.
class Orders {
 public:
  Orders(const GgufForms& forms, const FormedTensor& tensor) : forms_(forms), tensor_(tensor) {}

  WeightView applied(WeightView view, bool to_file) const {
    if (const auto grid = heads(); grid && grid->inner > 1)
      view = with_transposed(std::move(view), tensor_.dims, to_file ? *grid : grid->transposed());
    return rotates() ? with_pairs(std::move(view), to_file) : view;
  }

 private:
  std::optional<AxisGrid> heads() const {
    return forms_.value_heads == GgufHeads::tiled ? value_heads_of(tensor_) : std::nullopt;
  }

  bool rotates() const {
    return forms_.rows == GgufRows::pairs && std::find(kRotatedRoles.begin(), kRotatedRoles.end(),
                                                       tensor_.role) != kRotatedRoles.end();
  }

  // Reorders the rows of each head from [2, half] to [half, 2], or back.
  WeightView with_pairs(WeightView view, bool to_file) const {
    const Dims& dims = tensor_.dims;
    const AttentionConfig& attention =
        tensor_.model.attention_of(at(tensor_.model.layers, tensor_.layer));
    const int64_t count = tensor_.role.starts_with('q') ? attention.heads : attention.kv_heads;
    // Heads with an odd number of dims cannot rotate, so their rows form no pairs.
    if (dims.at(0) % (2 * count) != 0) return view;
    const int64_t half = dims.at(0) / count / 2;
    Dims split = to_file ? Dims{count, 2, half} : Dims{count, half, 2};
    std::vector<int64_t> order = {0, 2, 1};
    if (dims.rank() == 2) {
      split.push_back(dims.at(1));
      order.push_back(3);
    }
    return then(then(then(std::move(view), ReshapeStep{std::move(split)}), PermuteStep{order}),
                ReshapeStep{dims});
  }

  const GgufForms& forms_;
  const FormedTensor& tensor_;
};

const GgufTensorForm* find_form(const GgufForms& forms, std::string_view role) {
  const auto found = forms.roles.find(role);
  return found == forms.roles.end() ? nullptr : &found->second;
}

MapFn inverse_of(MapFn function) {
  switch (function) {
    case MapFn::neg_exp:
      return MapFn::log_neg;
    case MapFn::log_neg:
      return MapFn::neg_exp;
    case MapFn::plus_one:
      return MapFn::minus_one;
    case MapFn::minus_one:
      break;
  }
  return MapFn::plus_one;
}

}  // namespace

Status read_tensor_form(JsonFields& fields, GgufTensorForm& form) {
  if (fields.has("as")) MOEC_TRY(fields.choice("as", form.as.emplace()));
  return fields.has("dims") ? fields.texts("dims", form.dims) : Status();
}

Dims gguf_dims(const GgufForms& forms, const FormedTensor& tensor) {
  const GgufTensorForm* form = find_form(forms, tensor.role);
  if (form == nullptr || form->dims.empty()) return tensor.dims;
  Dims dims;
  int64_t known = 1, elements = 1;
  for (const int64_t size : tensor.dims) elements *= size;
  for (const std::string& text : form->dims) {
    const auto number = parse_number<int64_t>(text);
    dims.push_back(
        number ? *number : static_cast<int64_t>(concept_number(concept_value(tensor.model, text))));
    if (dims.back() > 0) known *= dims.back();
  }
  for (int64_t axis = 0; axis < dims.rank(); ++axis)
    if (dims.at(axis) < 0) dims.at(axis) = elements / known;
  return dims;
}

WeightView to_gguf_form(const GgufForms& forms, const FormedTensor& tensor, WeightView view) {
  view = Orders(forms, tensor).applied(std::move(view), true);
  const GgufTensorForm* form = find_form(forms, tensor.role);
  if (form != nullptr && form->as) view = then(std::move(view), MapStep{*form->as});
  return then(std::move(view), ReshapeStep{gguf_dims(forms, tensor)});
}

WeightView from_gguf_form(const GgufForms& forms, const FormedTensor& tensor, WeightView view) {
  view = then(std::move(view), ReshapeStep{tensor.dims});
  const GgufTensorForm* form = find_form(forms, tensor.role);
  if (form != nullptr && form->as) view = then(std::move(view), MapStep{inverse_of(*form->as)});
  return Orders(forms, tensor).applied(std::move(view), false);
}

}  // namespace moec
