// Chooses the type in which a GGUF file stores a tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/export/gguf/gguf_request.h"

namespace moec {

// A tensor to store. `group` is empty if the tensor has no role in the model.
struct TypedTensor {
  std::string name;
  std::optional<WeightGroup> group;
  int64_t layer = -1;
  Dims dims;
};

class TensorTypes {
 public:
  TensorTypes(const GgufRequest& request, bool embed_is_head)
      : request_(request), embed_is_head_(embed_is_head) {}

  // True if a rule copies the tensor. A rule "copy" without a group and layers copies all tensors
  // that no other rule matches.
  bool copies(const TypedTensor& tensor) const;
  // Returns the type of a tensor that is not copied. Records it in fallbacks() if the rule's type
  // does not fit its rows.
  BlockType choose(const TypedTensor& tensor);

  const std::vector<GgufFallback>& fallbacks() const { return fallbacks_; }

 private:
  const WeightRule* rule_of(const TypedTensor& tensor) const;
  BlockType float_type(const WeightForm& form) const;

  const GgufRequest& request_;
  bool embed_is_head_;
  std::vector<GgufFallback> fallbacks_;
};

// Returns the plain block type of an element type.
BlockType block_type_of(DType dtype);

}  // namespace moec
