#pragma once

#include <optional>

#include "ir/graph/shard.h"

namespace moec {

// For a matmul [T, K] · [K, N] whose right factor is the transpose of a value, that value [N, K];
// empty for other ops. encode_weights stores weights in this form.
std::optional<ValueId> turned_factor(const Shard& shard, const Op& op);

}  // namespace moec
