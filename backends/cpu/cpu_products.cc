#include "backends/cpu/cpu_products.h"

#include <algorithm>
#include <deque>
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
  if (products < Products::kSmallProduct) return work(0, count);
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

// Outputs [begin, end) of products of weights [outputs, inner] with a few tokens.
void dot_outputs(const Factor& w, const TokenColumns& x, int64_t begin, int64_t end,
                 const Outputs& out) {
  const Source source(w, x.inner);
  const ConstMatrix tokens{x.values, x.strides.token};
  const int64_t tile = tile_rows(x.inner, x.count);
  for (int64_t row = begin; row < end; row += tile) {
    const int64_t count = std::min(tile, end - row);
    float* to = out.values + row * out.strides.element;
    if (out.strides.element == 1)
      dot_rows(tokens, source.rows(row, count), {x.count, x.inner, count}, {to, out.strides.token});
    else
      dot_rows(source.rows(row, count), tokens, {count, x.inner, x.count},
               {to, out.strides.element});
  }
}

// Products of weights [outputs, inner] with a few tokens.
void multiply_few(ThreadTeam& team, const Factor& w, const TokenColumns& x, const Outputs& out) {
  const auto copied = x.strides.element == 1 ? nullptr : floats(x.count * x.inner);
  if (copied) copy_tokens(x, 0, x.count, copied.get());
  const TokenColumns rows = copied ? TokenColumns{copied.get(), x.count, x.inner, {x.inner, 1}} : x;
  divide_product(team, out.count, out.count * x.inner * x.count,
                 [&](int64_t begin, int64_t end) { dot_outputs(w, rows, begin, end, out); });
}

// Columns [begin, end) of out [tokens, outputs] = x [tokens, inner] · w [inner, outputs].
void multiply_columns(const float* x, const Factor& w, const ProductSizes& sizes, int64_t begin,
                      int64_t end, float* out) {
  const int64_t outputs = sizes.columns;
  const Source source(w, outputs);
  const int64_t room = kMatrixTile / std::max<int64_t>(sizes.inner, 1) / kStep * kStep;
  const int64_t tile = source.is_whole() ? end - begin : std::max<int64_t>(room, 4 * kStep);
  for (int64_t at = begin; at < end; at += tile) {
    const int64_t count = std::min(tile, end - at);
    multiply_rows({x, sizes.inner}, source.columns(sizes.inner, at, count),
                  {sizes.rows, sizes.inner, count}, {out + at, outputs});
  }
}

void tokens_times_columns(ThreadTeam& team, const float* x, const Factor& w,
                          const ProductSizes& sizes, float* out) {
  divide_product(
      team, sizes.columns, sizes.columns * sizes.inner * sizes.rows,
      [&](int64_t begin, int64_t end) { multiply_columns(x, w, sizes, begin, end, out); });
}

// A product of one token, prepared for the threads that compute its outputs.
class TokenWork {
 public:
  // `token` is the arranged token for weights that are rows of codes, else null.
  TokenWork(const TokenProduct& product, const CodedToken* token)
      : product_(product), token_(token) {}

  int64_t steps() const { return (product_.outputs + kStep - 1) / kStep; }

  // Computes the outputs of steps [first, last).
  void operator()(int64_t first, int64_t last) const {
    const TokenProduct& p = product_;
    const int64_t begin = first * kStep, end = std::min(last * kStep, p.outputs);
    if (token_ != nullptr) return dot_codes(begin, end);
    if (p.is_columns)
      return multiply_columns(p.token, p.weight, {1, p.inner, p.outputs}, begin, end, p.out);
    dot_outputs(p.weight, {p.token, 1, p.inner, {p.inner, 1}}, begin, end,
                {p.out, p.outputs, {p.outputs, 1}});
  }

 private:
  void dot_codes(int64_t begin, int64_t end) const {
    const StoredWeight& weight = *product_.weight.stored;
    std::optional<MappedRead> read;
    if (const auto range = weight.range()) read.emplace(*range);
    const int64_t first = product_.weight.begin / product_.inner;
    weight.dot({first + begin, end - begin}, *token_, product_.out + begin);
  }

