// What inspect_source() found as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "backends/manifest/manifest.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/graph/shard.h"

namespace moec {

// The kind "checkpoint", with its sizes and parameters. `with_tensors` also lists each tensor with
// its type.
nlohmann::ordered_json checkpoint_json(const Checkpoint& checkpoint, bool with_tensors);

// The kind "export", with the fields of manifest.json. Errors: those of to_json(Manifest).
Result<nlohmann::ordered_json> described_export_json(const Manifest& manifest);

// The kind "shard", with its ports, its counts and its IR as text.
nlohmann::ordered_json shard_json(const Shard& shard);

// The layers of a model that have experts.
int64_t count_moe_layers(const ModelConfig& config);

}  // namespace moec
