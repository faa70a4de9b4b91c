// Tests that print() and parse() are exact inverses, for random shards and for damaged texts.
#include <gtest/gtest.h>

#include <set>

#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/ir/random_shard.h"

// The fuzz target checks the same property.
#include "tests/fuzz/ir_text_property.h"

namespace moec {
namespace {

constexpr uint64_t kShards = 4000;

TEST(RoundTrip, ReadsBackRandomShards) {
  std::set<std::string_view> ops;
  for (uint64_t seed = 0; seed < kShards; ++seed) {
    const Shard shard = RandomShard(seed).make();
    const std::string text = print(shard);
    ASSERT_EQ(render(verify(shard)), "") << text;
    auto parsed = parse_shard(text);
    ASSERT_TRUE(parsed) << render(parsed.error()) << "\n" << text;
    ASSERT_EQ(*parsed, shard) << text;
    ASSERT_EQ(print(*parsed), text);
    for (const Op& op : shard.ops) ops.insert(mnemonic(op.data));
  }
  // The number of ops in ops.def, where an op with functions counts once per function.
  size_t expected = enum_names(UnaryFn{}).size() + enum_names(BinaryFn{}).size() +
                    enum_names(CompareFn{}).size() + enum_names(ReduceFn{}).size();
  for (size_t i = 0; i < kOpKinds; ++i)
    if (parse_mnemonic(traits_of(static_cast<OpKind>(i)).name)) ++expected;
  EXPECT_EQ(ops.size(), expected);
}

TEST(RoundTrip, ReadsBackRandomViews) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomShard random(seed);
    const WeightView view = random.view({DType::f32, {4, 3, 5}}, 5);
    ASSERT_EQ(to_string(view_type(view).value()), "f32[4,3,5]") << to_string(view);
    auto parsed = parse_view(to_string(view));
    ASSERT_TRUE(parsed) << to_string(view);
    ASSERT_EQ(*parsed, view) << to_string(view);
  }
}

// Changes, removes, duplicates or inserts bytes of a text, or truncates it.
std::string damaged(std::string text, std::mt19937_64& random) {
  constexpr std::string_view kBytes = "{}[](),;:=|%@\"\\/- \n0189aezAZ_.\x01\xff";
  for (uint64_t i = 1 + random() % 4; i > 0 && !text.empty(); --i) {
    const size_t at = random() % text.size(), length = 1 + random() % 8;
    switch (random() % 5) {
      case 0:
        text[at] = kBytes[random() % kBytes.size()];
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
      case 3:
        text.insert(at, std::to_string(random() >> (random() % 64)));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST(RoundTrip, RejectsOrRoundTripsDamagedTexts) {
  std::mt19937_64 random(11);
  std::vector<std::string> texts;
  for (uint64_t seed = 0; seed < 500; ++seed) texts.push_back(print(RandomShard(seed).make()));
  size_t refused = 0, read = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const std::string text = damaged(texts[i % texts.size()], random);
    ir_text::check_ir_text(text);
    auto parsed = parse_shard(text);
    ++(parsed ? read : refused);
    if (parsed) continue;
    ASSERT_EQ(parsed.error().size(), 1u);
    EXPECT_TRUE(parsed.error()[0].code.starts_with("text.")) << render(parsed.error());
    EXPECT_TRUE(parsed.error()[0].place.line && parsed.error()[0].place.column);
  }
  EXPECT_GT(refused, 5000u);
  EXPECT_GT(read, 500u);
}

TEST(RoundTrip, RejectsRandomBytes) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_FALSE(parse_shard(bytes));
    bytes = "shard a static {" + bytes;
    ir_text::check_ir_text(bytes);
  }
}

}  // namespace
}  // namespace moec
