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

// Copies a [rows, columns] matrix to its transpose, in blocks that stay in the L1 cache.
void transpose(ConstMatrix from, int64_t rows, int64_t columns, MutableMatrix to) {
  constexpr int64_t kBlock = 16;
  for (int64_t r = 0; r < rows; r += kBlock)
    for (int64_t c = 0; c < columns; c += kBlock)
      for (int64_t i = r; i < std::min(r + kBlock, rows); ++i)
        for (int64_t j = c; j < std::min(c + kBlock, columns); ++j)
          to.data[j * to.stride + i] = from.data[i * from.stride + j];
}

std::unique_ptr<float[]> floats(int64_t count) {
  return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count));
}

// Copies tokens [first, first + count) to rows of x.inner activations.
void copy_tokens(const TokenColumns& x, int64_t first, int64_t count, float* to) {
  const float* from = x.values + first * x.strides.token;
  if (x.strides.element == 1)
    for (int64_t t = 0; t < count; ++t)
      std::copy_n(from + t * x.strides.token, x.inner, to + t * x.inner);
  else
    transpose({from, x.strides.element}, x.inner, count, {to, x.inner});
}

// Runs `work` on [0, count), divided among the team if the product is large.
void divide_product(ThreadTeam& team, int64_t count, int64_t products,
                    const std::function<void(int64_t, int64_t)>& work) {
  if (products < kSmallProduct) return work(0, count);
  team.divide(count, kStep, work);
}

// Activations of many tokens in panels of consecutive tokens, [inner, tokens of the panel], so that
// a kernel reads consecutive memory.
class TokenPanels {
  static constexpr int64_t kPanel = 32;  // the widest tile of the kernels

 public:
  TokenPanels(ThreadTeam& team, const TokenColumns& x) : inner_(x.inner), tokens_(x.count) {
    // Kept for the next product, because fresh memory costs more than packing.
    thread_local std::vector<float> memory;
    const auto size = static_cast<size_t>(count() * kPanel * x.inner);
    if (memory.size() < size) memory.resize(size);
    values_ = memory.data();
    team.divide(count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) pack(x, p);
    });
  }

  // out [rows, tokens] = rows [count, inner] · tokens.
  void multiply(ConstMatrix rows, int64_t row_count, MutableMatrix out) const {
    for (int64_t p = 0; p < count(); ++p)
      multiply_rows(rows, {panel(p), kPanel}, {row_count, inner_, columns(p)},
                    {out.data + p * kPanel, out.stride});
  }

 private:
  int64_t count() const { return (tokens_ + kPanel - 1) / kPanel; }
  int64_t columns(int64_t p) const { return std::min(kPanel, tokens_ - p * kPanel); }
  float* panel(int64_t p) const { return values_ + p * kPanel * inner_; }

  void pack(const TokenColumns& x, int64_t p) {
    const float* from = x.values + p * kPanel * x.strides.token;
    if (x.strides.element == 1)
      return transpose({from, x.strides.token}, columns(p), inner_, {panel(p), kPanel});
    for (int64_t i = 0; i < inner_; ++i)
      std::copy_n(from + i * x.strides.element, columns(p), panel(p) + i * kPanel);
  }

  int64_t inner_, tokens_;
  float* values_ = nullptr;
};

// Products of weights [outputs, inner] with many tokens.
void multiply_many(ThreadTeam& team, const Factor& w, const TokenColumns& x, const Outputs& out) {
  const TokenPanels panels(team, x);
  const int64_t tile = tile_rows(x.inner, x.count);
  divide_product(team, out.count, out.count * x.inner * x.count, [&](int64_t begin, int64_t end) {
    const Source source(w, x.inner);
    const bool is_turned = out.strides.element == 1;
    const auto turned = is_turned ? floats(std::min(tile, end - begin) * x.count) : nullptr;
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t count = std::min(tile, end - row);
      float* to = out.values + row * out.strides.element;
      if (is_turned) {
        panels.multiply(source.rows(row, count), count, {turned.get(), x.count});
        transpose({turned.get(), x.count}, count, x.count, {to, out.strides.token});
      } else {
        panels.multiply(source.rows(row, count), count, {to, out.strides.element});
      }
    }
  });
}

