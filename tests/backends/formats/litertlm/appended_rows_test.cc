#include "backends/formats/litertlm/appended_rows.h"

#include <gtest/gtest.h>

#include "ir/graph/builder.h"

namespace moec {
namespace {

// A cache of 5 rows and 2 new rows.
struct Appending {
  Builder b{"L00.attn", Form::placed};
  ValueId cache = b.input("k_state", {DType::f32, {1, 2, 5, 4}});
  ValueId rows = b.input("k_new", {DType::f32, {1, 2, 2, 4}});
};

TEST(AppendedRows, FindsTheConcatenation) {
  Appending a;
  a.b.output("keys", a.b.concat({a.cache, a.rows}, 2));
  const Shard shard = a.b.finish();
  const auto found = appended_rows(shard, a.cache);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rows, a.rows);
  EXPECT_TRUE(std::holds_alternative<Concat>(shard.ops[found->concat].data));
}

TEST(AppendedRows, RejectsOtherUses) {
  Appending reversed;
  reversed.b.output("keys", reversed.b.concat({reversed.rows, reversed.cache}, 2));
  EXPECT_FALSE(appended_rows(reversed.b.finish(), reversed.cache));

  Appending twice;
  twice.b.output("keys", twice.b.concat({twice.cache, twice.rows}, 2));
  twice.b.output("sum", twice.b.add(twice.cache, twice.cache));
  EXPECT_FALSE(appended_rows(twice.b.finish(), twice.cache));

  Appending unused;
  unused.b.output("rows", unused.b.add(unused.rows, unused.rows));
  EXPECT_FALSE(appended_rows(unused.b.finish(), unused.cache));
}

}  // namespace
}  // namespace moec
