// In which type of a GGUF file a tensor is stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/export/gguf/gguf_request.h"

namespace moec {

// A tensor that is to be stored: `group` is none for what belongs to no role of the model.
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

  // Whether a rule copies the tensor. A rule "copy" for no group in particular copies all tensors
  // that no other rule names.
  bool copies(const TypedTensor& tensor) const;
  // The type of a tensor that is not copied. Takes down where it is not that of the rule.
  BlockType choose(const TypedTensor& tensor);

  const std::vector<GgufFallback>& fallbacks() const { return fallbacks_; }

 private:
  const WeightRule* rule_of(const TypedTensor& tensor) const;
  BlockType float_type(const WeightForm& form) const;

  const GgufRequest& request_;
  bool embed_is_head_;
  std::vector<GgufFallback> fallbacks_;
};

// The element type of a plain type; the plain type of an element type.
BlockType block_type_of(DType dtype);

}  // namespace moec
