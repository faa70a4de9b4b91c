#include "frontends/jobs/serve/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "backends/runtime/text/prompt.h"
#include "frontends/jobs/serve/request_fields.h"
#include "ir/base/json_fields.h"

namespace moec {
namespace {

// The maximums of the OpenAI API.
constexpr int64_t kMaxStops = 4;
constexpr int64_t kMaxTopLogprobs = 20;
// Each text occupies a place in the queue.
constexpr int64_t kMaxTexts = 16;  // per request
// Two names of the same field.
constexpr std::array<std::string_view, 2> kMaxTokensNames = {"max_tokens", "max_completion_tokens"};

// Random seed for a request without a seed.
uint64_t any_seed() {
  std::random_device device;
  // Draws twice, because random_device yields 32 bits.
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
    for (const JsonMember& member : fields_.members()) {
      MOEC_TRY(take(member));
      if (chat_ && member.key == "tools") request_.with_tools = !is_off(member);
    }
    // Checked after the loop, because "tool_choice" may precede "tools".
    if (names_no_tool()) request_.with_tools = false;
    MOEC_TRY(request_.endpoint == Endpoint::chat ? read_messages() : read_prompt());
    if (request_.resumed) MOEC_TRY(append_resumed());
    // Must precede queueing, so that a long prompt is an error of the request.
    for (const auto& prompt : request_.prompts) MOEC_TRY(check_prompt_length(prompt, manifest_));
    // The body limits the prompts, and texts() the factor, so the product cannot overflow.
    if (std::ssize(request_.prompts) * request_.texts > kMaxTexts)
      return fields_.bad(request_.texts > 1 ? "n" : "prompt",
                         fmt::format("requests {} texts, but the maximum per request is {}",
                                     std::ssize(request_.prompts) * request_.texts, kMaxTexts));
    return std::move(request_);
  }

 private:
  tl::unexpected<Diagnostics> unsupported(const JsonMember& member) const {
    return fields_.report().fail_at(
        member.value, "serve.unsupported",
        fmt::format("moec does not support {} {}", member.key, to_string(member.value)));
  }

  Status read_most_tokens(int64_t most) {
    std::optional<int64_t> wanted;
    for (const std::string_view name : kMaxTokensNames) {
      if (!fields_.has(name) || fields_.is_null(name)) continue;
      int64_t tokens = 0;
      MOEC_TRY(fields_.positive(name, tokens));
      if (tokens > most)
        return fields_.bad(
            name, fmt::format("is {}, but this server generates at most {} tokens", tokens, most));
      if (wanted && *wanted != tokens)
        return fields_.bad(name,
                           fmt::format("is {}, but {} is {}", tokens, kMaxTokensNames[0], *wanted));
      wanted = tokens;
    }
    request_.generate.max_tokens = wanted.value_or(most);
    return {};
  }

  // Reads a field other than the prompt or the messages.
  Status take(const JsonMember& member) {
    const std::string& name = member.key;
    if (is_passed_over(member)) return {};
    for (const OnlyValue& only : kOnlyValues)
      if (name == only.name)
        // null means that the field is absent, as in the OpenAI API.
        return member.value.is_null() || member.value.number() == only.value
                   ? Status()
                   : Status(unsupported(member));
    if (is_one_of(kRefused, name))
      return is_off(member) || asks_for_text(member) || is_usual(member)
                 ? Status()
                 : Status(unsupported(member));
    return member.value.is_null() ? Status() : take_option(member);
  }

  // True if the field is read elsewhere or has no effect on the text.
  bool is_passed_over(const JsonMember& member) const {
    const std::string& name = member.key;
    if (name == (request_.endpoint == Endpoint::chat ? "messages" : "prompt")) return true;
    if (chat_ && is_one_of(kOfTemplate, name)) return true;
    if (chat_ && name == "tool_choice" && is_text(&member.value, "auto")) return true;
    return is_one_of(kIgnored, name) || is_one_of(kMaxTokensNames, name);
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
    if (name == "resume") return resume();
    if (name == "logprobs") return logprobs();
    if (name == "top_logprobs") return top_logprobs();
    return fields_.report().fail_at(member.value, fields_.report().codes().unknown_field,
                                    fmt::format("unknown field {}", name));
  }

