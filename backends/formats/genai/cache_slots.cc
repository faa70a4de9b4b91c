#include "backends/formats/genai/cache_slots.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "backends/formats/genai/model_file.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr int64_t kSizeAxis = 3;  // of caches

std::string past_name(int64_t layer, std::string_view slot) {
  return fmt::format("past_key_values.{}.{}", layer, slot);
}
std::string present_name(int64_t layer, std::string_view slot) {
  return fmt::format("present.{}.{}", layer, slot);
}
std::string inner_name(int64_t layer, std::string_view what) {
  return fmt::format("cache.{}.{}", layer, what);
}

// The engine requires a batch axis and rank 4. The first two sizes of a state are its heads.
std::vector<PortSize> state_sizes(const std::vector<int64_t>& state) {
  if (state.empty()) return fixed_sizes({1, 1, 1, 1});
  return fixed_sizes({1, state[0] * state[1], state[2], state[3]});
}

}  // namespace

const manifest::Cache& CacheSlots::cache_of(int64_t layer) const {
  const auto found =
      std::find_if(manifest_.caches.begin(), manifest_.caches.end(),
                   [&](const manifest::Cache& cache) { return cache.layer == layer; });
  MOEC_CHECK(found != manifest_.caches.end(), "layer {} has no cache", layer);
  return *found;
}

bool CacheSlots::is_direct(const manifest::Cache& cache) const {
  return cache.head_dim == cache.value_dim && !is_packed_whole(cache.layer);
}

int64_t CacheSlots::slot_size(int64_t layer) const {
  const manifest::Cache& cache = cache_of(layer);
  if (is_direct(cache)) return cache.head_dim;
  const int64_t all = cache.head_dim + (is_packed_whole(layer) ? 0 : cache.value_dim);
  return (all + 1) / 2;
}

std::vector<PortSize> CacheSlots::slot_sizes(const manifest::Cache& cache,
                                             const std::string& rows) const {
  return {{1, {}},
          {cache.kv_heads, {}},
          has_fixed_rows_ ? PortSize{cache.rows, {}} : PortSize{0, rows},
          {slot_size(cache.layer), {}}};
}

void CacheSlots::declare_cache(int64_t layer, DType dtype) {
  Slots& slots = slots_[layer];
  if (slots.cache) return;
  slots.cache = true;
  slots.dtype = dtype;
  const manifest::Cache& cache = cache_of(layer);
  for (const char* slot : {"key", "value"})
    declare_port(past_name(layer, slot), dtype, slot_sizes(cache, "past"), *graph_.add_input());
  if (is_direct(cache)) return;
  const std::string packed = nodes_.concat({past_name(layer, "key"), past_name(layer, "value")},
                                           kSizeAxis, inner_name(layer, "packed"));
  const int64_t keys = cache.head_dim, values = cache.value_dim;
  nodes_.slice(packed, 0, keys, kSizeAxis, inner_name(layer, "past_keys"));
  const int64_t first = is_packed_whole(layer) ? keys - values : keys;
  nodes_.slice(packed, first, first + values, kSizeAxis, inner_name(layer, "past_values"));
}

// A layer without one of the two states has a state of one number in its place.
void CacheSlots::declare_memory(int64_t layer, DType dtype) {
  Slots& slots = slots_[layer];
  if (slots.history) return;
  slots.history = true;
  slots.dtype = dtype;
  const manifest::Cache& cache = cache_of(layer);
  const std::string conv = past_name(layer, "conv_state");
  declare_port(conv, dtype, fixed_sizes({1, cache.history_channels, cache.history_tokens}),
               *graph_.add_input());
  nodes_.reshape(nodes_.transpose(conv, {0, 2, 1}, inner_name(layer, "past_rows")),
                 {cache.history_tokens, cache.history_channels}, inner_name(layer, "past_history"));
  if (!cache.state.empty()) return;
  declare_port(past_name(layer, "recurrent_state"), DType::f32, state_sizes({}),
               *graph_.add_input());
}

