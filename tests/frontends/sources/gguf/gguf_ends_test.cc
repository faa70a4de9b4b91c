#include "frontends/sources/gguf/gguf_ends.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/frontends/sources/gguf/gguf_bytes.h"

namespace moec {
namespace {

using Ids = std::vector<int64_t>;

TEST(GgufEnds, AreRecognizedByText) {
  EXPECT_EQ(ends_by_text<std::string>({"a", "<|im_end|>", "</s>", "<|EOT|>", "<|file_sep|>"}),
            (Ids{1, 2, 4}));
  EXPECT_EQ(ends_by_text<std::string>({}), Ids());
}

TEST(GgufEnds, IgnoreTextsIfOthersArePresent) {
  EXPECT_EQ(ends_by_text<std::string>({"<|end|>", "<|return|>"}), (Ids{0, 1}));
  EXPECT_EQ(ends_by_text<std::string>({"<|end|>", "<|return|>", "<|call|>"}), (Ids{1, 2}));
  EXPECT_EQ(ends_by_text<std::string>({"</s>", "<|tool_response>"}), (Ids{1}));
}

TEST(GgufEnds, PreferKeysOverTexts) {
  GgufBytes bytes;
  bytes.u32("tokenizer.ggml.fim_pad_token_id", 7).u32("tokenizer.ggml.eos_token_id", 2);
  bytes.array("tokenizer.ggml.tokens", GgufType::string, 3,
              gguf_string("[PAD]") + gguf_string("<eos>") + gguf_string("x"));
  const auto header = parse_bytes(bytes.header());
  ASSERT_TRUE(header) << render(header.error());
  EXPECT_EQ(*gguf_ends(header->values), (Ids{1, 2, 7}));
}

}  // namespace
}  // namespace moec