  Status temperature() {
    double& value = request_.generate.sampler.temperature;
    MOEC_TRY(fields_.number("temperature", value));
    // The range of the OpenAI API.
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
    // Accepts negative seeds: the conversion to unsigned is well defined.
    request_.generate.sampler.seed = static_cast<uint64_t>(*value->integer());
    return {};
  }

  Status texts() {
    MOEC_TRY(fields_.positive("n", request_.texts));
    return request_.texts <= kMaxTexts
               ? Status()
               : Status(fields_.bad("n", fmt::format("must be at most {}", kMaxTexts)));
  }

  Status stream_options() {
    MOEC_ASSIGN(JsonFields options, fields_.object("stream_options"));
    if (options.has("include_usage"))
      MOEC_TRY(options.boolean("include_usage", request_.with_usage));
    return options.finish();
  }

  Status stop(const JsonMember& member) {
    // An empty list has no effect, even for a model without a tokenizer.
    if (member.value.array() && member.value.array()->empty()) return {};
    if (const std::string* text = member.value.string())
      request_.stop = {*text};
    else
      MOEC_TRY(fields_.texts("stop", request_.stop));
    for (const std::string& text : request_.stop)
      // An empty stop text would end every text at once.
      if (text.empty()) return fields_.bad("stop", "must not be empty");
    if (std::ssize(request_.stop) > kMaxStops)
      return fields_.bad("stop", fmt::format("must have at most {} texts", kMaxStops));
    // Stop texts require decoded tokens.
    return check_takes_text(tokenizer_);
  }

  // In chats, logprobs is a boolean and top_logprobs is the count. In text requests, logprobs is
  // the count.
  Status logprobs() {
    if (request_.endpoint == Endpoint::text) return read_top_logprobs("logprobs");
    bool wanted = false;
    MOEC_TRY(fields_.boolean("logprobs", wanted));
    // top_logprobs may have been read first; 0 requests only the chosen token.
    if (wanted && !request_.generate.top_logprobs) request_.generate.top_logprobs = 0;
    return {};
  }

  Status top_logprobs() {
    if (request_.endpoint == Endpoint::text)
      return fields_.bad("top_logprobs",
                         "is a field of chats: in text requests, logprobs is the count");
    if (!is_true("logprobs")) return fields_.bad("top_logprobs", "requires logprobs: true");
    return read_top_logprobs("top_logprobs");
  }

  bool names_no_tool() const {
    for (const JsonMember& member : fields_.members())
      if (member.key == "tool_choice") return is_text(&member.value, "none");
    return false;
  }

  bool is_true(std::string_view name) const {
    for (const JsonMember& member : fields_.members())
      if (member.key == name) return member.value.boolean() && *member.value.boolean();
    return false;
  }

  Status read_top_logprobs(std::string_view name) {
    int64_t count = 0;
    MOEC_TRY(fields_.whole(name, count));
    if (count > kMaxTopLogprobs)
      return fields_.bad(name, fmt::format("must be at most {}", kMaxTopLogprobs));
    // min() requests no more alternatives than the vocabulary has.
    request_.generate.top_logprobs = std::min(count, manifest_.model.vocab);
    return {};
  }

  Status stop_tokens() {
    std::vector<int64_t> tokens;
    MOEC_TRY(fields_.integers("stop_token_ids", tokens));
    for (const int64_t token : tokens) MOEC_TRY(check_token("stop_token_ids", token, manifest_));
    // Appends to the end tokens of the model, which still end the text.
    auto& stops = request_.generate.eos_tokens;
    stops.insert(stops.end(), tokens.begin(), tokens.end());
    return {};
  }

  Status resume() {
    MOEC_ASSIGN(JsonFields fields, fields_.object("resume"));
    ResumedText& resumed = request_.resumed.emplace();
    MOEC_TRY(fields.integers("token_ids", resumed.tokens));
    MOEC_TRY(fields.whole("text_bytes", resumed.bytes));
    if (fields.has("tool_calls")) MOEC_TRY(fields.whole("tool_calls", resumed.calls));
    for (const int64_t token : resumed.tokens) MOEC_TRY(check_token("resume", token, manifest_));
    return fields.finish();
  }

