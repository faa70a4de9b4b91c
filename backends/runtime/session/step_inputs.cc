#include "backends/runtime/session/step_inputs.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "backends/reference/heads.h"
#include "backends/reference/tensor_pool.h"
#include "backends/weights/views/convert.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

Tensor zeros(const manifest::Port& port) {
  const Type type = port.type();
  return {type, std::vector<float>(static_cast<size_t>(type.elements()))};
}

// True if the elements of a tensor of tokens are in the order of Rows.
bool is_token_major(const Type& type) {
  return !is_channel_major(type.layout) || tokens_of(type) == 1;
}

// Index of (token, channel) in a tensor with either layout.
size_t token_index(const Type& type, int64_t token, int64_t channel) {
  const int64_t index = is_channel_major(type.layout) ? channel * tokens_of(type) + token
                                                      : token * channels_of(type) + channel;
  return static_cast<size_t>(index);
}

// Consecutive positions, or columns of a mask: [begin, end), empty if begin >= end.
struct Range {
  int64_t begin = 0, end = 0;
};

// Returns the positions that a query sees. A window or chunk of 0 is unlimited.
Range positions_seen(const InputBinding& binding, int64_t query) {
  Range seen{0, query + binding.ahead + 1};
  if (binding.window > 0) seen.begin = std::max(seen.begin, query - binding.window + 1);
  if (binding.chunk == 0) return seen;
  const int64_t chunk = query / binding.chunk * binding.chunk;
  return {std::max(seen.begin, chunk), std::min(seen.end, chunk + binding.chunk)};
}

// Returns the columns with these positions. Row r of the cache contains position r. With append,
// rows from `position` on are still empty, and the new tokens follow the cache. Without a cache,
// the columns are the new tokens.
std::array<Range, 2> columns_of(const Range& positions, const MaskScope& scope) {
  const Range added{std::max(positions.begin, scope.position) - scope.position,
                    positions.end - scope.position};
  switch (scope.cache) {
    case CacheForm::none:
      return {{{added.begin, std::min(added.end, scope.count)}}};
    case CacheForm::append:
      return {{{positions.begin, std::min(positions.end, scope.position)},
               {added.begin + scope.context, added.end + scope.context}}};
    case CacheForm::blend:
      break;
  }
  return {{positions}};
}

// Stores values from index `to` on.
void store_values(CacheValues& cache, int64_t to, std::span<const float> values) {
  if (cache.halves.empty()) {
    std::copy(values.begin(), values.end(), cache.floats.begin() + to);
    return;
  }
  const auto halves =
      std::as_writable_bytes(std::span(cache.halves).subspan(static_cast<size_t>(to)));
  encode(DType::f16, values.data(), values.size(), halves.data());
}

}  // namespace

Tensor pack_rows(const manifest::Port& port, const Rows& rows) {
  Tensor tensor = zeros(port);
  // Also for RoPE rows, which are plain: [T, columns].
  if (is_token_major(tensor.type)) {
    std::copy(rows.data.begin(), rows.data.end(), tensor.data.begin());
    return tensor;
  }
  const int64_t count = std::ssize(rows.data) / rows.columns;
  for (int64_t t = 0; t < count; ++t)
    for (int64_t c = 0; c < rows.columns; ++c)
      tensor.data[token_index(tensor.type, t, c)] = at(rows.data, t * rows.columns + c);
  return tensor;
}

Rows unpack_rows(const Tensor& tensor, int64_t count) {
  Rows rows{channels_of(tensor.type), {}};
  if (is_token_major(tensor.type)) {
    rows.data.assign(tensor.data.begin(), tensor.data.begin() + count * rows.columns);
    return rows;
  }
  rows.data.reserve(static_cast<size_t>(count * rows.columns));
  for (int64_t t = 0; t < count; ++t)
    for (int64_t c = 0; c < rows.columns; ++c)
      rows.data.push_back(tensor.data[token_index(tensor.type, t, c)]);
  return rows;
}

// The mask has the shape [pages, 1, tokens, rows]: key k is row k % rows of page k / rows.
Tensor attention_mask(const manifest::Port& port, const MaskScope& scope,
                      const InputBinding& binding, double masked_value) {
  Tensor mask = make_tensor(port.type());
  std::fill(mask.data.begin(), mask.data.end(), static_cast<float>(masked_value));
  const int64_t pages = port.dims[0], tokens = port.dims[2], rows = port.dims[3];
  for (int64_t t = 0; t < tokens; ++t)
    for (const Range& seen : columns_of(positions_seen(binding, scope.position + t), scope)) {
      const int64_t end = std::min(seen.end, pages * rows);
      for (int64_t key = seen.begin; key < end;) {
        const int64_t count = std::min(rows - key % rows, end - key);
        std::fill_n(mask.data.begin() + (key / rows * tokens + t) * rows + key % rows, count, 0.0f);
        key += count;
      }
    }
  return mask;
}

Tensor token_mask(const manifest::Port& port, int64_t count) {
  return pack_rows(port, {1, std::vector<float>(static_cast<size_t>(count), 1)});
}

// The mask is 1 at (position + t, t): new token t is written to row position + t of the cache,
// counted across pages.
Tensor write_mask(const manifest::Port& port, int64_t position, int64_t count) {
  Tensor mask = zeros(port);
  const int64_t tokens = port.dims[3];
  for (int64_t t = 0; t < count; ++t) at(mask.data, (position + t) * tokens + t) = 1;
  return mask;
}

Tensor cache_tensor(const manifest::Port& port, const CacheValues& cache) {
  const Type type = port.type();
  MOEC_CHECK(type.elements() == cache.count(), "cache of {} values for port {}", cache.count(),
             port.name);
  std::vector<float> values = cache.floats;
  if (!cache.halves.empty()) {
    values.resize(cache.halves.size());
    decode(DType::f16, std::as_bytes(std::span(cache.halves)).data(), values.size(), values.data());
  }
  // A single page has the order of the cache, so nothing is rearranged.
  if (type.dims[0] == 1) return {type, std::move(values)};
  Heads heads{type.dims[0] * type.dims[2], type.dims[3], std::move(values)};
  return in_pages(heads, type);
}

std::vector<float> take_cache_rows(const Tensor& tensor, int64_t begin, int64_t count) {
  Heads all = from_pages(tensor);
  std::vector<float> rows;
  for (int64_t head = 0; head < tensor.type.dims[1]; ++head)
    for (int64_t row = begin; row < begin + count; ++row) {
      const std::span<const float> vector = all.at(head, row);
      rows.insert(rows.end(), vector.begin(), vector.end());
    }
  return rows;
}

void store_cache(CacheValues& cache, std::vector<float> values) {
  if (cache.halves.empty())
    cache.floats = std::move(values);
  else
    store_values(cache, 0, values);
}

void store_cache_rows(CacheValues& cache, const LayerCache& shape, const std::vector<float>& rows,
                      int64_t position) {
  const std::span<const float> all(rows);
  const size_t of_head = rows.size() / static_cast<size_t>(shape.kv_heads);
  const int64_t dims = cache.count() / (shape.kv_heads * shape.rows);
  for (int64_t head = 0; head < shape.kv_heads; ++head)
    store_values(cache, (head * shape.rows + position) * dims,
                 all.subspan(static_cast<size_t>(head) * of_head, of_head));
}

void push_rows(Rows& history, const Rows& rows) {
  std::vector<float>& data = history.data;
  data.insert(data.end(), rows.data.begin(), rows.data.end());
  // Removes as many values as were appended, so the size of the history stays the same.
  data.erase(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(rows.data.size()));
}

}  // namespace moec
