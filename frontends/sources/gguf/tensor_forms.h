// Differences between a family's tensors and those of a GGUF file: shapes, orders of rows, and
// functions of elements. Each transformation has an inverse, so one list serves both directions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/enum_table.h"
#include "ir/base/json_fields.h"
#include "ir/graph/weight_view.h"
#include "ir/model/model_config.h"

namespace moec {

// Order of the rows of q and k in each head: as in the family's checkpoints, or with the two rows
// of each rotated pair adjacent.
enum class GgufRows : uint8_t { stored, pairs };
constexpr auto enum_names(GgufRows) { return name_table<GgufRows>({"stored", "pairs"}); }

// Order of a gated delta net's value heads: those of a key head next to each other, as in the
// family's checkpoints, or the first value heads of all key heads, then the second ones, ….
enum class GgufHeads : uint8_t { grouped, tiled };
constexpr auto enum_names(GgufHeads) { return name_table<GgufHeads>({"grouped", "tiled"}); }

// The form of a role's tensor in a GGUF file.
struct GgufTensorForm {
  std::optional<MapFn> as;  // the file has this function of the family's elements
  // The file's shape, outermost first: numbers and concepts; -1: as many as remain. Empty: the
  // family's shape.
  std::vector<std::string> dims;
};

struct GgufForms {
  GgufRows rows = GgufRows::stored;
  GgufHeads value_heads = GgufHeads::grouped;
  std::map<std::string, GgufTensorForm, std::less<>> roles;  // those with a form
};

// A tensor of a role in the family's form.
struct FormedTensor {
  const ModelConfig& model;
  std::string_view role;
  int64_t layer = -1;
  Dims dims;
};

// Reads the members "as" and "dims" of a tensor's entry in a descriptor.
Status read_tensor_form(JsonFields& fields, GgufTensorForm& form);

// The shape of the tensor in a GGUF file.
Dims gguf_dims(const GgufForms& forms, const FormedTensor& tensor);
// Converts a view of the family's tensor to that of the GGUF file, and back.
WeightView to_gguf_form(const GgufForms& forms, const FormedTensor& tensor, WeightView view);
WeightView from_gguf_form(const GgufForms& forms, const FormedTensor& tensor, WeightView view);

}  // namespace moec