// Products of weights [outputs, inner] with a few tokens.
void multiply_few(ThreadTeam& team, const Factor& w, const TokenColumns& x, const Outputs& out) {
  const bool is_turned = out.strides.element == 1;
  const auto copied = x.strides.element == 1 ? nullptr : floats(x.count * x.inner);
  if (copied) copy_tokens(x, 0, x.count, copied.get());
  const ConstMatrix tokens{copied ? copied.get() : x.values, copied ? x.inner : x.strides.token};
  divide_product(team, out.count, out.count * x.inner * x.count, [&](int64_t begin, int64_t end) {
    const Source source(w, x.inner);
    const int64_t tile = tile_rows(x.inner, x.count);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t count = std::min(tile, end - row);
      float* to = out.values + row * out.strides.element;
      if (is_turned)
        dot_rows(tokens, source.rows(row, count), {x.count, x.inner, count},
                 {to, out.strides.token});
      else
        dot_rows(source.rows(row, count), tokens, {count, x.inner, x.count},
                 {to, out.strides.element});
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

bool CpuProducts::dot_codes(const Factor& w, const TokenColumns& x, const Outputs& out) const {
  if (!w.stored || x.inner == 0 || w.begin % x.inner != 0) return false;
  if (x.count == 1) return dot_token(w, x, out);
  // Kernels of f32 activations decode the codes for each token, which pays off for a single one.
  if (format_ == ActivationFormat::f32) return false;
  const int bits = w.stored->integer_bits(x.inner);
  if (bits == 0) return false;
  // Kept for the next product, because fresh memory costs more than arranging tokens. The other
  // threads use the memory of the calling thread.
  thread_local CodedTokens memory;
  CodedTokens& tokens = memory;
  tokens.reset(x.inner, x.count, bits);
  team_.divide(tokens.blocks(), 1, [&](int64_t begin, int64_t end) {
    const auto rows = floats(kTokenBlock * x.inner);
    for (int64_t block = begin; block < end; ++block) {
      copy_tokens(x, block * kTokenBlock, tokens.tokens_in(block), rows.get());
      tokens.set_block(block, rows.get());
    }
  });
  dot_tokens(w, tokens, out);
  return true;
}

bool CpuProducts::dot_token(const Factor& w, const TokenColumns& x, const Outputs& out) const {
  const auto token = w.stored->arrange({x.values, static_cast<size_t>(x.inner)}, format_);
  if (!token) return false;
  divide_product(team_, out.count, out.count * x.inner, [&](int64_t begin, int64_t end) {
    std::optional<MappedRead> read;
    if (const auto range = w.stored->range()) read.emplace(*range);
    w.stored->dot({w.begin / x.inner + begin, end - begin}, *token, out.values + begin);
  });
  return true;
}

void CpuProducts::dot_tokens(const Factor& w, const CodedTokens& tokens, const Outputs& out) const {
  const int64_t inner = tokens.columns(), count = tokens.count();
  divide_product(team_, out.count, out.count * inner * count, [&](int64_t begin, int64_t end) {
    std::optional<MappedRead> read;
    if (const auto range = w.stored->range()) read.emplace(*range);
    const RowRange rows{w.begin / inner + begin, end - begin};
    float* to = out.values + begin * out.strides.element;
    if (out.strides.element == 1) return w.stored->dot(rows, tokens, {to, out.strides.token});
    const auto turned = floats(count * rows.count);
    w.stored->dot(rows, tokens, {turned.get(), rows.count});
    transpose({turned.get(), rows.count}, count, rows.count, {to, out.strides.element});
  });
}

void CpuProducts::multiply(const Factor& a, const Factor& b, bool b_is_turned,
                           const ProductSizes& sizes, float* out) const {
  const bool is_turned = b_is_turned || (b.stored && b.stored->is_turned());
  const auto multiply_tokens = [&](const Factor& w, const TokenColumns& x, const Outputs& to) {
    if (dot_codes(w, x, to)) return;
    x.count <= kFewTokens ? multiply_few(team_, w, x, to) : multiply_many(team_, w, x, to);
  };
  const int64_t inner = sizes.inner;
  if (a.stored || (!b.stored && !is_turned && sizes.columns <= kFewTokens))
    multiply_tokens(a, {b.values, sizes.columns, inner, {1, sizes.columns}},
                    {out, sizes.rows, {1, sizes.columns}});
  else if (is_turned)
    multiply_tokens(b, {a.values, sizes.rows, inner, {inner, 1}},
                    {out, sizes.columns, {sizes.columns, 1}});
  else
    tokens_times_columns(team_, a.values, b, sizes, out);
}

void CpuProducts::softmax(const float* x, int64_t count, float* to) const {
  softmax_values(x, count, to);
}

void CpuProducts::sigmoid(const float* x, int64_t count, float* to) const {
  sigmoid_values(x, count, to);
}

}  // namespace moec
