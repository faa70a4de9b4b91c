// Tool calls in the text of an answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moec {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

// Extracts tool calls from a growing text, in the format of Qwen, Hermes and Granite:
//   <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>
// Also accepts "parameters" for "arguments". Removes white space before a call and after the last
// one; keeps all other text.
class ToolCallReader {
 public:
  // Appends text and returns the text that is then final. Holds back a possible beginning of a call
  // and the white space before it.
  std::string add(const std::string& text);
  // Returns the text that was held back; call it after the last text.
  std::string rest();
  // Returns the tool calls found since the previous take_calls().
  std::vector<ToolCall> take_calls();
  bool found_any() const { return found_ > 0; }

 private:
  size_t kept_back() const;
  std::string take_call(size_t begin, size_t end);

  std::string pending_;
  std::vector<ToolCall> calls_;
  size_t found_ = 0;
};

}  // namespace moec
