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

}  // namespace

// Kernels of f32 activations decode the codes for each token, which pays off for a single one.
std::vector<CodedToken> CpuProducts::arrange(const StoredWeight& w, const TokenColumns& x) const {
  if (x.count > 1 && format_ == ActivationFormat::f32) return {};
  std::vector<CodedToken> tokens;
  std::vector<float> token(static_cast<size_t>(x.inner));
  for (int64_t t = 0; t < x.count; ++t) {
    const float* from = x.values + t * x.strides.token;
    for (int64_t i = 0; i < x.inner; ++i)
      token[static_cast<size_t>(i)] = from[i * x.strides.element];
    auto arranged = w.arrange(token, format_);
    if (!arranged) return {};
    if (x.count > 1 && arranged->format == ActivationFormat::f32) return {};
    tokens.push_back(std::move(*arranged));
  }
  return tokens;
}

bool CpuProducts::dot_codes(const Factor& w, const TokenColumns& x, int64_t outputs,
                            const TokenColumns::Strides& to, float* out) const {
  if (!w.stored || x.inner == 0 || w.begin % x.inner != 0) return false;
  const std::vector<CodedToken> tokens = arrange(*w.stored, x);
  if (tokens.empty()) return false;
  divide_product(team_, outputs, outputs * x.inner * x.count, [&](int64_t begin, int64_t end) {
    std::optional<MappedRead> read;
    if (const auto range = w.stored->range()) read.emplace(*range);
    // The rows of a tile stay in the caches for all tokens.
    const int64_t tile = x.count == 1 ? end - begin : tile_rows(x.inner, x.count);
    std::vector<float> sums(static_cast<size_t>(tile));
    for (int64_t row = begin; row < end; row += tile) {
      const RowRange rows{w.begin / x.inner + row, std::min(tile, end - row)};
      for (int64_t t = 0; t < x.count; ++t) {
        w.stored->dot(rows, tokens[static_cast<size_t>(t)], sums.data());
        float* at = out + t * to.token + row * to.element;
        for (int64_t i = 0; i < rows.count; ++i) at[i * to.element] = sums[static_cast<size_t>(i)];
      }
    }
  });
  return true;
}

void CpuProducts::multiply(const Factor& a, const Factor& b, bool b_is_turned,
                           const ProductSizes& sizes, float* out) const {
  const bool is_turned = b_is_turned || (b.stored && b.stored->is_turned());
  const int64_t inner = sizes.inner;
  if (dot_codes(a, {b.values, sizes.columns, inner, {1, sizes.columns}}, sizes.rows,
                {1, sizes.columns}, out))
    return;
  if (is_turned && dot_codes(b, {a.values, sizes.rows, inner, {inner, 1}}, sizes.columns,
                             {sizes.columns, 1}, out))
    return;
  multiply_exactly(a, b, b_is_turned, sizes, out);
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
