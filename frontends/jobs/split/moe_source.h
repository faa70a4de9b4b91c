// A GGUF model as `moec split` sees it: its experts, how a token chooses among them, and where
// their bytes are. Of the weights nothing is read, and the architecture need not be one that moec
// exports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_sets.h"
#include "ir/graph/ops.h"

namespace moec {

// Which tensors of a GGUF file are those of experts and routers, by their names: of these a node
// gets its experts' part, all others are the trunk, which all nodes share.

// A tensor with one part for each expert. The parts have the same number of bytes and lie one
// behind the other, whatever the tensor's type.
struct CutTensor {
  size_t tensor = 0;  // index into Gguf::tensors
  int64_t layer = 0;
  size_t axis = 0;  // of GgufTensor::dims, that counts experts; those before it are 1
};

// All of them, in the order of Gguf::tensors. A tensor that merely has the same size, such as a
// shared expert's, is none. Errors:
//   split.no_experts      there are none, or each expert is a tensor of its own
//   split.tensor_dims     the outermost size is not the number of experts
//   split.unknown_tensor  the name says that it belongs to experts, but not how
//   split.router          a layer has experts and no router, or a router and no experts
Result<std::vector<CutTensor>> find_cut_tensors(const Gguf& gguf, int64_t experts);

// What a router computes when only some of its experts are left.
//   masked    what the whole router does when the others cannot be chosen: weights of the chosen
//             experts do not depend on the others
//   inflated  more: its weights are shares of a softmax over all experts, and not normalised
//   unknown   moec does not know the architecture
enum class KeptRouting : uint8_t { masked, inflated, unknown };
constexpr auto enum_names(KeptRouting) {
  return name_table<KeptRouting>({"masked", "inflated", "unknown"});
}

// Of sigmoids each weight is an expert's own; with softmax it is a share of all experts' unless the
// chosen ones are normalised.
KeptRouting kept_routing(const Router& router);

struct MoeSource {
  Gguf gguf;
  std::string arch;
  ExpertGrid grid;              // of the decoder's layers
  std::vector<int64_t> behind;  // MoE layers behind them, which guess further tokens
  KeptRouting routing = KeptRouting::unknown;
  std::vector<CutTensor> experts;
  std::string digest;  // of keys, names, types and sizes, whatever files they are in

  // "ARCH.name".
  std::string key(std::string_view name) const { return arch + "." + std::string(name); }
};

// Errors: those of read_gguf() and find_cut_tensors(), gguf.missing_key, gguf.key_type, and
// split.counts where the numbers of experts, chosen experts or groups contradict one another.
Result<MoeSource> read_moe_source(const std::string& path);

// The keys that belong to a file or to an earlier split and not to the model.
bool is_split_key(std::string_view key);

}  // namespace moec
