// Tests --memory of the commands that run an export.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/formats/read_shard.h"
#include "backends/runtime/text/generate.h"
#include "tests/byte_text.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;

std::string exported_tinymoe(const Words& flags = {}) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, flags));
  return out;
}

// Too little memory to keep every shard loaded.
constexpr uint64_t kLittle = uint64_t{52} << 20;

TEST(SessionMemory, GeneratesEqualTextInLittleMemory) {
  const std::string out = exported_tinymoe({"--tokens", "1,4"});
  const std::vector<int64_t> prompt = encode_bytes("def gcd(");
  std::vector<int64_t> texts[2];
  size_t kept[2];
  for (const bool little : {false, true}) {
    SessionOptions options;
    if (little) options.memory_bytes = kLittle;
    auto session = Session::open(out, read_shard, options);
    ASSERT_TRUE(session) << render(session.error());
    const auto text = generate_text(*session, prompt, {.max_tokens = 12});
    ASSERT_TRUE(text) << render(text.error());
    texts[little] = text->tokens;
    kept[little] = session->loaded().kept();
    EXPECT_LE(session->loaded().kept_bytes(), options.memory_bytes);
  }
  EXPECT_EQ(texts[0], texts[1]);
  // 8 shards in both widths; the head runs for the last token of the prompt only.
  EXPECT_EQ(kept[0], 17u);
  EXPECT_LT(kept[1], 9u);
}

TEST(SessionMemory, LimitsRunAndValidate) {
  const std::string out = exported_tinymoe({"--tokens", "1,16", "--context", "256"});
  expect_fine(validate_case("tinymoe", out, {"--memory", "52"}));
  const Words run = {"run", out, "--prompt", "def ", "--max-tokens", "2", "--memory"};
  const auto with = [&](const char* memory) {
    Words words = run;
    words.emplace_back(memory);
    return run_command(words);
  };
  expect_fine(with("52MiB"));
  EXPECT_THAT(with("16").err, HasSubstr("session.memory"));
  EXPECT_THAT(with("16").err, HasSubstr("the limit is 16 MiB"));
  EXPECT_THAT(with("little").err, HasSubstr("cli.bytes"));
}

}  // namespace
}  // namespace moec
