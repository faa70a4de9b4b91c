#include "frontends/jobs/serve/tool_calls.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

const std::string kCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5], \"b\": \"<\"}}\n</tool_call>";

struct Read {
  std::string text;
  std::vector<ToolCall> calls;
};

// Feeds the text in pieces of `bytes` bytes.
Read read_in(const std::string& text, size_t bytes) {
  ToolCallReader reader;
  Read read;
  for (size_t at = 0; at < text.size(); at += bytes) {
    read.text += reader.add(text.substr(at, bytes));
    for (ToolCall& call : reader.take_calls()) read.calls.push_back(std::move(call));
  }
  read.text += reader.rest();
  return read;
}

TEST(ToolCalls, AreExtractedForAnyPieceSize) {
  const std::string text = "Let me look. \n" + kCall + "\n" + kCall + "\n";
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    const Read read = read_in(text, bytes);
    EXPECT_EQ(read.text, "Let me look.") << bytes;
    ASSERT_EQ(read.calls.size(), 2u) << bytes;
    EXPECT_EQ(read.calls[1].name, "f");
    EXPECT_EQ(read.calls[1].arguments, R"({"x":[1,2.5],"b":"<"})");
  }
}

TEST(ToolCalls, KeepOtherText) {
  for (const std::string& text :
       {std::string("a < b and <tool_box>\n"), std::string("<tool_call>"),
        std::string("<tool_call>f\n<arg_key>x</arg_key></tool_call> end"),
        std::string("<tool_call>{\"name\": 5}</tool_call>"),
        std::string("<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"),
        std::string("</tool_call> "), std::string("  "), std::string()})
    for (const size_t bytes : {size_t{1}, size_t{7}, size_t{200}}) {
      const Read read = read_in(text, bytes);
      EXPECT_EQ(read.text, text) << bytes;
      EXPECT_TRUE(read.calls.empty());
    }
}

TEST(ToolCalls, AcceptEveryFormOfArguments) {
  const auto arguments_of = [](const std::string& inner) {
    const Read read = read_in("<tool_call>{\"name\": \"f\"" + inner + "}</tool_call>", 3);
    return read.calls.empty() ? "none" : read.calls.front().arguments;
  };
  EXPECT_EQ(arguments_of(""), "{}");
  EXPECT_EQ(arguments_of(R"(, "parameters": {"x": 1})"), R"({"x":1})");
  EXPECT_EQ(arguments_of(R"(, "arguments": "{\"x\": 1}")"), R"({"x": 1})");
}

}  // namespace
}  // namespace moec
