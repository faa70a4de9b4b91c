#include "frontends/chat/chat_template.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

#include "backends/files/child_program.h"
#include "embedded/embedded_chat.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// The limit of ChildProgram::ask() on an answer.
constexpr size_t kMaxText = size_t{256} << 20;
constexpr uint64_t kMaxConfig = 16u << 20;

tl::unexpected<Diagnostics> python_failed(const std::string& python, const std::string& cause) {
  return fail("chat.python", fmt::format("cannot render the chat template: {}", cause),
              fmt::format("install jinja2 with {} -m pip install jinja2, or select another "
                          "interpreter with --python",
                          python));
}

}  // namespace

// Held through a pointer, because render() is const but starts and replaces the interpreter.
struct ChatTemplate::Running {
  std::string folder, python;
  // ChildProgram is not thread-safe, and threads of a server render at the same time.
  std::mutex asking;
  std::optional<ChildProgram> program;

  Result<std::string> ask(std::string_view request) {
    const std::lock_guard lock(asking);
    // The first request starts the interpreter, so runs without a chat need no Python.
    if (!program) {
      const std::string script(embedded_chat.front().text);
      // Passing the script to -c avoids a script file next to the program.
      MOEC_ASSIGN(ChildProgram started, ChildProgram::start(python, {"-c", script, folder}));
      program.emplace(std::move(started));
    }
    Result<std::string> answer = program->ask(request);
    if (!answer) program.reset();  // so that the next request starts a new interpreter
    return answer;
  }
};

ChatTemplate::ChatTemplate(std::string folder, std::string python)
    : running_(std::make_unique<Running>()) {
  running_->folder = std::move(folder);
  running_->python = std::move(python);
}

ChatTemplate::~ChatTemplate() = default;

Result<std::string> ChatTemplate::render(std::string_view request) const {
  const Result<std::string> answer = running_->ask(request);
  if (!answer) return python_failed(running_->python, answer.error().front().cause);
  // ChildProgram::ask() already limits the answer, so this limit never refuses one.
  MOEC_ASSIGN(const JsonValue reply,
              parse_json(*answer, {.file = "chat template"}, {.bytes = 2 * kMaxText}));
  if (const JsonValue* text = reply.find("text"); text && text->string()) return *text->string();
  const JsonValue* error = reply.find("error");
  return fail("serve.chat",
              error && error->string() ? *error->string() : "the chat template returned no text",
              "send messages that the model's chat template accepts");
}

Result<bool> has_chat_template(const std::string& folder) {
  if (file_exists(folder + "/chat_template.jinja") || file_exists(folder + "/chat_template.json"))
    return true;
  const std::string path = folder + "/tokenizer_config.json";
  if (!file_exists(path)) return false;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxConfig));
  // model_max_length may be 10^30, which does not fit into 64 bits.
  MOEC_ASSIGN(const JsonValue config, parse_json(text, {.file = path}, {.long_integers = true}));
  const JsonValue* chat = config.find("chat_template");
  return chat && !chat->is_null();
}

}  // namespace moec