  // Continues after the tokens so far, which count towards max_tokens.
  Status append_resumed() {
    if (request_.prompts.size() > 1 || request_.texts > 1)
      return fields_.bad("resume", "applies to one text");
    const std::vector<int64_t>& tokens = request_.resumed->tokens;
    request_.generate.max_tokens -= std::ssize(tokens);
    if (request_.generate.max_tokens < 1)
      return fields_.bad("resume",
                         fmt::format("has {} tokens, as many as the text may have", tokens.size()));
    std::vector<int64_t>& prompt = request_.prompts.front();
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
    return {};
  }

  Status read_prompt() {
    MOEC_ASSIGN(const JsonValue* value, fields_.value("prompt"));
    const JsonValue::Array* list = value->array();
    // A list that begins with a number is one prompt of token ids.
    if (list == nullptr || list->empty() || list->front().number()) return read_prompt(*value);
    for (const JsonValue& one : *list) MOEC_TRY(read_prompt(one));
    return {};
  }

  // Reads one prompt: a text, or a list of token ids.
  Status read_prompt(const JsonValue& value) {
    if (const std::string* text = value.string(); text && !text->empty()) return take_text(*text);
    std::vector<int64_t> tokens;
    if (const JsonValue::Array* list = value.array())
      for (const JsonValue& one : *list) {
        if (!one.integer()) return fields_.bad("prompt", "must be a text or a list of token ids");
        tokens.push_back(*one.integer());
      }
    if (tokens.empty())
      return fields_.bad("prompt", "is empty, but must be a text or a list of token ids");
    MOEC_ASSIGN(Prompt prompt, prompt_of_tokens("prompt", std::move(tokens), manifest_));
    request_.prompts.push_back(std::move(prompt.tokens));
    return {};
  }

  Status take_text(const std::string& text) {
    if (!tokenizer_.exists())
      return fail("run.no_tokenizer", "the export has no tokenizer and cannot encode text",
                  "send token ids");
    MOEC_ASSIGN(Prompt prompt, prompt_of_text(text, manifest_, tokenizer_));
    request_.prompts.push_back(std::move(prompt.tokens));
    return {};
  }

  Status read_messages() {
    if (chat_) return render_messages();
    // Without a template, only models whose tokens are bytes have a defined format of chats.
    if (manifest_.tokenizer != manifest::TokenizerKind::bytes)
      return fail("serve.chat", "the export has no chat template",
                  "send a text to /v1/completions, or export again with the model's "
                  "tokenizer_config.json or chat_template.jinja next to its config.json");
    std::string text;
    MOEC_TRY(fields_.each("messages", [&](JsonFields& message) { return add(message, text); }));
    if (text.empty()) return fields_.bad("messages", "must have at least one message");
    return take_text(text + "assistant:");
  }

  // The template already contains special tokens, so encoding must not add any.
  Status render_messages() {
    // The template may read any field of the request, so it gets the body as it was sent.
    MOEC_ASSIGN(const std::string text, chat_->render(body_));
    MOEC_ASSIGN(std::vector<int64_t> prompt, tokenizer_.encode(text, SpecialTokens::leave_out));
    if (prompt.empty()) return fields_.bad("messages", "render to an empty text");
    request_.prompts.push_back(std::move(prompt));
    return {};
  }

  // Accepts unsupported fields that are off, because clients send earlier answers back with all
  // their fields.
  static Status check_members(const JsonFields& message) {
    for (const JsonMember& member : message.members())
      if (member.key != "role" && member.key != "content" && !is_off(member))
        return message.report().fail_at(
            member.value, "serve.unsupported",
            fmt::format("moec does not support {} in a message", printable(member.key, 60)));
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
    else if (!content->is_null())  // null: an answer without text, sent back by the client
      MOEC_TRY(message.each("content", [&](JsonFields& part) { return add_part(part, text); }));
    text += '\n';
    return {};
  }

  static Status add_part(JsonFields& part, std::string& text) {
    std::string type, words;
    MOEC_TRY(part.text("type", type));
    if (type != "text")
      return part.report().fail_at(*part.value("type").value(), "serve.unsupported",
                                   fmt::format("a part of a message has type {}, not text", type));
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
      JsonCodes::by_prefix("serve", "see the fields in README.md of frontends/jobs/serve"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return Reader(endpoint, model, body, fields).read(most_tokens);
}

}  // namespace moec
