#include "frontends/jobs/serve/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "backends/runtime/text/prompt.h"
#include "ir/base/json_fields.h"

namespace moec {
namespace {

constexpr int64_t kMostStops = 4;
constexpr int64_t kMostTopLogprobs = 20;
constexpr int64_t kMostTexts = 16;  // of one request

// Fields whose values other than these would change the text.
struct OnlyValue {
  std::string_view name;
  double value;
};
constexpr std::array kOnlyValues = {OnlyValue{"best_of", 1}, OnlyValue{"presence_penalty", 0},
                                    OnlyValue{"frequency_penalty", 0}};
// Fields that only null or false leaves without effect.
constexpr std::array kRefused = {"echo",        "suffix",     "logit_bias",    "tools",
                                 "tool_choice", "functions",  "function_call", "response_format",
                                 "audio",       "modalities", "verbosity"};
// Two names of one number.
constexpr std::array<std::string_view, 2> kMostTokens = {"max_tokens", "max_completion_tokens"};
// Fields that do not concern the text.
constexpr std::array kIgnored = {"model",
                                 "user",
                                 "metadata",
                                 "store",
                                 "service_tier",
                                 "parallel_tool_calls",
                                 "safety_identifier",
                                 "prompt_cache_key",
                                 "prompt_cache_retention"};

// Fields that the chat template reads.
constexpr std::array<std::string_view, 3> kOfTemplate = {"tools", "documents",
                                                         "chat_template_kwargs"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Null, false, or empty; tools may also be chosen as "none".
bool is_off(const JsonMember& member) {
  const JsonValue& value = member.value;
  const bool is_choice = member.key == "tool_choice" || member.key == "function_call";
  if (const bool* flag = value.boolean()) return !*flag;
  if (const std::string* text = value.string())
    return text->empty() || (is_choice && *text == "none");
  if (const auto* list = value.array()) return list->empty();
  if (const auto* object = value.object()) return object->empty();
  return value.is_null();
}

bool is_text(const JsonValue* value, std::string_view text = "text") {
  return value && value->string() && *value->string() == text;
}

// Texts as output, which is what there is: {"type": "text"} or ["text"].
bool asks_for_text(const JsonMember& member) {
  if (member.key == "response_format") return is_text(member.value.find("type"));
  const auto* list = member.value.array();
  return member.key == "modalities" && list && list->size() == 1 && is_text(&list->front());
}

// The name of the usual amount of words.
bool is_usual(const JsonMember& member) {
  return member.key == "verbosity" && member.value.string() && *member.value.string() == "medium";
}

// Of a request without one: another for each.
uint64_t any_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

class Reader {
 public:
  Reader(Endpoint endpoint, const ServedModel& model, std::string_view body, JsonFields& fields)
      : manifest_(model.manifest),
        tokenizer_(model.tokenizer),
        chat_(endpoint == Endpoint::chat ? model.chat : nullptr),
        body_(body),
        fields_(fields) {
    request_.endpoint = endpoint;
    request_.generate.sampler.seed = any_seed();
  }

  Result<CompletionRequest> read(int64_t most_tokens) {
    MOEC_TRY(read_most_tokens(most_tokens));
    request_.generate.eos_tokens = manifest_.model.eos_tokens;
    for (const JsonMember& member : fields_.members()) MOEC_TRY(take(member));
    MOEC_TRY(request_.endpoint == Endpoint::chat ? read_messages() : read_prompt());
    for (const auto& prompt : request_.prompts) MOEC_TRY(check_prompt_length(prompt, manifest_));
    if (std::ssize(request_.prompts) * request_.texts > kMostTexts)
      return fields_.bad(request_.texts > 1 ? "n" : "prompt",
                         fmt::format("asks for {} texts, a request has at most {}",
                                     std::ssize(request_.prompts) * request_.texts, kMostTexts));
    return std::move(request_);
  }

 private:
  tl::unexpected<Diagnostics> unsupported(const JsonMember& member) const {
    return fields_.report().fail_at(
        member.value, "serve.unsupported",
        fmt::format("moec does not compute {} {}", member.key, to_string(member.value)));
  }

  Status read_most_tokens(int64_t most) {
    std::optional<int64_t> wanted;
    for (const std::string_view name : kMostTokens) {
      if (!fields_.has(name) || fields_.is_null(name)) continue;
      int64_t tokens = 0;
      MOEC_TRY(fields_.positive(name, tokens));
      if (tokens > most)
        return fields_.bad(
            name, fmt::format("is {}, this server writes at most {} tokens", tokens, most));
      if (wanted && *wanted != tokens)
        return fields_.bad(name,
                           fmt::format("is {}, and {} is {}", tokens, kMostTokens[0], *wanted));
      wanted = tokens;
    }
    request_.generate.max_tokens = wanted.value_or(most);
    return {};
  }

  // Fields that are not the prompt.
  Status take(const JsonMember& member) {
    const std::string& name = member.key;
    if (is_passed_over(member)) return {};
    for (const OnlyValue& only : kOnlyValues)
      if (name == only.name)
        return member.value.is_null() || member.value.number() == only.value
                   ? Status()
                   : Status(unsupported(member));
    if (is_one_of(kRefused, name))
      return is_off(member) || asks_for_text(member) || is_usual(member)
                 ? Status()
                 : Status(unsupported(member));
    return member.value.is_null() ? Status() : take_option(member);
  }

  // Whether the field is read elsewhere, or does not concern the text.
  bool is_passed_over(const JsonMember& member) const {
    const std::string& name = member.key;
    if (name == (request_.endpoint == Endpoint::chat ? "messages" : "prompt")) return true;
    if (chat_ && is_one_of(kOfTemplate, name)) return true;
    if (chat_ && name == "tool_choice" && is_text(&member.value, "auto")) return true;
    return is_one_of(kIgnored, name) || is_one_of(kMostTokens, name);
  }

  Status take_option(const JsonMember& member) {
    const std::string& name = member.key;
    GenerateOptions& generate = request_.generate;
    if (name == "temperature") return temperature();
    if (name == "top_k") return fields_.whole(name, generate.sampler.top_k);
    if (name == "top_p") return top_p();
    if (name == "seed") return seed();
    if (name == "n") return texts();
    if (name == "stream") return fields_.boolean(name, request_.stream);
    if (name == "stream_options") return stream_options();
    if (name == "stop") return stop(member);
    if (name == "stop_token_ids") return stop_tokens();
    if (name == "logprobs") return logprobs();
    if (name == "top_logprobs") return top_logprobs();
    return fields_.report().fail_at(member.value, fields_.report().codes().unknown_field,
                                    fmt::format("unknown field {}", name));
  }

  Status temperature() {
    double& value = request_.generate.sampler.temperature;
    MOEC_TRY(fields_.number("temperature", value));
    return value >= 0 && value <= 2 ? Status()
                                    : Status(fields_.bad("temperature", "must be from 0 to 2"));
  }

  Status top_p() {
    double& value = request_.generate.sampler.top_p;
    MOEC_TRY(fields_.number("top_p", value));
    return value >= 0 && value <= 1 ? Status()
                                    : Status(fields_.bad("top_p", "must be from 0 to 1"));
  }

  Status seed() {
    MOEC_ASSIGN(const JsonValue* value, fields_.value("seed"));
    if (value->integer() == nullptr) return fields_.bad("seed", "must be an integer");
    request_.generate.sampler.seed = static_cast<uint64_t>(*value->integer());
    return {};
  }

  Status texts() {
    MOEC_TRY(fields_.positive("n", request_.texts));
    return request_.texts <= kMostTexts
               ? Status()
               : Status(fields_.bad("n", fmt::format("must be at most {}", kMostTexts)));
  }

  Status stream_options() {
    MOEC_ASSIGN(JsonFields options, fields_.object("stream_options"));
    if (options.has("include_usage"))
      MOEC_TRY(options.boolean("include_usage", request_.with_usage));
    return options.finish();
  }

  Status stop(const JsonMember& member) {
    if (member.value.array() && member.value.array()->empty()) return {};
    if (const std::string* text = member.value.string())
      request_.stop = {*text};
    else
      MOEC_TRY(fields_.texts("stop", request_.stop));
    for (const std::string& text : request_.stop)
      if (text.empty()) return fields_.bad("stop", "must not be empty");
    if (std::ssize(request_.stop) > kMostStops)
      return fields_.bad("stop", fmt::format("must be at most {} texts", kMostStops));
    return check_takes_text(tokenizer_);
  }

  // Of a chat true or false, with the number in top_logprobs; of a text that number.
  Status logprobs() {
    if (request_.endpoint == Endpoint::text) return read_top_logprobs("logprobs");
    bool wanted = false;
    MOEC_TRY(fields_.boolean("logprobs", wanted));
    if (wanted && !request_.generate.top_logprobs) request_.generate.top_logprobs = 0;
    return {};
  }

  Status top_logprobs() {
    if (request_.endpoint == Endpoint::text)
      return fields_.bad("top_logprobs", "is a field of chats; of a text, logprobs is the number");
    if (!is_true("logprobs")) return fields_.bad("top_logprobs", "needs logprobs: true");
    return read_top_logprobs("top_logprobs");
  }

  bool is_true(std::string_view name) const {
    for (const JsonMember& member : fields_.members())
      if (member.key == name) return member.value.boolean() && *member.value.boolean();
    return false;
  }

  Status read_top_logprobs(std::string_view name) {
    int64_t count = 0;
    MOEC_TRY(fields_.whole(name, count));
    if (count > kMostTopLogprobs)
      return fields_.bad(name, fmt::format("must be at most {}", kMostTopLogprobs));
    request_.generate.top_logprobs = std::min(count, manifest_.model.vocab);
    return {};
  }

  Status stop_tokens() {
    std::vector<int64_t> tokens;
    MOEC_TRY(fields_.integers("stop_token_ids", tokens));
    for (const int64_t token : tokens) MOEC_TRY(check_token("stop_token_ids", token, manifest_));
    auto& stops = request_.generate.eos_tokens;
    stops.insert(stops.end(), tokens.begin(), tokens.end());
    return {};
  }

  Status read_prompt() {
    MOEC_ASSIGN(const JsonValue* value, fields_.value("prompt"));
    const JsonValue::Array* list = value->array();
    if (list == nullptr || list->empty() || list->front().number()) return read_prompt(*value);
    for (const JsonValue& one : *list) MOEC_TRY(read_prompt(one));
    return {};
  }

  // A text, or a list of token ids.
  Status read_prompt(const JsonValue& value) {
    if (const std::string* text = value.string(); text && !text->empty()) return take_text(*text);
    std::vector<int64_t> tokens;
    if (const JsonValue::Array* list = value.array())
      for (const JsonValue& one : *list) {
        if (!one.integer()) return fields_.bad("prompt", "must be a text or a list of token ids");
        tokens.push_back(*one.integer());
      }
    if (tokens.empty())
      return fields_.bad("prompt", "is empty, must be a text or a list of token ids");
    MOEC_ASSIGN(Prompt prompt, prompt_of_tokens("prompt", std::move(tokens), manifest_));
    request_.prompts.push_back(std::move(prompt.tokens));
    return {};
  }

  Status take_text(const std::string& text) {
    if (!tokenizer_.exists())
      return fail("run.no_tokenizer", "the export has no tokenizer, so it takes no text",
                  "send token ids");
    MOEC_ASSIGN(Prompt prompt, prompt_of_text(text, manifest_, tokenizer_));
    request_.prompts.push_back(std::move(prompt.tokens));
    return {};
  }

  Status read_messages() {
    if (chat_) return render_messages();
    if (manifest_.tokenizer != manifest::TokenizerKind::bytes)
      return fail("serve.chat", "the export has no chat template",
                  "send a text to /v1/completions, or export again with the model's "
                  "tokenizer_config.json or chat_template.jinja beside its config.json");
    std::string text;
    MOEC_TRY(fields_.each("messages", [&](JsonFields& message) { return add(message, text); }));
    if (text.empty()) return fields_.bad("messages", "must have at least one message");
    return take_text(text + "assistant:");
  }

  // The template has the special tokens.
  Status render_messages() {
    MOEC_ASSIGN(const std::string text, chat_->render(body_));
    MOEC_ASSIGN(std::vector<int64_t> prompt, tokenizer_.encode(text, SpecialTokens::leave_out));
    if (prompt.empty()) return fields_.bad("messages", "become an empty text");
    request_.prompts.push_back(std::move(prompt));
    return {};
  }

  // Fields of an answer that is sent back, which are off where they say nothing, are taken.
  static Status check_members(const JsonFields& message) {
    for (const JsonMember& member : message.members())
      if (member.key != "role" && member.key != "content" && !is_off(member))
        return message.report().fail_at(
            member.value, "serve.unsupported",
            fmt::format("moec does not take {} of a message", printable(member.key, 60)));
    return {};
  }

  static Status add(JsonFields& message, std::string& text) {
    MOEC_TRY(check_members(message));
    std::string role;
    MOEC_TRY(message.text("role", role));
    text += role + ": ";
    MOEC_ASSIGN(const JsonValue* content, message.value("content"));
    if (const std::string* words = content->string())
      text += *words;
    else if (!content->is_null())  // as clients send back an answer without text
      MOEC_TRY(message.each("content", [&](JsonFields& part) { return add_part(part, text); }));
    text += '\n';
    return {};
  }

  static Status add_part(JsonFields& part, std::string& text) {
    std::string type, words;
    MOEC_TRY(part.text("type", type));
    if (type != "text")
      return part.report().fail_at(*part.value("type").value(), "serve.unsupported",
                                   fmt::format("a part of a message is {}, not text", type));
    MOEC_TRY(part.text("text", words));
    text += words;
    return part.finish();
  }

  const Manifest& manifest_;
  const ModelTokenizer& tokenizer_;
  const ChatTemplate* chat_;
  std::string_view body_;
  JsonFields& fields_;
  CompletionRequest request_;
};

}  // namespace

Result<CompletionRequest> parse_completion(Endpoint endpoint, std::string_view body,
                                           const ServedModel& model, int64_t most_tokens) {
  const JsonReport report(
      body, "request",
      JsonCodes::by_prefix("serve", "README.md of frontends/jobs/serve lists the fields"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return Reader(endpoint, model, body, fields).read(most_tokens);
}

}  // namespace moec
