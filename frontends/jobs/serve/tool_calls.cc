#include "frontends/jobs/serve/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>", kSpace = " \t\r\n";

std::optional<ToolCall> read_call(std::string_view text) {
  // Without exceptions: a model may write invalid JSON, which stays in the text.
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  // Models use either key for the arguments.
  for (const char* key : {"arguments", "parameters"}) {
    if (!json.contains(key)) continue;
    const ordered_json& arguments = json[key];
    // The API passes arguments as a JSON string.
    if (arguments.is_string()) return ToolCall{json["name"], arguments};
    if (arguments.is_object()) return ToolCall{json["name"], json_text(arguments, -1)};
    return std::nullopt;
  }
  return ToolCall{json["name"], "{}"};
}

// Returns the position of the first kBegin, or of a suffix of the text that is a prefix of kBegin.
size_t find_begin(std::string_view text) {
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1))
    if (kBegin.starts_with(text.substr(at, kBegin.size()))) return at;
  return text.size();
}

}  // namespace

size_t ToolCallReader::kept_back() const {
  size_t begin = find_begin(pending_);
  // White space before a call separates it from the text and is not part of it.
  while (begin > 0 && kSpace.find(pending_[begin - 1]) != std::string_view::npos) --begin;
  return begin;
}

// Removes the call at [begin, end) and returns the text before the call, or the whole text up to
// `end` if the call is invalid.
std::string ToolCallReader::take_call(size_t begin, size_t end) {
  const size_t inner = begin + kBegin.size();
  auto call = read_call(std::string_view(pending_).substr(inner, end - kEnd.size() - inner));
  std::string said = pending_.substr(0, call ? kept_back() : end);
  if (call) {
    calls_.push_back(std::move(*call));
    ++found_;
  }
  pending_.erase(0, end);
  return said;
}

std::string ToolCallReader::add(const std::string& text) {
  pending_ += text;
  std::string said;
  while (true) {
    const size_t begin = find_begin(pending_);
    const size_t end = pending_.find(kEnd, begin);
    // A call without its end waits for more text.
    if (begin == pending_.size() || end == std::string::npos) break;
    said += take_call(begin, end + kEnd.size());
  }
  const size_t kept = kept_back();
  said += pending_.substr(0, kept);
  pending_.erase(0, kept);
  return said;
}

std::string ToolCallReader::rest() {
  std::string rest = std::exchange(pending_, {});
  const bool is_space = rest.find_first_not_of(kSpace) == std::string::npos;
  // After a call, white space at the end of the text is not content.
  return found_any() && is_space ? std::string() : rest;
}

std::vector<ToolCall> ToolCallReader::take_calls() { return std::exchange(calls_, {}); }

}  // namespace moec
