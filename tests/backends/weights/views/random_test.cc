// Compares random chains of view steps with the element-by-element oracle.
#include <algorithm>
#include <numeric>

#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

using Random = std::mt19937_64;

int64_t pick(Random& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

template <class T>
T pick(Random& random, std::initializer_list<T> from) {
  return from.begin()[pick(random, 0, static_cast<int64_t>(from.size()) - 1)];
}

constexpr size_t kFileBytes = 1 << 16;
constexpr int64_t kMaxTestElements = 1500;
// The file ends with indices from 0 to kIndices − 1.
constexpr int64_t kIndices = 5;
constexpr size_t kIndexBytes = 1 << 13;

// Builds views backward: first a view of another type, then a step that converts it to the
// requested type.
class ViewMaker {
 public:
  ViewMaker(Random& random, WeightTable& table) : random_(random), table_(table) {}

  Type random_type() {
    Type type{pick(random_, {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::i64,
                             DType::i32, DType::u8, DType::boolean}),
              {}};
    for (int64_t axes = pick(random_, 0, 5); axes > 0; --axes)
      type.dims.push_back(pick(random_, 1, pick(random_, 1, 40)));
    while (type.elements() > kMaxTestElements) type.dims.pop_back();
    return type;
  }

  WeightView make(const Type& type, int depth) {
    if (depth == 0) return leaf(type);
    switch (pick(random_, 0, 13)) {
      case 0:
        return leaf(type);
      case 1:
        return sliced(type, depth);
      case 2:
      case 3:
        return reshaped(type, depth);
      case 4:
      case 5:
        return permuted(type, depth);
      case 6:
        return concat(type, depth);
      case 7:
        return converted(type, depth);
      case 8:
        return unpacked(type, depth);
      case 9:
        return looked_up(type, depth);
      case 10:
        return unblocked(type, depth);
      case 11:
        return blockwise(type, depth);
      case 12:
        return gathered(type);
      default:
        return dequantised(type, depth);
    }
  }

 private:
  WeightView leaf(const Type& type) {
    const int64_t kind = is_float(type.dtype) ? pick(random_, 0, 5) : 5;
    if (kind == 0) return splat_view(pick(random_, {0.5, -3.0, 1e6, 1e300}), type);
    if (kind == 1) return seeded_view(random_(), type);
    std::string name = "t" + std::to_string(table_.tensors.size());
    const auto last = static_cast<int64_t>(kFileBytes) - type.bytes();
    table_.tensors[name] = {0, static_cast<uint64_t>(pick(random_, 0, last)), type};
    return tensor_view(name, type);
  }

  WeightView sliced(const Type& type, int depth) {
    if (type.dims.empty()) return leaf(type);
    const auto axis = static_cast<size_t>(pick(random_, 0, type.rank() - 1));
    Type larger = type;
    larger.dims[axis] += pick(random_, 0, 5);
    if (larger.elements() > kMaxTestElements) return leaf(type);
    const int64_t begin = pick(random_, 0, larger.dims[axis] - type.dims[axis]);
    return with(make(larger, depth - 1),
                SliceStep{static_cast<int64_t>(axis), begin, type.dims[axis]});
  }

  Dims other_dims(int64_t elements) {
    Dims dims;
    for (int64_t axes = pick(random_, 0, 4); axes > 0; --axes) {
      int64_t factor = pick(random_, 1, std::min<int64_t>(elements, 12));
      while (elements % factor != 0) --factor;
      dims.push_back(factor);
      elements /= factor;
    }
    if (elements > 1 || pick(random_, 0, 1)) dims.push_back(elements);
    std::shuffle(dims.begin(), dims.end(), random_);
    return dims;
  }

  // Returns the same axes with unit axes added or removed.
  Dims with_other_units(const Dims& dims) {
    Dims other;
    for (int64_t size : dims) {
      if (other.size() < kMaxRank - 1 && pick(random_, 0, 2) == 0) other.push_back(1);
      if (size > 1 && other.size() < kMaxRank) other.push_back(size);
    }
    const auto product = checked_elements(other);
    return product == checked_elements(dims) ? other : dims;
  }

  WeightView reshaped(const Type& type, int depth) {
    const Type other{type.dtype, pick(random_, 0, 1) ? other_dims(type.elements())
                                                     : with_other_units(type.dims)};
    return with(make(other, depth - 1), ReshapeStep{type.dims});
  }

  WeightView permuted(const Type& type, int depth) {
    PermuteStep step;
    step.axes.resize(type.rank());
    std::iota(step.axes.begin(), step.axes.end(), 0);
    std::shuffle(step.axes.begin(), step.axes.end(), random_);
    Type other = type;
    for (int64_t i = 0; i < type.rank(); ++i) other.dims.at(at(step.axes, i)) = type.dims.at(i);
    return with(make(other, depth - 1), step);
  }

  WeightView concat(const Type& type, int depth) {
    if (type.dims.empty()) return leaf(type);
    const auto axis = static_cast<size_t>(pick(random_, 0, type.rank() - 1));
    std::vector<WeightView> parts;
    for (int64_t left = type.dims[axis]; left > 0;) {
      Type part = type;
      part.dims[axis] = pick(random_, 1, left);
      left -= part.dims[axis];
      parts.push_back(make(part, depth - 1));
    }
    return concat_view(static_cast<int64_t>(axis), std::move(parts));
  }

  WeightView converted(const Type& type, int depth) {
    if (!is_float(type.dtype)) return leaf(type);
    if (pick(random_, 0, 1))
      return with(make(type, depth - 1),
                  ScaleStep{pick(random_, {0.25, -7.0, 1e5, 1e38, 1e300, 0.0})});
    Type other = type;
    other.dtype = pick(random_, {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3});
    return with(make(other, depth - 1), CastStep{type.dtype});
  }

  // Scales may be read more than once. They must not overflow, because the overflow count would
  // then depend on how the view is divided into tiles.
  WeightView dequantised(const Type& type, int depth) {
    if (type.dtype != DType::f32) return leaf(type);
    Type child = type;
    child.dtype = pick(random_, {DType::f8_e4m3, DType::bf16, DType::f32});
    DequantStep step;
    Type scale{pick(random_, {DType::f32, DType::bf16}), {}};
    for (int64_t size : type.dims) {
      step.block.push_back(pick(random_, {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{128}}));
      scale.dims.push_back((size - 1) / step.block.back() + 1);
    }
    step.scale = {scale_view(scale)};
    if (pick(random_, 0, 1)) step.offset = {splat_view(pick(random_, -8, 8), scale)};
    return with(make(child, depth - 1), step);
  }

  WeightView blockwise(const Type& type, int depth) {
    if (type.dtype != DType::f32) return leaf(type);
    BlockwiseStep step{pick(random_, {BlockwiseOp::add, BlockwiseOp::divide}), {}, {}};
    Type operand{pick(random_, {DType::f32, DType::f16}), {}};
    for (int64_t size : type.dims) {
      step.block.push_back(pick(random_, {int64_t{1}, int64_t{5}, int64_t{128}}));
      operand.dims.push_back((size - 1) / step.block.back() + 1);
    }
    step.operand = {scale_view(operand)};
    return with(make(type, depth - 1), step);
  }

  // Other elements of the child are read too, so it must not overflow.
  WeightView gathered(const Type& type) {
    if (!is_float(type.dtype) || type.dims.empty()) return leaf(type);
    const auto axis = static_cast<size_t>(pick(random_, 0, type.rank() - 1));
    Type child = type;
    child.dims[axis] = pick(random_, kIndices, 12);
    const Type indices{DType::i32, {type.dims[axis]}};
    std::string name = "i" + std::to_string(table_.tensors.size());
    const int64_t first = pick(random_, 0, 100);
    table_.tensors[name] = {0, kFileBytes - kIndexBytes + static_cast<uint64_t>(first) * 4,
                            indices};
    return with(scale_view(child),
                GatherStep{static_cast<int64_t>(axis), {tensor_view(name, indices)}});
  }

  // Like scales, tables are read more than once.
  WeightView looked_up(const Type& type, int depth) {
    if (type.dtype != DType::f32 || type.rank() == 0 || type.rank() == kMaxRank) return leaf(type);
    LutStep step;
    Type table{pick(random_, {DType::f32, DType::f16}), {}};
    for (int64_t size : type.dims) {
      step.block.push_back(pick(random_, {int64_t{1}, int64_t{3}, int64_t{128}}));
      table.dims.push_back((size - 1) / step.block.back() + 1);
    }
    table.dims.push_back(16);
    if (table.elements() > kMaxTestElements) return leaf(type);
    step.table = {scale_view(table)};
    const auto packing = pick(random_, {Packing::u1, Packing::u2, Packing::u3, Packing::u4});
    return with(numbers(packing, type, depth), step);
  }

  WeightView unpacked(const Type& type, int depth) {
    if (type.dtype != DType::f32 || type.rank() == 0) return leaf(type);
    return numbers(static_cast<Packing>(pick(random_, 0, enum_count<Packing> - 1)), type, depth);
  }

  WeightView unblocked(const Type& type, int depth) {
    if (type.dtype != DType::f32 || type.rank() == 0) return leaf(type);
    const auto block = static_cast<BlockType>(pick(random_, 8, enum_count<BlockType> - 1));
    const BlockFormat& format = block_format(block);
    UnblockStep step{block};
    if (const auto codes = block_format(block).codes)
      step.part = static_cast<UnblockPart>(pick(random_, 0, codes->zeros ? 3 : 2));
    const int64_t size = type.dims.back(), numbers = unblocked_count(step);
    const int64_t blocks = (size - 1) / numbers + 1;
    Type held{DType::u8, type.dims};
    held.dims.back() = blocks * format.bytes;
    if (format.values != BlockValues::decoded || held.elements() > kMaxTestElements)
      return leaf(type);
    const int64_t spare = blocks * numbers - size;
    WeightView view = with(make(held, depth - 1), step);
    return with(std::move(view), SliceStep{type.rank() - 1, pick(random_, 0, spare), size});
  }

  // Numbers of the given packing. The bytes contain more numbers than the type if its size is not a
  // multiple of a run.
  WeightView numbers(Packing packing, const Type& type, int depth) {
    const PackedRun run = packed_run(packing);
    const int64_t size = type.dims.back();
    Type held{run.dtype, type.dims};
    held.dims.back() = (size * run.elements + run.numbers - 1) / run.numbers;
    const int64_t spare = unpacked_count(packing, held.dims.back()) - size;
    WeightView view = with(make(held, depth - 1), UnpackStep{packing});
    const SliceStep wanted{type.rank() - 1, pick(random_, 0, spare), size};
    return spare == 0 ? view : with(std::move(view), wanted);
  }

  WeightView scale_view(const Type& type) {
    Type reversed = type;
    std::reverse(reversed.dims.begin(), reversed.dims.end());
    PermuteStep step;
    for (size_t i = type.rank(); i-- > 0;) step.axes.push_back(static_cast<int64_t>(i));
    return with(leaf_without_splat(reversed), step);
  }

  WeightView leaf_without_splat(const Type& type) {
    std::string name = "s" + std::to_string(table_.tensors.size());
    table_.tensors[name] = {0, 2, type};
    return pick(random_, 0, 1) ? tensor_view(name, type) : seeded_view(random_(), type);
  }

  // Appends the step either unfolded or with then(), which folds steps and which passes use.
  WeightView with(WeightView view, ViewStep step) {
    if (pick(random_, 0, 1)) return then(std::move(view), std::move(step));
    view.steps.push_back(std::move(step));
    return view;
  }

  Random& random_;
  WeightTable& table_;
};

bool same_element(DType dtype, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (!is_float(dtype)) return false;
  return std::isnan(naive_decode(dtype, a)) && std::isnan(naive_decode(dtype, b));
}

struct Chain {
  WeightTable table;
  WeightView view;
  ReaderOptions options;
  size_t tile_bytes = 1;
};

Chain random_chain(Random& random, const std::string& path) {
  Chain chain;
  chain.table.files = {{path, kFileBytes}};
  ViewMaker maker(random, chain.table);
  chain.view = maker.make(maker.random_type(), static_cast<int>(pick(random, 0, 7)));
  chain.options.gather_bytes = pick(random, {1ul, 64ul, 1000ul, 1ul << 20});
  chain.options.band_bytes = pick(random, {1ul, 16ul, 300ul, 1ul << 20});
  chain.options.readers = pick(random, {1ul, 1ul, 1ul, 3ul});
  chain.options.past_cache = pick(random, {false, true});
  chain.tile_bytes = pick(random, {1ul, 2ul, 7ul, 64ul, 1000ul, 1ul << 20});
  return chain;
}

void expect_same_elements(const Naive& expected, const Bytes& found) {
  const auto width = static_cast<size_t>(dtype_bytes(expected.type.dtype));
  ASSERT_EQ(found.size(), expected.bits.size() * width);
  for (size_t i = 0; i < expected.bits.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, found.data() + i * width, width);
    ASSERT_TRUE(same_element(expected.type.dtype, expected.bits[i], bits)) << "element " << i;
  }
}

