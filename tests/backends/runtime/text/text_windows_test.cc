#include "backends/runtime/text/text_windows.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

TEST(TextWindows, KeepsEachTokenOnceWithContext) {
  for (const Reach reach : {Reach{0, 0}, Reach{2, 3}, Reach{4, 1}})
    for (int64_t width = reach.back + reach.ahead + 1; width < 14; ++width)
      for (int64_t tokens = 1; tokens < 40; ++tokens) {
        const auto windows = cut_windows(tokens, width, reach);
        ASSERT_TRUE(windows.has_value());
        int64_t kept = 0;
        for (const TextWindow& window : *windows) {
          EXPECT_LE(window.end - window.begin, width);
          EXPECT_EQ(window.keep_begin, kept);
          EXPECT_GT(window.keep_end, kept);
          EXPECT_LE(window.begin, std::max<int64_t>(0, window.keep_begin - reach.back));
          EXPECT_GE(window.end, std::min(tokens, window.keep_end + reach.ahead));
          kept = window.keep_end;
        }
        EXPECT_EQ(kept, tokens);
      }
}

TEST(TextWindows, SuggestsALargerWidth) {
  const auto refused = cut_windows(50, 16, {8, 8});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error()[0].code, "run.width");
  EXPECT_EQ(refused.error()[0].next_step, "export with --tokens 32");
  EXPECT_EQ(cut_windows(20, 16, {8, 8}).error()[0].next_step, "export with --tokens 20");
  EXPECT_TRUE(cut_windows(16, 16, {8, 8}).has_value());
  EXPECT_TRUE(cut_windows(50, 17, {8, 8}).has_value());
}

TEST(TextWindows, SumsTheReachOverAllLayers) {
  Manifest manifest;
  manifest.build.context = 100;
  auto add = [&](const std::string& name, int64_t layers, int64_t window, int64_t ahead) {
    manifest.shards.push_back({.name = name, .layers = layers});
    InputBinding mask{"attn_mask", SourceKind::attn_mask};
    mask.window = window;
    mask.ahead = ahead;
    manifest.schedule.push_back({name, {mask}, {}, {}, {}});
  };
  add("L00.attn", 1, 4, 3);
  add("L01.layers", 3, 4, 3);
  EXPECT_EQ(reach_of(manifest), (Reach{12, 12}));
  add("L04.attn", 1, 0, 1000);
  EXPECT_EQ(reach_of(manifest), (Reach{112, 112}));
}

TEST(TextWindows, WarnsIfWidthLimitsTextLength) {
  Manifest manifest;
  manifest.shards.push_back({.name = "L00.attn", .layers = 1});
  InputBinding mask{"attn_mask", SourceKind::attn_mask};
  mask.window = 9;
  mask.ahead = 8;
  manifest.schedule.push_back({"L00.attn", {mask}, {}, {}, {}});
  const auto warning = [&](int64_t width, int64_t context) {
    manifest.build.tokens = {1, width};
    manifest.build.context = context;
    const auto found = warn_of_width(manifest);
    return found ? found->code + ": " + found->next_step : "";
  };
  EXPECT_EQ(warning(16, 100), "");  // a model without labels
  manifest.tagging.emplace();
  EXPECT_EQ(warning(16, 100), "export.short_texts: export with --tokens 32 for longer texts");
  EXPECT_EQ(warning(16, 20), "export.short_texts: export with --tokens 20 for longer texts");
  EXPECT_EQ(warning(17, 100), "");
  EXPECT_EQ(warning(16, 16), "");  // the whole context
}

}  // namespace
}  // namespace moec
