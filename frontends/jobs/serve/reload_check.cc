#include "frontends/jobs/serve/reload_check.h"

#include <fmt/format.h>

#include <map>

namespace moec {
namespace {

// Files of graphs and weights, by the shard's name.
struct ShardFiles {
  std::vector<manifest::Width> widths;
  std::vector<manifest::FileRef> data;
  bool operator==(const ShardFiles&) const = default;
};

std::map<std::string, ShardFiles> trunk_of(const Manifest& manifest) {
  std::map<std::string, ShardFiles> trunk;
  for (const manifest::Shard& shard : manifest.shards)
    if (!is_expert_group(shard.kind)) trunk[shard.name] = {shard.widths, shard.data};
  return trunk;
}

// The mask may differ: it selects experts.
manifest::Build without_mask(manifest::Build build) {
  build.expert_mask.clear();
  return build;
}

// Returns the first part that differs; null if none does.
const char* difference(const Manifest& a, const Manifest& b) {
  if (a.model != b.model) return "model";
  if (without_mask(a.build) != without_mask(b.build)) return "options of the export";
  if (a.tokenizer != b.tokenizer || a.carried != b.carried) return "tokenizer";
  if (a.embedding != b.embedding || a.rope != b.rope) return "table";
  if (a.caches != b.caches || a.masked_value != b.masked_value) return "form of caches";
  if (a.logits != b.logits) return "form of logits";
  if (a.tagging != b.tagging || a.top_k != b.top_k || a.capacity != b.capacity) return "routing";
  if (trunk_of(a) != trunk_of(b)) return "trunk";
  return nullptr;
}

}  // namespace

Status check_reload(const Manifest& before, const Manifest& after) {
  const char* part = difference(before, after);
  if (!part) return {};
  return fail("serve.reload",
              fmt::format("the folder has another {} than the one that is served", part),
              "restart the server, or split the same export again");
}

bool same_results(const Manifest& before, const Manifest& after) {
  const auto experts = [](const Manifest& manifest) {
    return manifest.node ? manifest.node->experts : std::string();
  };
  return difference(before, after) == nullptr && before.shards == after.shards &&
         before.schedule == after.schedule && experts(before) == experts(after) &&
         before.build.expert_mask == after.build.expert_mask;
}

}  // namespace moec
