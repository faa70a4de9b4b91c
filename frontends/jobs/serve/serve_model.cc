#include "frontends/jobs/serve/serve_model.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "frontends/jobs/serve/access_rules.h"
#include "frontends/jobs/serve/answer_completion.h"
#include "frontends/jobs/serve/limited_server.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

using nlohmann::ordered_json;

constexpr const char* kJson = "application/json";
constexpr const char* kTexts = "/v1/completions";
constexpr const char* kChats = "/v1/chat/completions";

int64_t seconds_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

void reply_error(httplib::Response& response, const Diagnostics& errors) {
  response.status = http_status(errors);
  response.set_content(json_text(error_reply(errors), -1), kJson);
}

// Adds a JSON body to error responses of the library.
void word_refusal(const httplib::Request& request, httplib::Response& response) {
  // Handlers have already set a JSON body.
  if (!response.body.empty()) return;
  const int status = response.status;
  const std::string cause =
      status == 404 ? fmt::format("the server has no endpoint {} {}", request.method, request.path)
      : status == 413 ? std::string("the body is larger than this server accepts")
                      : fmt::format("the request was refused with status {}", status);
  const std::string code = status == 404 ? "serve.unknown_path" : "serve.refused";
  response.set_content(json_text(error_reply({{Severity::error, code, cause, "", {}}}), -1), kJson);
}

using HandlerResponse = httplib::Server::HandlerResponse;

