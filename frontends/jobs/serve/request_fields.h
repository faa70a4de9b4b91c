// Fields of a completion request that need no reading: moec refuses them unless they have no
// effect, ignores them, or forwards them to the chat template.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/base/json.h"

namespace moec {

// Fields that are accepted only if their value has no effect.
struct OnlyValue {
  std::string_view name;
  double value;
};
inline constexpr std::array kOnlyValues = {
    OnlyValue{"best_of", 1}, OnlyValue{"presence_penalty", 0}, OnlyValue{"frequency_penalty", 0}};
// Fields that are accepted only if they are null, false or empty.
// With a chat template, is_passed_over() accepts "tools" first, and "tool_choice" if the value is
// "auto".
inline constexpr std::array kRefused = {
    "echo",          "suffix",          "logit_bias", "tools",      "tool_choice", "functions",
    "function_call", "response_format", "audio",      "modalities", "verbosity"};
// Ignored fields, which do not affect the text.
inline constexpr std::array kIgnored = {"model",
                                        "user",
                                        "metadata",
                                        "store",
                                        "service_tier",
                                        "parallel_tool_calls",
                                        "safety_identifier",
                                        "prompt_cache_key",
                                        "prompt_cache_retention"};

// Fields that the chat template uses.
inline constexpr std::array<std::string_view, 3> kOfTemplate = {"tools", "documents",
                                                                "chat_template_kwargs"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// True if the value is null, false or empty; for a choice of tools also "none".
bool is_off(const JsonMember& member);
bool is_text(const JsonValue* value, std::string_view text = "text");
// True if the field requests text output, {"type": "text"} or ["text"]. moec supports no other
// output.
bool asks_for_text(const JsonMember& member);
// True if the verbosity is the default, "medium".
bool is_usual(const JsonMember& member);

}  // namespace moec
