// A GGUF model for `moec split`: its experts, their routing, and the location of their bytes. Reads
// no weights. Accepts architectures that moec cannot export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"
#include "ir/model/kept_routing.h"

namespace moec {

// A tensor with one part per expert. The parts have equal byte sizes and are contiguous in every
// tensor type. A node gets the parts of its experts; all other tensors form the trunk, which all
// nodes share.
struct CutTensor {
  size_t tensor = 0;  // index into Gguf::tensors
  int64_t layer = 0;
  size_t axis = 0;  // axis of experts in GgufTensor::dims; earlier axes have size 1
};

// Finds the tensors of experts and routers by name, in the order of Gguf::tensors. Ignores sizes,
// because a shared expert may have the same size. Errors:
//   split.no_experts      there are no experts, or each expert has separate tensors
//   split.tensor_dims     the outermost size is not the number of experts
//   split.unknown_tensor  the name refers to experts, but moec does not know the tensor
//   split.router          a layer has experts and no router, or a router and no experts
Result<std::vector<CutTensor>> find_cut_tensors(const Gguf& gguf, int64_t experts);

struct MoeSource {
  Gguf gguf;
  std::string arch;
  ExpertGrid grid;              // experts of the decoder's layers
  std::vector<int64_t> behind;  // MoE layers after the decoder, which predict further tokens
  KeptRouting routing = KeptRouting::unknown;
  std::vector<CutTensor> experts;
  std::string digest;  // of keys, names, types and sizes; independent of the division into files

  // Returns "ARCH.name".
  std::string key(std::string_view name) const { return arch + "." + std::string(name); }
};

// Errors: those of read_gguf() and find_cut_tensors(), gguf.missing_key, gguf.key_type, and
// split.counts if the numbers of experts, picks or groups are inconsistent.
Result<MoeSource> read_moe_source(const std::string& path);

// True if the key describes a file or an earlier split rather than the model.
bool is_split_key(std::string_view key);

}  // namespace moec
