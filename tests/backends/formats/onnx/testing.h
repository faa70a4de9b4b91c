// Helpers for tests of the ONNX and Core ML backends and readers: folders, emission, and shards
// with every op that the format supports.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "backends/formats/onnx/emit_onnx.h"
#include "ir/graph/builder.h"

namespace moec {

// Creates an empty folder for the running test; the destructor removes it.
class TestFolder {
 public:
  TestFolder() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string(info->test_suite_name()) + "." + info->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline WeightReader no_files() { return WeightReader::open({}).value(); }

inline Result<EmitReport> emit_one(const Shard& shard, const TestFolder& folder,
                                   const std::string& stem = "shard") {
  const ShardWidth width{1, &shard};
  return emit_onnx({&width, 1}, no_files(), {.folder = folder.string(), .stem = stem});
}

// A placed shard in the given layout that uses each op with an ONNX form at least once. Without
// top-k, it uses each op with a Core ML form except states; in rows and without erf, each op with a
// TFLite form except conv.
inline Shard every_op_shard(DType dtype, Layout layout, int64_t tokens, bool with_topk = true,
                            bool with_erf = true) {
  Builder b("L00.moe", Form::placed);
  const ValueId x = b.input("x", token_type(dtype, layout, 6, tokens));
  const Type vector{dtype, channel_vector_dims(layout, 6)};
  std::vector<ValueId> parts;
  for (UnaryFn fn :
       {UnaryFn::neg, UnaryFn::abs, UnaryFn::exp, UnaryFn::sigmoid, UnaryFn::tanh, UnaryFn::erf})
    if (with_erf || fn != UnaryFn::erf) parts.push_back(b.unary(fn, x, std::string(enum_name(fn))));
  const ValueId positive = b.add(parts[1], b.scalar_like(x, 0.5), "positive");
  for (UnaryFn fn : {UnaryFn::log, UnaryFn::sqrt, UnaryFn::reciprocal})
    parts.push_back(b.unary(fn, positive));
  const ValueId w = b.weight(then(seeded_view(3, {DType::f32, vector.dims}), CastStep{dtype}), "w");
  for (BinaryFn fn : {BinaryFn::sub, BinaryFn::mul, BinaryFn::div, BinaryFn::max, BinaryFn::min})
    parts.push_back(b.binary(fn, positive, w, "experts.3." + std::string(enum_name(fn))));
  const ValueId joined = b.concat(parts, 1, "joined");
  const ValueId splat = b.constant({dtype, b.type(joined).dims}, {0.25}, "quarter");
  for (CompareFn fn : {CompareFn::greater, CompareFn::less, CompareFn::equal}) {
    const ValueId hit = b.compare(fn, joined, splat);
    parts.push_back(b.select(hit, joined, splat));
    parts.push_back(b.cast(hit, dtype));
  }
  ValueId all = b.concat(parts, 1, "all");
  for (ReduceFn fn : {ReduceFn::sum, ReduceFn::mean, ReduceFn::max})
    all = b.sub(all, b.reduce(fn, all, 1, std::string(enum_name(fn))));
  all = b.softmax(all, 1, "probs");
  if (with_topk) {
    const auto top = b.emit_all(TopK{.k = 4, .axis = 1}, {all}, "top");
    const ValueId iota = b.constant({DType::i64, {}}, {7}, "seven");
    b.output("small_index", b.cast(b.compare(CompareFn::less, top[1], iota), dtype));
  }
  const ValueId part = b.slice(all, 1, 5, 6, "part");
  const ValueId columns =
      b.weight(then(seeded_view(4, {DType::f32, {5, 6}}), CastStep{dtype}), "columns");
  const ValueId flat = b.reshape(part, {tokens * 6}, Layout::plain, "flat");
  const ValueId rows = b.reshape(flat, {tokens, 6}, Layout::rows, "rows");
  const ValueId turned = b.transpose(columns, {1, 0}, Layout::plain, "turned");
  b.output("rows_out", b.matmul(rows, turned, "projected"));
  if (is_channel_major(layout)) {
    const ValueId kernel = b.reshape(columns, {5, 6, 1, 1}, Layout::plain, "kernel");
    b.output("conv_out", b.emit(Conv{.groups = 1}, {part, kernel}, "conv"));
  }
  b.output("passed_on", x);
  b.output("again", all);
  b.output("weight_out", w);
  b.output("same", all);
  return b.finish();
}

// Random op chains on one input, with missing names, sources in odd positions and several outputs.
inline Shard random_shard(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t n) { return random() % n; };
  const DType dtype = below(2) ? DType::f32 : DType::f16;
  const Type type = token_type(dtype, below(2) ? Layout::rows : Layout::channels, 4, 3);
  Builder b("L0" + std::to_string(below(10)) + ".moe", Form::placed);
  std::vector<ValueId> pool = {b.input("x", type), b.input("y", type)};
  auto any = [&] { return pool[below(pool.size())]; };
  auto name = [&]() -> std::string {
    return below(2) ? "" : "experts." + std::to_string(below(5));
  };
  const uint64_t ops = 3 + below(25);
  for (uint64_t i = 0; i < ops; ++i) {
    const auto number = static_cast<double>(static_cast<int64_t>(below(17))) / 8 - 1;
    switch (below(8)) {
      case 0:
        pool.push_back(b.unary(static_cast<UnaryFn>(below(2)), any(), name()));
        break;
      case 1:
        pool.push_back(b.constant(type, {number}, name()));
        break;
      case 2:
        pool.push_back(b.weight(
            then(seeded_view(below(3), {DType::f32, type.dims}), CastStep{dtype}), name()));
        break;
      case 3:
        pool.push_back(b.mul(any(), b.scalar_like(pool[0], number), name()));
        break;
      case 4:
        pool.push_back(b.softmax(any(), 1, name()));
        break;
      case 5: {
        const ValueId x = any();
        pool.push_back(b.concat({b.slice(x, 1, 2, 2), b.slice(x, 1, 0, 2)}, 1, name()));
        break;
      }
      case 6: {
        const ValueId x = any();
        pool.push_back(b.select(b.compare(CompareFn::less, x, any()), any(), x, name()));
        break;
      }
      default:
        pool.push_back(b.binary(static_cast<BinaryFn>(below(2)), any(), any(), name()));
    }
  }
  b.output("out", pool.back());
  for (uint64_t i = 0; i < below(4); ++i) b.output("out_" + std::to_string(i), any());
  return b.finish();
}

}  // namespace moec
