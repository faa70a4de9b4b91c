#include "frontends/measure/golden.h"

#include "tests/files.h"
#include "tests/models/expect_error.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

const std::string kTensors = "/tests/golden/mixtral_a/golden.safetensors";

// Opens a golden folder that contains golden.json with the given text and the tensors of mixtral_a.
Result<Golden> open(const std::string& text) {
  const std::string folder = testing::TempDir() + "/golden_test." + running_test();
  fs::create_directories(folder);
  fs::copy_file(source_dir() + kTensors, folder + "/golden.safetensors",
                fs::copy_options::overwrite_existing);
  write_file(folder + "/golden.json", text);
  return Golden::open(folder);
}

std::string text_with(std::string_view from, std::string_view to) {
  std::string text = R"({"format": "moec-golden/1", "config_digest": "d", "made_with": {},
    "greedy": {"prompt": [1], "tokens": [2, 3]}, "steps": [{"name": "prefill", "position": 0}]})";
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Golden, ReadsItsDescription) {
  const auto golden = open(text_with("", ""));
  ASSERT_TRUE(golden) << render(golden.error());
  EXPECT_EQ(golden->config_digest(), "d");
  ASSERT_TRUE(golden->greedy());
  EXPECT_EQ(golden->greedy()->prompt, std::vector<int64_t>{1});
  EXPECT_EQ(golden->greedy()->tokens, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(golden->steps().size(), 1u);
  EXPECT_GT(golden->steps()[0].tokens.size(), 1u);
}

TEST(Golden, RejectsMalformedDescriptions) {
  const auto expect_malformed = [](const std::string& text, const std::string& cause) {
    expect_error(open(text), "golden.malformed", cause);
  };
  expect_malformed("[]", "must be an object");
  expect_malformed(text_with("golden/1", "golden/2"), "\"format\" must be \"moec-golden/1\"");
  expect_malformed(text_with("\"d\"", "7"), "\"config_digest\" must be a string");
  expect_malformed(text_with("[2, 3]", "[2, 3.5]"), "\"greedy.tokens\" must be a list of integers");
  expect_malformed(text_with("\"steps\"", "\"step\""), "\"steps\" is missing");
  expect_malformed(text_with(", \"position\": 0", ""), "\"steps[0].position\" is missing");
  expect_malformed(text_with("[1]", "[]"), "\"greedy.prompt\" needs at least one token");
  expect_malformed(text_with("[2, 3]", "[]"), "\"greedy.tokens\" needs at least one token");
  expect_malformed(text_with("{\"name\": \"prefill\", \"position\": 0}", ""), "no steps");
  for (const char* position : {"1", "9007199254740992"})
    expect_malformed(text_with("\"position\": 0", std::string("\"position\": ") + position),
                     "0 tokens precede it");
  expect_malformed(text_with("\"d\"", "\"d\", \"steps\": []"), "occurs twice");
  expect_malformed(text_with("", "") + " x", "");
  expect_malformed(text_with("", "") + '\0', "NUL");
}

TEST(Golden, RejectsAFolderWithoutGolden) {
  expect_error(Golden::open(testing::TempDir() + "/nowhere"), "golden.unreadable", "No such file");
}

}  // namespace
}  // namespace moec
