#include "frontends/export/gguf/tensor_types.h"

#include <algorithm>

namespace moec {

BlockType block_type_of(DType dtype) {
  if (dtype == DType::f16) return BlockType::f16;
  return dtype == DType::bf16 ? BlockType::bf16 : BlockType::f32;
}

// An embedding that is also the head uses the rule of the head, unless a rule names the embedding.
const WeightRule* TensorTypes::rule_of(const TypedTensor& tensor) const {
  const WeightPolicy& policy = request_.weights;
  if (!tensor.group) return nullptr;
  const WeightRule* own = policy.rule_of(*tensor.group, tensor.layer);
  if (own != nullptr || tensor.group != WeightGroup::embed || !embed_is_head_) return own;
  return policy.rule_of(WeightGroup::head, tensor.layer);
}

bool TensorTypes::copies(const TypedTensor& tensor) const {
  if (const WeightRule* rule = rule_of(tensor)) return is_copy(rule->form);
  // Rules do not match tensors without a group. A bare `copy` covers them nevertheless.
  const std::vector<WeightRule>& rules = request_.weights.rules;
  return std::any_of(rules.begin(), rules.end(), [](const WeightRule& rule) {
    return is_copy(rule.form) && !rule.group && !rule.layers;
  });
}

BlockType TensorTypes::float_type(const WeightForm& form) const {
  const auto* plain = std::get_if<FloatForm>(&form);
  return block_type_of(plain != nullptr && plain->dtype ? *plain->dtype : request_.dtype);
}

BlockType TensorTypes::choose(const TypedTensor& tensor) {
  if (!tensor.group || tensor.group == WeightGroup::vectors) return BlockType::f32;
  const WeightRule* rule = rule_of(tensor);
  if (tensor.group == WeightGroup::router && rule == nullptr) return BlockType::f32;
  if (rule == nullptr) return block_type_of(request_.dtype);
  const auto* blocks = std::get_if<BlockForm>(&rule->form);
  if (blocks == nullptr) return float_type(rule->form);
  // A block must not span two rows.
  if (tensor.dims.rank() > 1 && tensor.dims.back() % block_format(blocks->type).elements == 0)
    return blocks->type;
  fallbacks_.push_back({tensor.name, blocks->type, BlockType::f16});
  return BlockType::f16;
}

}  // namespace moec
