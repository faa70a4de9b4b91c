#include "backends/runtime/session/router_ahead.h"

namespace moec {
namespace {

bool is_router(const Manifest& manifest, const manifest::Step& step) {
  const manifest::Shard* shard = manifest.find_shard(step.shard);
  return shard && is_router(shard->kind);
}

const InputBinding* find_input(const manifest::Step& step, const std::string& port) {
  for (const InputBinding& input : step.inputs)
    if (input.port == port) return &input;
  return nullptr;
}

}  // namespace

std::optional<RouterAhead> router_behind(const Manifest& manifest, size_t step,
                                         const Chunk& chunk) {
  const auto& schedule = manifest.schedule;
  // The latest router has run in this chunk, so its inputs are in `chunk.edges` if they are edges.
  size_t now = step, next = step + 1;
  while (now > 0 && !is_router(manifest, schedule[now])) --now;
  while (next < schedule.size() && !is_router(manifest, schedule[next])) ++next;
  // The first loop can stop at step 0, which need not be a router.
  if (!is_router(manifest, schedule[now]) || next == schedule.size()) return std::nullopt;
  RouterAhead ahead{&schedule[next], {}};
  for (const InputBinding& input : ahead.step->inputs) {
    const InputBinding* given = find_input(schedule[now], input.port);
    if (!given || given->source != SourceKind::edge || !chunk.edges.contains(given->edge))
      return std::nullopt;
    ahead.edges[input.port] = given->edge;
  }
  return ahead;
}

}  // namespace moec
