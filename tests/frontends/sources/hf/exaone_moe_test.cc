// Configs of exaone_moe.
#include <gmock/gmock.h>

#include "frontends/sources/hf/config.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

std::string exaone_members(const std::string& members) {
  return R"("intermediate_size": 24, "moe_intermediate_size": 12, "num_experts": 8,
      "num_experts_per_tok": 2)" +
         members;
}

struct ExaoneWindows {
  std::vector<int64_t> widths;
  std::vector<bool> rotated;
  bool operator==(const ExaoneWindows&) const = default;
};

ExaoneWindows exaone_windows(const std::string& members) {
  ExaoneWindows all;
  for (const LayerConfig& layer : small_model("exaone_moe", exaone_members(members)).layers) {
    all.widths.push_back(layer.window);
    all.rotated.push_back(layer.rotated);
  }
  return all;
}

TEST(ExaoneMoeConfig, RotatesOnlyLayersWithAWindow) {
  EXPECT_EQ(exaone_windows(""), (ExaoneWindows{{4096, 4096, 4096, 0}, {true, true, true, false}}));
  EXPECT_EQ(exaone_windows(R"(, "sliding_window": 7, "sliding_window_pattern": 2)"),
            (ExaoneWindows{{7, 0, 7, 0}, {true, false, true, false}}));
  const std::string types = R"(, "layer_types": ["full_attention", "sliding_attention",
      "sliding_attention", "full_attention"])";
  const ExaoneWindows listed{{0, 7, 7, 0}, {false, true, true, false}};
  EXPECT_EQ(exaone_windows(R"(, "sliding_window": 7)" + types), listed);
  EXPECT_EQ(exaone_windows(R"(, "sliding_window": 7, "sliding_window_pattern": "LLLG")" + types),
            listed)
      << "the list takes precedence";
}

TEST(ExaoneMoeConfig, RequiresLayerTypesForLetterPatterns) {
  expect_family_refused("exaone_moe", exaone_members(R"(, "sliding_window_pattern": "LLLG")"),
                        "hf.config.missing_key",
                        "\"sliding_window_pattern\" is \"LLLG\" instead of a number, and "
                        "\"layer_types\" is missing");
}

TEST(ExaoneMoeConfig, RejectsAnEmptyWindow) {
  expect_family_refused("exaone_moe", exaone_members(R"(, "sliding_window": 0)"),
                        "hf.config.window", "\"sliding_window\" is 0");
  expect_family_refused("exaone_moe", exaone_members(R"(, "sliding_window": null)"),
                        "hf.config.type", "sliding_window");
}

TEST(ExaoneMoeConfig, SelectsMoeLayers) {
  const auto layers = [](const std::string& members) {
    return moe_layers(small_model("exaone_moe", exaone_members(members)));
  };
  EXPECT_EQ(layers(""), (std::vector<bool>{false, true, true, true}));
  const std::vector<bool> two = {false, false, true, true};
  const std::string flags = R"(, "is_moe_layer": [false, false, true, true])";
  const std::string types = R"(, "mlp_layer_types": ["dense", "dense", "sparse", "sparse"])";
  EXPECT_EQ(layers(R"(, "first_k_dense_replace": 2)"), two);
  EXPECT_EQ(layers(flags), two);
  EXPECT_EQ(layers(types), two);
  EXPECT_EQ(layers(flags + types), two);
  expect_family_refused("exaone_moe",
                        exaone_members(R"(, "is_moe_layer": [true, false, true, true])" + types),
                        "hf.config.conflict", "describe the same layers differently");
  expect_family_refused("exaone_moe",
                        exaone_members(R"(, "is_moe_layer": ["a", false, true, true])"),
                        "hf.config.type", "a list of 1 or true, and 0 or false");
}

}  // namespace
}  // namespace moec
