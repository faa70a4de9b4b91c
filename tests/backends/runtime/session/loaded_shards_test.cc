#include "backends/runtime/session/loaded_shards.h"

#include "backends/runtime/session/reference_engine.h"
#include "tests/backends/reference/testing.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

// Shards of one 256-KiB matrix each, stored in a file; counts how often each shard is loaded.
class LoadedShardsTest : public testing::Test {
 protected:
  static constexpr uint64_t kMatrix = uint64_t{256} << 10;

  LoadedShardsTest()
      : type_{DType::f16, {128, 1024}},
        table_(table_of(write_file("matrix.bin", Bytes(kMatrix)), kMatrix, type_)) {}

  LoadedShard matrix() const {
    Builder build("matrix", Form::model);
    const ValueId x = build.input("x", {DType::f16, {1, 128}});
    build.output("y", build.emit(MatMul{}, {x, build.weight(tensor_view("w", type_), "w")}, "y"));
    return {build.finish(), table_, {}, IdMap<OpId, std::string>()};
  }

  Result<Executable*> get(LoadedShards& shards, const std::string& name, size_t width = 0) {
    return shards.get(name, width, [&](uint64_t limit) {
      ++loads_[name];
      const auto engine = reference_engine(
          [&](const Manifest&, const std::string&, const manifest::Width&) { return matrix(); });
      manifest::Shard shard;
      shard.name = name;
      shard.widths.resize(width + 1);
      return engine->compile({{}, "", shard, width}, {.memory_limit = limit});
    });
  }

  Type type_;
  WeightTable table_;
  std::map<std::string, int> loads_;
};

TEST_F(LoadedShardsTest, KeepsShardsWithinTheBudget) {
  LoadedShards shards(4 * kMatrix);
  for (int round = 0; round < 3; ++round)
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(get(shards, name));
  EXPECT_EQ(loads_, (std::map<std::string, int>{{"a", 1}, {"b", 1}, {"c", 1}}));
  EXPECT_EQ(shards.kept(), 3u);
  EXPECT_GE(shards.kept_bytes(), 3 * kMatrix);
  EXPECT_LE(shards.kept_bytes(), 4 * kMatrix);
}

TEST_F(LoadedShardsTest, EvictsShardsBeyondTheBudget) {
  LoadedShards shards(4 * kMatrix);
  for (int round = 0; round < 3; ++round)
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      ASSERT_TRUE(get(shards, name));
      EXPECT_LE(shards.kept_bytes(), 4 * kMatrix);
    }
  EXPECT_GE(shards.kept(), 1u);
  EXPECT_EQ(loads_["a"], 1);
  EXPECT_EQ(loads_["e"], 3);
}

TEST_F(LoadedShardsTest, KeepsAllWidthsWithinTheBudget) {
  LoadedShards shards(2 * kMatrix);
  for (const size_t width : {0, 0, 1, 1, 0}) ASSERT_TRUE(get(shards, "a", width));
  EXPECT_EQ(loads_["a"], 2);
  EXPECT_EQ(shards.kept(), 2u);
  EXPECT_EQ(shards.kept_mapped(), kMatrix);
}

TEST_F(LoadedShardsTest, KeepsOneWidthInLittleMemory) {
  LoadedShards one(2 * kMatrix);
  ASSERT_TRUE(get(one, "a"));
  LoadedShards shards(one.kept_bytes() + one.reserve());
  loads_.clear();
  for (const size_t width : {0, 0, 1, 1, 0}) {
    ASSERT_TRUE(get(shards, "a", width));
    EXPECT_EQ(shards.kept(), 1u);
    EXPECT_EQ(shards.kept_bytes(), one.kept_bytes());
  }
  EXPECT_EQ(loads_["a"], 3);
}

TEST_F(LoadedShardsTest, CountsMappedBytesOnce) {
  LoadedShards shards(3 * kMatrix);
  for (const size_t width : {0, 1}) ASSERT_TRUE(get(shards, "a", width));
  for (const char* name : {"b", "c", "d", "e"}) ASSERT_TRUE(get(shards, name));
  EXPECT_LE(shards.kept_bytes(), 3 * kMatrix);
  EXPECT_EQ(shards.kept_mapped() % kMatrix, 0u);
  EXPECT_LT(shards.kept_bytes() - shards.kept_mapped(), kMatrix / 8);
}

TEST_F(LoadedShardsTest, RejectsAShardAboveTheBudget) {
  LoadedShards shards(kMatrix);
  const auto refused = get(shards, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(code_of(refused.error()), "session.memory");
  EXPECT_EQ(refused.error()[0].place.shard, "a");
}

}  // namespace
}  // namespace moec
