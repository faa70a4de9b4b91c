#include "frontends/jobs/serve/serve_model.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "frontends/jobs/serve/answer_completion.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

class ConnectionWatch {
 public:
  // The peer of the connection, as the request says it.
  ConnectionWatch(const std::string& address, int port);
  // False also where the connection was not found among the open ones.
  bool closed() const;

 private:
  int descriptor_ = -1;
};

// Whether the descriptor is a socket whose peer has this address and port, in numbers.
bool is_peer(int descriptor, const std::string& address, const std::string& port) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  auto* generic = reinterpret_cast<sockaddr*>(&peer);
  if (::getpeername(descriptor, generic, &size) != 0) return false;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  return ::getnameinfo(generic, size, host.data(), host.size(), service.data(), service.size(),
                       NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
         address == host.data() && port == service.data();
}

ConnectionWatch::ConnectionWatch(const std::string& address, int port) {
  constexpr long kMost = 1 << 16;
  const long limit = std::min(::sysconf(_SC_OPEN_MAX), kMost);
  for (int descriptor = 0; descriptor < limit && descriptor_ < 0; ++descriptor)
    if (is_peer(descriptor, address, std::to_string(port))) descriptor_ = descriptor;
}

// A closed connection reads as its end; one that is open has nothing to read, or the next request.
bool ConnectionWatch::closed() const {
  if (descriptor_ < 0) return false;
  char next = 0;
  return ::recv(descriptor_, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

using nlohmann::ordered_json;

constexpr const char* kJson = "application/json";

int64_t seconds_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

void reply_error(httplib::Response& response, const Diagnostics& errors) {
  response.status = http_status(errors);
  response.set_content(json_text(error_reply(errors), -1), kJson);
}

// What the library itself refuses has no body yet.
void word_refusal(const httplib::Request& request, httplib::Response& response) {
  if (!response.body.empty()) return;
  const int status = response.status;
  const std::string cause =
      status == 404   ? fmt::format("there is no {} {}", request.method, request.path)
      : status == 413 ? std::string("the body is larger than this server takes")
                      : fmt::format("the request is refused with status {}", status);
  const std::string code = status == 404 ? "serve.unknown_path" : "serve.refused";
  response.set_content(json_text(error_reply({{Severity::error, code, cause, "", {}}}), -1), kJson);
}

class HttpServer {
 public:
  HttpServer(Session session, std::string name, const ServeOptions& options)
      : name_(std::move(name)), options_(options), scheduler_(std::move(session), options.limits) {
    set_limits();
    server_.Get("/health", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(R"({"status":"ok"})", kJson);
    });
    server_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
      const ordered_json model = {
          {"id", name_}, {"object", "model"}, {"created", started_}, {"owned_by", "moec"}};
      response.set_content(
          json_text({{"object", "list"}, {"data", ordered_json::array({model})}}, -1), kJson);
    });
    complete_at("/v1/completions", Endpoint::text);
    complete_at("/v1/chat/completions", Endpoint::chat);
    server_.set_error_handler(word_refusal);
  }

  Status run() {
    const int port = options_.port == 0 ? server_.bind_to_any_port(options_.host)
                     : server_.bind_to_port(options_.host, options_.port) ? options_.port
                                                                          : -1;
    if (port < 0)
      return fail("serve.address",
                  fmt::format("cannot listen at {}:{}", options_.host, options_.port),
                  "choose another --port (0: one that is free), or a --host of this machine");
    if (options_.listening) options_.listening(port);
    std::atomic<bool> over = false;
    std::thread watch([&] { watch_for_stop(over); });
    const bool served = server_.listen_after_bind();
    over = true;
    watch.join();
    if (served) return {};
    return fail("serve.address", "the server could not accept connections", "start it again");
  }

 private:
  void set_limits() {
    server_.set_payload_max_length(options_.most_body);
    server_.set_tcp_nodelay(true);
    const auto threads =
        static_cast<size_t>(std::clamp<int64_t>(options_.connections, 1, kMostConnections));
    server_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
    // Another server's port is not to be shared.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
  }

  void watch_for_stop(const std::atomic<bool>& over) {
    constexpr std::chrono::milliseconds kPause{100};
    while (!over && !(options_.stop && options_.stop())) std::this_thread::sleep_for(kPause);
    scheduler_.stop();
    std::this_thread::sleep_for(2 * kPause);  // clients are told before their connections end
    server_.stop();
  }

  void complete_at(const char* path, Endpoint endpoint) {
    server_.Post(path,
                 [this, endpoint](const httplib::Request& request, httplib::Response& response) {
                   if (const Status done = complete(endpoint, request, response); !done)
                     reply_error(response, done.error());
                 });
  }

  Status complete(Endpoint endpoint, const httplib::Request& request, httplib::Response& response) {
    MOEC_ASSIGN(CompletionRequest wanted,
                parse_completion(endpoint, request.body, scheduler_.manifest(), most_tokens()));
    MOEC_ASSIGN(std::shared_ptr<Ticket> ticket, scheduler_.submit(wanted.prompt, wanted.generate));
    const bool stream = wanted.stream;
    auto answer = std::make_shared<Answer>(next_head(endpoint), std::move(wanted),
                                           std::move(ticket), scheduler_.manifest());
    if (stream)
      reply_stream(answer, response);
    else
      return reply_whole(*answer, request, response);
    return {};
  }

  static Status reply_whole(Answer& answer, const httplib::Request& request,
                            httplib::Response& response) {
    const ConnectionWatch watch(request.remote_addr, request.remote_port);
    MOEC_ASSIGN(const std::optional<std::string> body,
                answer.whole([&] { return watch.closed(); }));
    if (body) response.set_content(*body, kJson);
    return {};
  }

  static void reply_stream(const std::shared_ptr<Answer>& answer, httplib::Response& response) {
    response.set_header("Cache-Control", "no-cache");
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
  int64_t started_ = seconds_now();
  std::atomic<int64_t> requests_ = 0;
  Scheduler scheduler_;
  httplib::Server server_;  // last: its requests use the scheduler
};

}  // namespace

Status serve_model(Session session, const std::string& name, const ServeOptions& options) {
  if (session.manifest().tagging)
    return fail("serve.labels", "the model labels tokens, it writes no text",
                "find its spans with moec run");
  return HttpServer(std::move(session), name, options).run();
}

}  // namespace moec
