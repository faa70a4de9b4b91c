#include "backends/cpu/cpu_products.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/kernels.h"

namespace moec {
namespace {

// Number of elements per decoded tile. For a vector, a tile fits in the L1 cache; for a matrix,
// which rereads the tile for each token, it fits in the L2 cache.
constexpr int64_t kVectorTile = int64_t{4} << 10;
constexpr int64_t kMatrixTile = int64_t{64} << 10;
// Up to this number of tokens, each output is computed as a dot product of a weight row and a
// token.
constexpr int64_t kFewTokens = 4;
// Products with fewer multiplications are too small to justify waking threads.
constexpr int64_t kSmallProduct = int64_t{128} << 10;
// Outputs are divided at multiples of a 64-byte cache line, counted in floats.
constexpr int64_t kStep = 16;

int64_t tile_rows(int64_t inner, int64_t tokens) {
  const int64_t elements = tokens <= kFewTokens ? kVectorTile : kMatrixTile;
  return std::clamp<int64_t>(elements / std::max<int64_t>(inner, 1), 8, 256) / 8 * 8;
}

// Per-thread memory for decoded tiles.
float* scratch(size_t floats) {
  thread_local std::vector<float> memory;
  if (memory.size() < floats) memory.resize(floats);
  return memory.data();
}

// A matrix with `stride` columns, in memory or stored.
class Source {
 public:
  Source(const Factor& factor, int64_t stride) : factor_(factor), stride_(stride) {
    whole_ = factor.stored ? factor.stored->whole() : factor.values;
    if (factor.stored && whole_) whole_ += factor.begin;
    if (const auto range = factor.stored ? factor.stored->range() : std::nullopt)
      read_.emplace(*range);
  }

  bool is_whole() const { return whole_ != nullptr; }

  // Returns rows [first, first + count), valid until the next call in this thread.
  ConstMatrix rows(int64_t first, int64_t count) const {
    if (is_whole()) return {whole_ + first * stride_, stride_};
    float* to = scratch(static_cast<size_t>(count * stride_));
    factor_.stored->widen(factor_.begin + first * stride_, count * stride_, to);
    return {to, stride_};
  }

  // Returns columns [begin, begin + count) of the first `rows` rows, valid as for rows().
  ConstMatrix columns(int64_t rows, int64_t begin, int64_t count) const {
    if (is_whole()) return {whole_ + begin, stride_};
    float* to = scratch(static_cast<size_t>(rows * count));
    for (int64_t row = 0; row < rows; ++row)
      factor_.stored->widen(factor_.begin + row * stride_ + begin, count, to + row * count);
    return {to, count};
  }

 private:
  const Factor& factor_;
  int64_t stride_;
  const float* whole_ = nullptr;
  std::optional<MappedRead> read_;
};

// Returns the transpose of a [rows, columns] matrix.
std::unique_ptr<float[]> transposed(const float* from, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 16;
  auto to = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; r += kBlock)
    for (int64_t c = 0; c < columns; c += kBlock)
      for (int64_t i = r; i < std::min(r + kBlock, rows); ++i)
        for (int64_t j = c; j < std::min(c + kBlock, columns); ++j)
          to[static_cast<size_t>(j * rows + i)] = from[i * columns + j];
  return to;
}

// Runs `work` on [0, count), divided among the team if the product is large.
void divide_product(ThreadTeam& team, int64_t count, int64_t products,
                    const std::function<void(int64_t, int64_t)>& work) {
  if (products < kSmallProduct) return work(0, count);
  team.divide(count, kStep, work);
}

// out [outputs, tokens] = w [outputs, inner] · x [inner, tokens].
void weights_times_tokens(ThreadTeam& team, const Factor& w, const float* x,
                          const ProductSizes& sizes, float* out) {
  const int64_t tokens = sizes.columns;
  const bool few = tokens <= kFewTokens;
  const auto turned = few && tokens > 1 ? transposed(x, sizes.inner, tokens) : nullptr;
  const ConstMatrix vectors{turned ? turned.get() : x, sizes.inner};
  divide_product(team, sizes.rows, sizes.rows * sizes.inner * tokens,
                 [&](int64_t begin, int64_t end) {
                   const Source source(w, sizes.inner);
                   const int64_t tile = tile_rows(sizes.inner, tokens);
                   for (int64_t row = begin; row < end; row += tile) {
                     const int64_t count = std::min(tile, end - row);
                     const ConstMatrix rows = source.rows(row, count);
                     const KernelSizes part{count, sizes.inner, tokens};
                     if (few)
                       dot_rows(rows, vectors, part, {out + row * tokens, tokens});
                     else
                       multiply_rows(rows, {x, tokens}, part, {out + row * tokens, tokens});
                   }
                 });
}

// out [tokens, outputs] = x [tokens, inner] · transpose of w [outputs, inner].
void tokens_times_turned(ThreadTeam& team, const float* x, const Factor& w,
                         const ProductSizes& sizes, float* out) {
  const int64_t tokens = sizes.rows, outputs = sizes.columns;
  if (tokens > kFewTokens) {
    const auto turned = transposed(x, tokens, sizes.inner);
    const auto columns =
        std::make_unique_for_overwrite<float[]>(static_cast<size_t>(tokens * outputs));
    weights_times_tokens(team, w, turned.get(), {outputs, sizes.inner, tokens}, columns.get());
    const auto rows = transposed(columns.get(), outputs, tokens);
    std::copy_n(rows.get(), tokens * outputs, out);
    return;
  }
  divide_product(team, outputs, outputs * sizes.inner * tokens, [&](int64_t begin, int64_t end) {
    const Source source(w, sizes.inner);
    const int64_t tile = tile_rows(sizes.inner, tokens);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t count = std::min(tile, end - row);
      dot_rows({x, sizes.inner}, source.rows(row, count), {tokens, sizes.inner, count},
               {out + row, outputs});
    }
  });
}