  const TokenProduct& product_;
  const CodedToken* token_;
};

// How a product needs its token; nullopt unless the weight is rows of codes.
std::optional<Arrangement> arrangement_of(const TokenProduct& product, ActivationFormat format) {
  const StoredWeight* stored = product.weight.stored;
  const bool has_rows = stored != nullptr && !product.is_columns && product.inner > 0 &&
                        product.weight.begin % product.inner == 0;
  return has_rows ? stored->arrangement(product.inner, format) : std::nullopt;
}

// The arranged tokens of products. Consecutive products with the same token and arrangement share
// one.
class ArrangedTokens {
 public:
  explicit ArrangedTokens(ActivationFormat format) : format_(format) {}

  // Null if the product needs no arranged token. Stays valid.
  const CodedToken* of(const TokenProduct& product) {
    const auto as = arrangement_of(product, format_);
    if (!as) return nullptr;
    if (tokens_.empty() || product.token != token_ || *as != as_) {
      tokens_.push_back(arranged({product.token, static_cast<size_t>(product.inner)}, *as));
      token_ = product.token;
      as_ = *as;
    }
    return &tokens_.back();
  }

 private:
  ActivationFormat format_;
  std::deque<CodedToken> tokens_;
  const float* token_ = nullptr;  // of the last of tokens_
  Arrangement as_;
};

}  // namespace

bool CpuProducts::dot_codes(const Factor& w, const TokenColumns& x, const Outputs& out) const {
  // Kernels of f32 activations decode the codes for each token, which pays off for a single one.
  if (!w.stored || format_ == ActivationFormat::f32) return false;
  const auto as = arrangement_of({.weight = w, .inner = x.inner}, format_);
  if (!as || as->format != ActivationFormat::int8) return false;
  // Kept for the next product, because fresh memory costs more than arranging tokens. The other
  // threads use the memory of the calling thread.
  thread_local CodedTokens memory;
  CodedTokens& tokens = memory;
  tokens.reset(x.inner, x.count, as->bits);
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
  const auto multiply_rows_of = [&](const Factor& w, const TokenColumns& x, const Outputs& to) {
    if (x.count == 1) {
      const TokenProduct product{w, false, x.values, x.inner, to.count, to.values};
      return multiply_tokens(std::span(&product, 1));
    }
    if (dot_codes(w, x, to)) return;
    x.count <= kFewTokens ? multiply_few(team_, w, x, to) : multiply_many(team_, w, x, to);
  };
  const int64_t inner = sizes.inner;
  if (a.stored || (!b.stored && !is_turned && sizes.columns <= kFewTokens))
    multiply_rows_of(a, {b.values, sizes.columns, inner, {1, sizes.columns}},
                     {out, sizes.rows, {1, sizes.columns}});
  else if (is_turned)
    multiply_rows_of(b, {a.values, sizes.rows, inner, {inner, 1}},
                     {out, sizes.columns, {sizes.columns, 1}});
  else
    tokens_times_columns(team_, a.values, b, sizes, out);
}

void CpuProducts::multiply_tokens(std::span<const TokenProduct> products) const {
  ArrangedTokens tokens(format_);
  std::vector<TokenWork> works;
  works.reserve(products.size());
  int64_t steps = 0, multiplications = 0;
  for (const TokenProduct& product : products) {
    works.emplace_back(product, tokens.of(product));
    steps += works.back().steps();
    multiplications += product.inner * product.outputs;
  }
  const auto compute = [&](int64_t begin, int64_t end) {
    for (const TokenWork& work : works) {
      if (begin < work.steps() && end > 0)
        work(std::max<int64_t>(begin, 0), std::min(end, work.steps()));
      begin -= work.steps();
      end -= work.steps();
    }
  };
  multiplications < kSmallProduct ? compute(0, steps) : team_.divide(steps, 1, compute);
}

void CpuProducts::softmax(const float* x, int64_t count, float* to) const {
  softmax_values(x, count, to);
}

void CpuProducts::sigmoid(const float* x, int64_t count, float* to) const {
  sigmoid_values(x, count, to);
}

}  // namespace moec