std::string CacheSlots::past(SourceKind source, int64_t layer, DType dtype) {
  const manifest::Cache& cache = cache_of(layer);
  const bool keys = source == SourceKind::k_cache;
  if (keys || source == SourceKind::v_cache) {
    declare_cache(layer, dtype);
    if (is_direct(cache)) return past_name(layer, keys ? "key" : "value");
    return inner_name(layer, keys ? "past_keys" : "past_values");
  }
  if (source == SourceKind::history) {
    declare_memory(layer, dtype);
    return inner_name(layer, "past_history");
  }
  MOEC_CHECK(source == SourceKind::recurrent_state, "{} is not in a slot", enum_name(source));
  slots_[layer].state = true;
  slots_[layer].state_dtype = dtype;
  const std::string name = past_name(layer, "recurrent_state");
  declare_port(name, dtype, state_sizes(cache.state), *graph_.add_input());
  return nodes_.reshape(name, cache.state, inner_name(layer, "past_state"));
}

std::string CacheSlots::next(SinkKind sink, int64_t layer) const {
  switch (sink) {
    case SinkKind::k_rows:
    case SinkKind::v_rows: {
      const bool keys = sink == SinkKind::k_rows;
      if (is_direct(cache_of(layer))) return present_name(layer, keys ? "key" : "value");
      return inner_name(layer, keys ? "keys" : "values");
    }
    case SinkKind::history_rows:
      return inner_name(layer, "history");
    case SinkKind::recurrent_state:
      return inner_name(layer, "state");
    case SinkKind::edge:
    case SinkKind::logits:
      break;
  }
  MOEC_CHECK(false, "{} is not in a slot", enum_name(sink));
}

void CacheSlots::finish_cache(int64_t layer) {
  const manifest::Cache& cache = cache_of(layer);
  const int64_t size = slot_size(layer);
  for (const char* slot : {"key", "value"})
    declare_port(present_name(layer, slot), slots_[layer].dtype, slot_sizes(cache, "total"),
                 *graph_.add_output());
  if (is_direct(cache)) return;
  const std::string keys = next(SinkKind::k_rows, layer);
  std::vector<std::string> parts = {keys};
  int64_t all = cache.head_dim;
  if (!is_packed_whole(layer)) {
    parts.push_back(next(SinkKind::v_rows, layer));
    all += cache.value_dim;
  }
  // An odd number of channels has one more, whose contents do not matter.
  if (all % 2 != 0) parts.push_back(nodes_.slice(keys, 0, 1, kSizeAxis, inner_name(layer, "odd")));
  const std::string packed =
      parts.size() == 1 ? keys : nodes_.concat(parts, kSizeAxis, inner_name(layer, "new_packed"));
  nodes_.slice(packed, 0, size, kSizeAxis, present_name(layer, "key"));
  nodes_.slice(packed, size, 2 * size, kSizeAxis, present_name(layer, "value"));
}

void CacheSlots::finish_memory(int64_t layer, const Slots& slots) {
  const manifest::Cache& cache = cache_of(layer);
  const std::string conv = present_name(layer, "conv_state");
  const std::string rows = nodes_.reshape(next(SinkKind::history_rows, layer),
                                          {1, cache.history_tokens, cache.history_channels},
                                          inner_name(layer, "new_rows"));
  nodes_.transpose(rows, {0, 2, 1}, conv);
  declare_port(conv, slots.dtype, fixed_sizes({1, cache.history_channels, cache.history_tokens}),
               *graph_.add_output());
  const std::string state = present_name(layer, "recurrent_state");
  const std::vector<PortSize> sizes = state_sizes(cache.state);
  declare_port(state, slots.state ? slots.state_dtype : DType::f32, sizes, *graph_.add_output());
  if (slots.state) {
    nodes_.reshape(next(SinkKind::recurrent_state, layer),
                   {1, sizes[1].size, sizes[2].size, sizes[3].size}, state);
  } else {
    nodes_.add("Identity", {past_name(layer, "recurrent_state")}, state);
  }
}

void CacheSlots::finish(int64_t layer) {
  const auto found = slots_.find(layer);
  if (found == slots_.end()) return;
  if (found->second.cache) finish_cache(layer);
  if (found->second.history) finish_memory(layer, found->second);
}

}  // namespace moec