class HttpServer {
 public:
  HttpServer(Session session, ServedText text, std::string name, const ServeOptions& options)
      : name_(std::move(name)),
        options_(options),
        text_(std::move(text)),
        scheduler_(std::move(session), options.limits),
        server_(options.http) {
    // Sets only SO_REUSEADDR: the library's default SO_REUSEPORT would share the port with another
    // server.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.set_pre_routing_handler(
        [this](const auto& request, auto& response) { return admit(request, response); });
    server_.set_error_handler(word_refusal);
    server_.Get("/health", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(R"({"status":"ok"})", kJson);
    });
    server_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(
          json_text({{"object", "list"}, {"data", ordered_json::array({model_json()})}}, -1),
          kJson);
    });
    server_.Get("/v1/models/(.+)", [this](const auto& request, auto& response) {
      if (request.matches[1] == name_)
        response.set_content(json_text(model_json(), -1), kJson);
      else
        // Without a body: the error handler adds it.
        response.status = 404;
    });
    complete_at(kTexts, Endpoint::text);
    complete_at(kChats, Endpoint::chat);
  }

  Status run() {
    const int port = options_.port == 0 ? server_.bind_to_any_port(options_.host)
                     : server_.bind_to_port(options_.host, options_.port) ? options_.port
                                                                          : -1;
    if (port < 0)
      return fail("serve.address",
                  fmt::format("cannot listen on {}:{}", options_.host, options_.port),
                  "pass another --port (0 selects a free one), or a --host of this machine");
    std::atomic<bool> over = false;
    // Declared after `over`, which its thread uses.
    ThreadGroup watch;
    if (!watch.start([&] { watch_for_stop(over); }))
      return fail("system.resource", "the system cannot create a thread",
                  "raise the limit on threads (ulimit -u), or end other programs");
    if (options_.listening) options_.listening(port);
    const Status served = server_.serve();
    over = true;
    return served;
  }

 private:
  void watch_for_stop(const std::atomic<bool>& over) {
    constexpr std::chrono::milliseconds kPause{100};
    while (!over && !(options_.stop && options_.stop())) std::this_thread::sleep_for(kPause);
    // The scheduler stops first, so that texts end with serve.stopping before connections close.
    scheduler_.stop();
    if (over) return;
    std::this_thread::sleep_for(2 * kPause);  // let clients receive serve.stopping before closing
    server_.finish();
  }

  ordered_json model_json() const {
    return {{"id", name_}, {"object", "model"}, {"created", started_}, {"owned_by", "moec"}};
  }

  // Checks a request before its body is read.
  HandlerResponse admit(const httplib::Request& request, httplib::Response& response) const {
    const std::optional<Refusal> refusal = refusal_of(request, options_.access);
    // Unknown paths of POST requests are rejected here, before the body is read.
    const bool known = request.method != "POST" || request.path == kTexts || request.path == kChats;
    if (!refusal) allow_origin(request, options_.access, response);
    if (!refusal && known && request.method != "OPTIONS") return HandlerResponse::Unhandled;
    LimitedServer::end_connection();  // the unread body would be parsed as the next request
    response.set_header("Connection", "close");
    if (refusal) {
      response.status = refusal->status;
      response.set_content(json_text(error_reply({refusal->error}), -1), kJson);
    } else {
      response.status = request.method == "OPTIONS" ? 204 : 404;
    }
    return HandlerResponse::Handled;
  }

  void complete_at(const char* path, Endpoint endpoint) {
    server_.Post(path,
                 [this, endpoint](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
                   Status done = catch_refusals([&]() -> Status {
                     MOEC_ASSIGN(const std::string body, server_.read_body(request, reader));
                     return complete(endpoint, body, response);
                   });
                   if (!done) reply_error(response, done.error());
                 });
  }

  Status complete(Endpoint endpoint, const std::string& body, httplib::Response& response) {
    MOEC_ASSIGN(
        CompletionRequest wanted,
        parse_completion(endpoint, body, {scheduler_.manifest(), text_.tokenizer, text_.chat.get()},
                         most_tokens()));
    // Null if the model has no tokenizer; then the texts are token ids.
    MOEC_ASSIGN(const Tokenizer* tokenizer, text_.tokenizer.get());
    MOEC_ASSIGN(std::vector<std::shared_ptr<Ticket>> tickets, submit(wanted));
    // Copied first, because `wanted` is moved into the answer.
    const bool stream = wanted.stream;
    auto answer = std::make_shared<Answer>(next_head(endpoint), std::move(wanted),
                                           std::move(tickets), tokenizer);
    if (stream)
      reply_stream(answer, response);
    else
      return reply_whole(*answer, response);
    return {};
  }

  // Submits each text. Text i of a prompt uses the request's seed plus i.
  Result<std::vector<std::shared_ptr<Ticket>>> submit(const CompletionRequest& wanted) {
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (const auto& prompt : wanted.prompts)
      for (int64_t i = 0; i < wanted.texts; ++i) {
        GenerateOptions generate = wanted.generate;
        generate.sampler.seed += static_cast<uint64_t>(i);
        auto ticket = scheduler_.submit(prompt, generate);
        if (ticket) {
          tickets.push_back(std::move(*ticket));
          continue;
        }
        // All texts of a request succeed or none: the earlier ones must not run without a reader.
        for (const auto& taken : tickets) taken->cancel();
        return fail(std::move(ticket.error()));
      }
    return tickets;
  }

  static Status reply_whole(Answer& answer, httplib::Response& response) {
    MOEC_ASSIGN(const std::optional<std::string> body, answer.whole(LimitedServer::client_left));
    // Without a body, the client has left, and the response is never sent.
    if (body) response.set_content(*body, kJson);
    return {};
  }

  static void reply_stream(const std::shared_ptr<Answer>& answer, httplib::Response& response) {
    response.set_header("Cache-Control", "no-cache");
    // The provider shares the answer, because it runs after this function has returned.
    response.set_chunked_content_provider(
        "text/event-stream", [answer](size_t, httplib::DataSink& sink) {
          const bool more = answer->next_events([&](const std::string& text) {
            if (!sink.is_writable()) return false;
            if (!text.empty()) sink.write(text.data(), text.size());
            return true;
          });
          if (!more) sink.done();
          return true;
        });
  }

  int64_t most_tokens() const {
    const int64_t context = scheduler_.manifest().build.context;
    return options_.most_tokens > 0 ? std::min(options_.most_tokens, context) : context;
  }

  ReplyHead next_head(Endpoint endpoint) {
    const char* kind = endpoint == Endpoint::chat ? "chatcmpl" : "cmpl";
    return {endpoint, fmt::format("{}-{:x}-{}", kind, started_, ++requests_), name_, seconds_now()};
  }

  std::string name_;
  ServeOptions options_;
  ServedText text_;
  int64_t started_ = seconds_now();
  std::atomic<int64_t> requests_ = 0;
  Scheduler scheduler_;
  LimitedServer server_;  // last member, because its requests use the scheduler
};

}  // namespace

Status serve_model(Session session, const ServedText& text, const std::string& name,
                   const ServeOptions& options) {
  if (session.manifest().tagging)
    return fail("serve.labels", "the model labels tokens and generates no text",
                "use moec run to find spans");
  return catch_refusals([&] { return HttpServer(std::move(session), text, name, options).run(); });
}

}  // namespace moec