// out [tokens, outputs] = x [tokens, inner] · w [inner, outputs].
void tokens_times_columns(ThreadTeam& team, const float* x, const Factor& w,
                          const ProductSizes& sizes, float* out) {
  const int64_t outputs = sizes.columns;
  divide_product(
      team, outputs, outputs * sizes.inner * sizes.rows, [&](int64_t begin, int64_t end) {
        const Source source(w, outputs);
        const int64_t room = kMatrixTile / std::max<int64_t>(sizes.inner, 1) / kStep * kStep;
        const int64_t tile = source.is_whole() ? end - begin : std::max<int64_t>(room, 4 * kStep);
        for (int64_t at = begin; at < end; at += tile) {
          const int64_t count = std::min(tile, end - at);
          multiply_rows({x, sizes.inner}, source.columns(sizes.inner, at, count),
                        {sizes.rows, sizes.inner, count}, {out + at, outputs});
        }
      });
}

// Rounds the activations of each token to int8, in groups along `inner`. Element i of token t is
// x[i * element + t * token].
std::unique_ptr<float[]> rounded_tokens(const float* x, int64_t inner, int64_t tokens,
                                        int64_t element, int64_t token) {
  auto to = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(inner * tokens));
  std::vector<float> values(static_cast<size_t>(inner));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < inner; ++i) values[static_cast<size_t>(i)] = x[i * element + t * token];
    round_token(values);
    for (int64_t i = 0; i < inner; ++i)
      to[static_cast<size_t>(i * element + t * token)] = values[static_cast<size_t>(i)];
  }
  return to;
}

}  // namespace

bool CpuProducts::dot_codes(const Factor& w, std::span<const float> token, int64_t outputs,
                            float* out) const {
  const auto inner = std::ssize(token);
  if (!w.stored || inner == 0 || w.begin % inner != 0) return false;
  const auto arranged = w.stored->arrange(token, format_);
  if (!arranged) return false;
  divide_product(team_, outputs, outputs * inner, [&](int64_t begin, int64_t end) {
    std::optional<MappedRead> read;
    if (const auto range = w.stored->range()) read.emplace(*range);
    w.stored->dot({w.begin / inner + begin, end - begin}, *arranged, out + begin);
  });
  return true;
}

void CpuProducts::multiply(const Factor& a, const Factor& b, bool b_is_turned,
                           const ProductSizes& sizes, float* out) const {
  const int64_t inner = sizes.inner;
  const bool is_turned = b_is_turned || (b.stored && b.stored->is_turned());
  const auto token = [&](const Factor& of) {
    return std::span(of.values, static_cast<size_t>(inner));
  };
  if (sizes.columns == 1 && dot_codes(a, token(b), sizes.rows, out)) return;
  if (is_turned && sizes.rows == 1 && dot_codes(b, token(a), sizes.columns, out)) return;
  const auto rounds = [&](const Factor& w) {
    return format_ == ActivationFormat::int8 && w.stored && w.stored->rounds_tokens(inner);
  };
  if (rounds(a)) {
    const auto tokens = rounded_tokens(b.values, inner, sizes.columns, sizes.columns, 1);
    multiply_exactly(a, {tokens.get()}, b_is_turned, sizes, out);
  } else if (is_turned && rounds(b)) {
    const auto tokens = rounded_tokens(a.values, inner, sizes.rows, 1, inner);
    multiply_exactly({tokens.get()}, b, b_is_turned, sizes, out);
  } else {
    multiply_exactly(a, b, b_is_turned, sizes, out);
  }
}

void CpuProducts::multiply_exactly(const Factor& a, const Factor& b, bool b_is_turned,
                                   const ProductSizes& sizes, float* out) const {
  if (a.stored || (!b.stored && !b_is_turned && sizes.columns <= kFewTokens))
    return weights_times_tokens(team_, a, b.values, sizes, out);
  if (b_is_turned || (b.stored && b.stored->is_turned()))
    return tokens_times_turned(team_, a.values, b, sizes, out);
  tokens_times_columns(team_, a.values, b, sizes, out);
}

}  // namespace moec
