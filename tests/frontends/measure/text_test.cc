#include "frontends/measure/text.h"

#include <gmock/gmock.h>

#include "frontends/measure/run_text.h"
#include "tests/files.h"

namespace moec {
namespace {

using testing::ElementsAre;

TEST(CutTokens, DropsTheIncompleteWindow) {
  const Text text = cut_tokens({1, 2, 3, 4, 5}, 2);
  EXPECT_THAT(text.tokens, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(text.windows(), 2);
  EXPECT_EQ(text.unused, 1);
  EXPECT_EQ(text.count(), 4);
  EXPECT_EQ(text.parts[1].first, 2);
  EXPECT_THAT(text.tokens_of(1), ElementsAre(3, 4));
}

TEST(CutTokens, ShrinksTheWindowOfShortTexts) {
  const Text text = cut_tokens({1, 2, 3}, 256);
  EXPECT_EQ(text.window, 3);
  EXPECT_EQ(text.windows(), 1);
  EXPECT_EQ(text.unused, 0);
}

TEST(ChunkOf, ExcludesPadding) {
  const Text text = cut_documents({{"a", {1, 2, 3}}, {"b", {4}}}, 2);
  const TextChunk second = chunk_of(text, 1), third = chunk_of(text, 2);
  EXPECT_EQ(second.first, 2);
  EXPECT_THAT(second.tokens, ElementsAre(3));
  EXPECT_EQ(third.first, 3);
  EXPECT_EQ(third.count(), 1);
  EXPECT_THAT(third.tokens, ElementsAre(4));
}

TEST(EachChunk, ContinuesPositions) {
  const std::vector<int64_t> tokens = {1, 2, 3, 4, 5};
  std::vector<int64_t> positions, sizes, remaining;
  const auto size = [&](int64_t left) {
    remaining.push_back(left);
    return std::min<int64_t>(left, 2);
  };
  ASSERT_TRUE(each_chunk(tokens, 10, size, [&](const auto& chunk, int64_t position) -> Status {
    positions.push_back(position);
    sizes.push_back(std::ssize(chunk));
    return {};
  }));
  EXPECT_THAT(positions, ElementsAre(10, 12, 14));
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1));
  EXPECT_THAT(remaining, ElementsAre(5, 3, 1));
}

TEST(EachChunk, EndsAtTheFirstError) {
  int chunks = 0;
  const auto stopped = each_chunk(
      std::vector<int64_t>{1, 2}, 0, [](int64_t) { return 1; },
      [&](const auto&, int64_t) -> Status {
        ++chunks;
        return fail("test.stop", "stopped", "");
      });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().front().code, "test.stop");
  EXPECT_EQ(chunks, 1);
}

TEST(ReadDocuments, RejectsAnEmptySource) {
  const ModelTokenizer none({}, 10);
  const auto documents = read_documents({"compare", "model", {}, given_file("")}, none);
  ASSERT_FALSE(documents);
  EXPECT_EQ(documents.error().front().code, "compare.empty");
}

// Its normalizer removes texts of spaces.
ModelTokenizer stripping_tokenizer() {
  const auto open = [] {
    return Tokenizer::parse(R"({"version": "1.0", "added_tokens": [],
      "normalizer": {"type": "Strip", "strip_left": true, "strip_right": true},
      "pre_tokenizer": null, "post_processor": null, "decoder": null,
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})",
                            "tokenizer.json");
  };
  return {open, 1};
}

TEST(ReadDocuments, RejectsPromptsWithoutTokens) {
  const ModelTokenizer tokenizer = stripping_tokenizer();
  TextSource source{.command = "analyze", .model = "model", .prompt = "a"};
  ASSERT_TRUE(read_documents(source, tokenizer));
  source.prompt = "  ";
  const auto documents = read_documents(source, tokenizer);
  ASSERT_FALSE(documents);
  EXPECT_EQ(documents.error().front().code, "analyze.empty");
}

std::string text_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + running_test() + "." + name;
  write_file(path, text);
  return path;
}

using CodeAndPlace = std::pair<std::string, Place>;

// Returns the code and the place of the error.
template <class T>
CodeAndPlace error_of(const Result<T>& result) {
  EXPECT_FALSE(result);
  if (result) return {};
  return {result.error().front().code, result.error().front().place};
}

TEST(ReadWindows, NamesFilesOfBadTexts) {
  const ModelTokenizer tokenizer = stripping_tokenizer();
  const std::string good = text_file("good", "0"), large = text_file("large", "0 1");
  const std::string gaps = text_file("gaps", " \n"), bytes = text_file("bytes", "\xff");
  const auto of_tokens = [&](const std::vector<std::string>& files) {
    return error_of(
        read_windows({.command = "analyze", .model = "model", .tokens = files}, tokenizer, 4));
  };
  const auto of_texts = [&](const std::vector<std::string>& files) {
    return error_of(
        read_windows({.command = "analyze", .model = "model", .texts = files}, tokenizer, 4));
  };
  EXPECT_EQ(of_tokens({good, large}), (CodeAndPlace{"analyze.vocabulary", {.file = large}}));
  EXPECT_EQ(of_tokens({gaps}), (CodeAndPlace{"analyze.empty", {.file = gaps}}));
  EXPECT_EQ(of_texts({gaps, gaps}), (CodeAndPlace{"analyze.empty", {.file = gaps}}));
  EXPECT_EQ(of_texts({bytes}), (CodeAndPlace{"tokenizer.utf8", {.file = bytes}}));
}

TEST(ReadDocuments, NamesLinesOfBadPrompts) {
  const ModelTokenizer tokenizer = stripping_tokenizer();
  const auto error_with = [&](const std::string& prompt) {
    const std::string path =
        text_file("suite", "{\"category\": \"a\", \"text\": \"a\"}\n\n{\"category\": \"b\", " +
                               prompt + "}\n");
    return std::pair(path,
                     error_of(read_documents({.command = "analyze", .prompts = path}, tokenizer)));
  };
  for (const auto& [prompt, code] : {std::pair("\"text\": \"  \"", "analyze.empty"),
                                     std::pair("\"tokens\": [1]", "analyze.vocabulary")}) {
    const auto [path, error] = error_with(prompt);
    EXPECT_EQ(error.first, code);
    EXPECT_EQ(error.second, (Place{.file = path, .line = 3}));
  }
}

}  // namespace
}  // namespace moec