uint64_t nonfinite_in(const Naive& data) {
  if (!is_float(data.type.dtype) && data.type.dtype != DType::f8_e4m3) return 0;
  return static_cast<uint64_t>(std::count_if(
      data.bits.begin(), data.bits.end(),
      [&](uint64_t bits) { return !std::isfinite(naive_decode(data.type.dtype, bits)); }));
}

void check_chain(const Chain& chain, const Bytes& file) {
  auto reader = WeightReader::open(chain.table, chain.options);
  ASSERT_TRUE(reader) << render(reader.error());
  auto cost = reader->cost(chain.view, chain.tile_bytes);
  ASSERT_TRUE(cost) << render(cost.error());
  Bytes found;
  size_t widest_tile = 0;
  StreamReport report;
  Status status = reader->stream(
      chain.view, chain.tile_bytes,
      [&](std::span<const std::byte> tile) -> Status {
        found.insert(found.end(), tile.begin(), tile.end());
        widest_tile = std::max(widest_tile, tile.size());
        return {};
      },
      report);
  ASSERT_TRUE(status) << render(status.error());
  const Naive expected = Oracle(chain.table, file)(chain.view);
  expect_same_elements(expected, found);
  EXPECT_LE(widest_tile, std::max<size_t>(chain.tile_bytes,
                                          static_cast<size_t>(dtype_bytes(expected.type.dtype))));
  EXPECT_EQ(cost->result_bytes, found.size());
  EXPECT_GE(cost->scratch_bytes, report.peak_scratch);
  EXPECT_EQ(report.elements, expected.bits.size());
  EXPECT_EQ(report.nonfinite, nonfinite_in(expected));
  EXPECT_EQ(report.overflows,
            std::accumulate(expected.overflows.begin(), expected.overflows.end(), uint64_t{0}));
}

TEST(WeightsRandom, MatchesTheOracleForRandomChains) {
  Random random(20240817);
  Bytes file(kFileBytes);
  for (std::byte& byte : file) byte = static_cast<std::byte>(random());
  for (size_t i = 0; i < kIndexBytes / sizeof(int32_t); ++i)
    store(file.data() + kFileBytes - kIndexBytes, i, static_cast<int32_t>(random() % kIndices));
  const std::string path = write_file("random_chains.bin", file);
  for (int i = 0; i < 4000; ++i) {
    const Chain chain = random_chain(random, path);
    check_chain(chain, file);
    if (testing::Test::HasFailure())
      FAIL() << "chain " << i << ": " << to_string(chain.view) << "\n tile " << chain.tile_bytes
             << " gather " << chain.options.gather_bytes << " band " << chain.options.band_bytes
             << " readers " << chain.options.readers;
  }
}

}  // namespace
}  // namespace moec
