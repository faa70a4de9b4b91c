#include "frontends/sources/hf/own_head.h"

namespace moec {
namespace {

void untie(ModelConfig& model, const std::string& head, Diagnostics& notes) {
  model.head.tied = false;
  // The tensor was ignored as a copy of the embedding.
  std::erase(model.names.ignored, head);
  notes.push_back({Severity::note,
                   "hf.head.own",
                   "the config ties the head to the embedding, but this tensor differs from the "
                   "embedding and is used, as in transformers",
                   {},
                   {.tensor = head}});
}

// Uses the head's tensor as the embedding, which is not stored separately.
void take_head_for_embedding(ModelConfig& model, const std::string& head) {
  model.names.by_role["embed"] = head;
  std::erase(model.names.ignored, head);
}

}  // namespace

Status untie_own_head(ModelConfig& model, const WeightTable& weights, TensorsEqual& same,
                      Diagnostics& notes) {
  // Without a role for the head, the model has only the embedding.
  if (!model.head.tied || !model.names.has("lm_head")) return {};
  const std::string head = model.names("lm_head");
  const TensorRange* own = weights.find(head);
  const TensorRange* embedding = weights.find(model.names("embed"));
  if (!own) return {};
  if (!embedding) {
    take_head_for_embedding(model, head);
    return {};
  }
  // Tensors of different types differ, even if their values are equal after a conversion.
  bool equal = own->type == embedding->type;
  if (equal) {
    MOEC_ASSIGN(equal, same(weights, *own, *embedding));
  }
  if (!equal) untie(model, head, notes);
  return {};
}

}  // namespace moec
