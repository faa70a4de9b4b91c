// Byte ranges of experts in an export: their contents match the digests in the manifest.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/files/digest.h"
#include "backends/manifest/manifest_file.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;

struct RangesCase {
  const char* name;
  const char* golden;
  Words flags;
  int64_t alignment;  // of an expert's first byte
  size_t ranges;      // per expert in a shard
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const RangesCase& c, std::ostream* out) { *out << c.name; }

class ExpertRanges : public testing::TestWithParam<RangesCase> {
 protected:
  Manifest export_them() {
    Words words = {"export", checkpoint_of(GetParam().golden), "-o", out_, "--quiet", "--context",
                   "32"};
    words.insert(words.end(), GetParam().flags.begin(), GetParam().flags.end());
    const Outcome exported = run_command(words);
    EXPECT_EQ(exported.exit_code, kExitFine) << exported.err;
    auto manifest = read_manifest(out_);
    EXPECT_TRUE(manifest) << render(manifest.error());
    return *manifest;
  }

  std::string bytes_of(const manifest::Shard& shard, const WeightRange& range) const {
    const std::string file = read_file(out_ + "/" + shard.data.at(range.data).path);
    return file.substr(static_cast<size_t>(range.offset), static_cast<size_t>(range.bytes));
  }

  const std::string out_ = fresh_folder("out") + "/out";
};

using Ranges = std::vector<WeightRange>;

// Returns the ranges of expert weights in a shard, in file order.
std::map<std::pair<int64_t, int64_t>, Ranges> experts_of(const manifest::Shard& shard) {
  std::map<std::pair<int64_t, int64_t>, Ranges> experts;
  for (const WeightRecord& weight : shard.weights)
    if (weight.role == WeightRole::expert && weight.digests.size() == 32)
      for (const WeightRange& range : weight.ranges)
        experts[{weight.moe_layer, weight.first_expert}].push_back(range);
  return experts;
}

TEST_P(ExpertRanges, MatchTheirDigests) {
  size_t ranges = 0;
  for (const manifest::Shard& shard : export_them().shards)
    for (const WeightRecord& weight : shard.weights)
      for (const WeightRange& range : weight.ranges) {
        ++ranges;
        EXPECT_EQ(digest_text(bytes_of(shard, range)), range.digest) << weight.name;
        EXPECT_EQ(range.offset % range.alignment, 0) << weight.name;
        if (range.part == StoredAs::values && weight.digests.size() == range.digest.size())
          EXPECT_EQ(range.digest, weight.digests) << weight.name;
      }
  EXPECT_GT(ranges, 0u);
}

TEST_P(ExpertRanges, AreContiguousAndAligned) {
  size_t experts = 0;
  for (const manifest::Shard& shard : export_them().shards) {
    int64_t end = 0;  // end of the previous expert
    for (const auto& [key, ranges] : experts_of(shard)) {
      ++experts;
      EXPECT_EQ(ranges.size(), GetParam().ranges) << shard.name;
      EXPECT_EQ(ranges.front().offset % GetParam().alignment, 0) << shard.name;
      for (const WeightRange& range : ranges) {
        EXPECT_GE(range.offset, end) << shard.name;
        end = range.offset + range.bytes;
      }
    }
  }
  EXPECT_GT(experts, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, ExpertRanges,
    testing::Values(
        RangesCase{
            "onnx", "qwen3_moe_a", {"--experts-per-shard", "2", "--tokens", "1,4"}, 65536, 3},
        RangesCase{"onnx_coded",
                   "qwen3_moe_a",
                   {"--experts-per-shard", "2", "--weights", "experts=int8"},
                   65536,
                   6},
        RangesCase{
            "coreml", "qwen3_moe_a", {"--target", "ane", "--experts-per-shard", "2"}, 65536, 3},
        RangesCase{"coreml_whole", "olmoe_a", {"--target", "ane"}, 64, 3},
        RangesCase{
            "coreml_aligned", "olmoe_a", {"--target", "ane", "--expert-align", "4K"}, 4096, 3},
        RangesCase{"coreml_palettes",
                   "qwen3_moe_a",
                   {"--target", "ane", "--experts-per-shard", "3", "--weights",
                    "experts=int4-lut:g8", "--tokens", "1,4"},
                   65536,
                   6},
        RangesCase{
            "biases", "gpt_oss_a", {"--target", "ane", "--experts-per-shard", "5"}, 65536, 5},
        RangesCase{"layers", "olmoe_a", {"--layers-per-shard", "2"}, 65536, 3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ExpertAlign, RequiresAPowerOfTwo) {
  for (const char* text : {"48K", "32", "2G", "lots", "0"}) {
    const Outcome refused = run_command(
        {"export", checkpoint_of("olmoe_a"), "-o", fresh_folder("out"), "--expert-align", text});
    EXPECT_EQ(refused.exit_code, kExitBadInput) << text;
    EXPECT_THAT(refused.err, HasSubstr("--expert-align")) << text;
  }
}

}  // namespace
}  // namespace moec
