// Large weights stay in their files. Their products equal those of in-memory weights bit for bit.
#include <map>
#include <random>

#include "ir/graph/scalar.h"
#include "tests/backends/reference/testing.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

constexpr DType kStoredTypes[] = {DType::f16, DType::bf16, DType::f32};

// The first elements of one sequence per type. Keeps the longest, because making them takes longer
// than the products.
Bytes random_elements(DType dtype, int64_t count) {
  static std::map<DType, Bytes> kept;
  Bytes& bytes = kept[dtype];
  const auto size = static_cast<size_t>(count * dtype_bytes(dtype));
  if (bytes.size() < size) {
    bytes.clear();
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = naive_encode(dtype, normal(random));
      for (int64_t byte = 0; byte < dtype_bytes(dtype); ++byte)
        bytes.push_back(static_cast<std::byte>(bits >> (8 * byte)));
    }
  }
  return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

// A product of an input and a weight. A weight that is also an output must be in memory.
struct Product {
  const char* name;
  Dims input, weight;
  enum class Kind { conv, weight_right, weight_left } kind;
  int64_t groups = 1;
};

Shard shard_of(const Product& product, DType dtype, bool in_memory) {
  Builder build("L00.test", Form::model);
  const Layout layout = product.kind == Product::Kind::conv ? Layout::channels : Layout::plain;
  const ValueId x = build.input("x", {dtype, product.input, layout});
  const ValueId w = build.weight(tensor_view("w", {dtype, product.weight}), "w");
  const ValueId y =
      product.kind == Product::Kind::conv           ? build.emit(Conv{product.groups}, {x, w}, "y")
      : product.kind == Product::Kind::weight_right ? build.emit(MatMul{}, {x, w}, "y")
                                                    : build.emit(MatMul{}, {w, x}, "y");
  build.output("y", y);
  if (in_memory) build.output("w", w);
  return build.finish();
}

std::vector<Product> products() {
  using Kind = Product::Kind;
  std::vector<Product> all;
  for (const int64_t tokens : {1, 2, 5, 17, 64}) {
    all.push_back({"conv", {1, 130, tokens, 1}, {1003, 130, 1, 1}, Kind::conv});
    all.push_back({"conv of few channels", {1, 20, tokens, 1}, {2000, 20, 1, 1}, Kind::conv});
    all.push_back({"conv in groups", {1, 512, tokens, 1}, {514, 256, 1, 1}, Kind::conv, 2});
    all.push_back({"conv to one channel", {1, 20000, tokens, 1}, {1, 20000, 1, 1}, Kind::conv});
    all.push_back({"right", {tokens, 300}, {300, 1001}, Kind::weight_right});
    all.push_back({"right, wide", {tokens, 131}, {131, 8200}, Kind::weight_right});
    all.push_back({"right, short", {tokens, 20}, {20, 1001}, Kind::weight_right});
    all.push_back({"right, narrow", {tokens, 2049}, {2049, 9}, Kind::weight_right});
    all.push_back({"right, batch", {3, tokens, 100}, {3, 100, 200}, Kind::weight_right});
    all.push_back({"left", {200, tokens}, {333, 200}, Kind::weight_left});
  }
  return all;
}

Tensor run_for_y(Executor& executor, const Tensor& x) {
  auto out = executor.run({x});
  EXPECT_TRUE(out) << render(out.error());
  return out ? out->front() : Tensor{};
}

void expect_equal_products(const Product& product, DType dtype, Precision precision) {
  const Type type{dtype, product.weight};
  const Bytes bytes = random_elements(dtype, type.elements());
  const WeightTable table = table_of(write_file("weight.bin", bytes), bytes.size(), type);
  const Shard stored = shard_of(product, dtype, false), loaded = shard_of(product, dtype, true);
  auto in_file = Executor::create(stored, table, {.precision = precision});
  auto in_memory = Executor::create(loaded, table, {.precision = precision});
  ASSERT_TRUE(in_file && in_memory);
  EXPECT_EQ(in_file->memory().mapped, bytes.size());
  EXPECT_EQ(in_memory->memory().mapped, 0u);
  EXPECT_LT(in_file->memory().held, static_cast<uint64_t>(type.elements()));
  const Tensor x = seeded_inputs(stored, 3).front();
  for (const bool releases : {false, true}) {
    if (releases) in_file->release_weights_after_use();
    EXPECT_EQ(run_for_y(*in_file, x), run_for_y(*in_memory, x))
        << product.name << " of " << to_string(x.type) << " in " << dtype_name(dtype);
  }
}

TEST(StoredWeights, MatchProductsOfInMemoryWeights) {
  for (const Product& product : products())
    for (const DType dtype : kStoredTypes) expect_equal_products(product, dtype, Precision::f32);
}

TEST(StoredWeights, AreRoundedInF16Runs) {
  for (const Product& product : {products().front(), products()[4]})
    for (const DType dtype : kStoredTypes) expect_equal_products(product, dtype, Precision::f16);
}

TEST(StoredWeights, AreExcludedFromTheMemoryLimit) {
  const Product product{"", {1, 256}, {256, 1024}, Product::Kind::weight_right};
  const Bytes bytes = random_elements(DType::f16, 256 * 1024);
  auto reader = WeightReader::open(
      table_of(write_file("weight.bin", bytes), bytes.size(), {DType::f16, {256, 1024}}));
  ASSERT_TRUE(reader);
  EXPECT_TRUE(Executor::create(shard_of(product, DType::f16, false), *reader,
                               {.memory_limit = uint64_t{64} << 10}));
}

TEST(StoredWeights, ReportAFileTruncatedBetweenRuns) {
  const Product product{"", {1, 256}, {256, 1024}, Product::Kind::weight_right};
  const Bytes bytes = random_elements(DType::f16, 256 * 1024);
  const std::string path = write_file("weight.bin", bytes);
  const Shard shard = shard_of(product, DType::f16, false);
  auto executor = Executor::create(shard, table_of(path, bytes.size(), {DType::f16, {256, 1024}}));
  ASSERT_TRUE(executor);
  const std::vector<Tensor> inputs = seeded_inputs(shard, 3);
  EXPECT_TRUE(executor->run(inputs));
  std::filesystem::resize_file(path, 4096);
  const auto cut = executor->run(inputs);
  ASSERT_FALSE(cut);
  EXPECT_EQ(code_of(cut.error()), "weights.file_changed");
}

}  // namespace
}  // namespace moec
