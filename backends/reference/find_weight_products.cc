#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "backends/reference/program.h"

namespace moec {
namespace {

class ProductFinder {
 public:
  explicit ProductFinder(const Program& program)
      : program_(program), shard_(program.shard), users_(find_users(shard_)) {
    for (const Output& output : shard_.outputs) is_output_[output.value] = 1;
  }

  WeightProducts find() {
    for (const OpId id : op_ids(shard_))
      if (auto product = product_of(id)) add(*product);
    fold_tokens();
    return std::move(found_);
  }

 private:
  const Type& type(ValueId id) const { return shard_.type(id); }

  // True if the op is computed for the only token or not at all, not for some of several indices.
  bool is_undivided(OpId id) const {
    const uint32_t gate = program_.gates.of_op[id];
    return gate == Gates::kNone || program_.gates.is_of_one_token(shard_, gate);
  }

  // True for weights that are in memory, stored, or bound by their unit.
  bool is_weight(ValueId id) const {
    const auto& paged = program_.paged.values[id];
    return paged ? !paged->as_tensor : program_.is_fixed[id] != 0;
  }

  bool is_turned(ValueId weight) const {
    const auto& paged = program_.paged.values[weight];
    const auto& stored = program_.stored[weight];
    return paged ? paged->is_turned : stored && stored->is_turned();
  }

  std::optional<WeightProduct> product_of(OpId id) const {
    const Op& op = shard_.ops[id];
    if (!is_undivided(id)) return {};
    std::optional<WeightProduct> product;
    if (std::holds_alternative<MatMul>(op.data)) product = product_of_rows(op);
    if (const auto* conv = std::get_if<Conv>(&op.data)) product = product_of_channels(op, *conv);
    if (!product || is_brought(program_, product->token)) return {};
    product->op = id;
    product->token = source_of(product->token, id);
    product->result = op.results.front();
    return product;
  }

  // [.., 1, inner] · [.., inner, outputs]
  std::optional<WeightProduct> product_of_rows(const Op& op) const {
    const ValueId x = op.operands[0], w = op.operands[1];
    const int64_t inner = type(x).dims.back(), outputs = type(w).dims.back();
    const bool is_one = type(x).elements() == inner && type(w).elements() == inner * outputs;
    if (!is_one || !is_weight(w)) return {};
    return WeightProduct{{}, x, w, {}, !is_turned(w), inner, outputs};
  }

  // A convolution of one position, without a bias.
  std::optional<WeightProduct> product_of_channels(const Op& op, const Conv& conv) const {
    const ValueId x = op.operands[0], w = op.operands[1];
    const int64_t outputs = type(w).dims[0], inner = type(w).dims[1];
    const bool is_one = op.operands.size() == 2 && conv.groups == 1 &&
                        type(x).elements() == inner && type(w).elements() == inner * outputs;
    if (!is_one || !is_weight(w)) return {};
    return WeightProduct{{}, x, w, {}, false, inner, outputs};
  }

  const Reshape* computed_reshape(ValueId id) const {
    return is_brought(program_, id) ? nullptr : shard_.producer_as<Reshape>(id);
  }

  // True if `user` can read what the reshape reads: a closed part of another gate would have no
  // tensor for it.
  bool is_seen_through(OpId reshape, OpId user) const {
    const uint32_t gate = program_.gates.of_op[reshape];
    return gate == Gates::kNone || gate == program_.gates.of_op[user];
  }

  // The value that a chain of reshapes begins with. A reshape that a product writes has no operand.
  ValueId source_of(ValueId id, OpId user) const {
    for (OpId op = shard_.values[id].producer; computed_reshape(id) != nullptr;
         op = shard_.values[id].producer) {
      if (found_.is_folded[op] || !is_seen_through(op, user)) break;
      id = shard_.ops[op].operands.front();
    }
    return id;
  }

  void add(WeightProduct product) {
    fold_results(product);
    const auto key = std::pair(product.token, program_.gates.of_op[product.op]);
    const auto [place, is_new] = group_of_.try_emplace(key, found_.groups.size());
    if (is_new) found_.groups.emplace_back();
    is_product_[product.op] = 1;
    found_.groups[place->second].push_back(product);
  }

  // Lets the product write the result of the reshapes that follow it.
  void fold_results(WeightProduct& product) {
    while (users_[product.result].size() == 1 && !is_output_[product.result]) {
      const OpId user = users_[product.result].front();
      const bool is_same_part = program_.gates.of_op[user] == program_.gates.of_op[product.op];
      if (!std::holds_alternative<Reshape>(shard_.ops[user].data) || !is_same_part) return;
      found_.is_folded[user] = 1;
      product.result = shard_.ops[user].results.front();
    }
  }

  // Omits reshapes that only products and other such reshapes read. Users follow what they use, so
  // one pass in reverse order finds whole chains.
  void fold_tokens() {
    for (size_t i = shard_.ops.size(); i-- > 0;) {
      const OpId id{static_cast<uint32_t>(i)};
      const Op& op = shard_.ops[id];
      if (!std::holds_alternative<Reshape>(op.data) || found_.is_folded[id]) continue;
      const ValueId result = op.results.front();
      if (computed_reshape(result) == nullptr || is_output_[result]) continue;
      const auto& users = users_[result];
      const bool is_read = std::any_of(users.begin(), users.end(), [&](OpId user) {
        return !(is_product_[user] || is_token_side_[user]) || !is_seen_through(id, user);
      });
      if (is_read || users.empty()) continue;
      found_.is_folded[id] = 1;
      is_token_side_[id] = 1;
    }
  }

  const Program& program_;
  const Shard& shard_;
  IdMap<ValueId, std::vector<OpId>> users_;
  IdMap<ValueId, uint8_t> is_output_;
  IdMap<OpId, uint8_t> is_product_, is_token_side_;
  std::map<std::pair<ValueId, uint32_t>, size_t> group_of_;  // by token and gate
  WeightProducts found_;
};

}  // namespace

WeightProducts find_weight_products(const Program& program) {
  return ProductFinder(program).find();
}

}  // namespace moec
