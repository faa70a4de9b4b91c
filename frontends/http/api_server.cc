#include "frontends/http/api_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "frontends/http/access_rules.h"
#include "frontends/http/error_reply.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

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

}  // namespace

ApiServer::ApiServer(ServerOptions options)
    : LimitedServer(options.http), options_(std::move(options)) {
  // Sets only SO_REUSEADDR: the library's default SO_REUSEPORT would share the port with another
  // server.
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  set_pre_routing_handler(
      [this](const auto& request, auto& response) { return admit(request, response); });
  set_error_handler(word_refusal);
}

void ApiServer::get(const std::string& path, const Answer& answer) {
  Get(path, [answer](const httplib::Request& request, httplib::Response& response) {
    const Status done = catch_refusals([&] { return answer(request, response); });
    if (!done) reply_error(response, done.error());
  });
}

void ApiServer::post(const std::string& path, const BodyAnswer& answer, const char* content_type) {
  posts_[path] = content_type;
  Post(path, [this, answer](const httplib::Request& request, httplib::Response& response,
                            const httplib::ContentReader& reader) {
    const Status done = catch_refusals([&]() -> Status {
      MOEC_ASSIGN(const std::string body, read_body(request, reader));
      return answer(request, body, response);
    });
    if (!done) reply_error(response, done.error());
  });
}

Status ApiServer::run(const std::function<void()>& before_close) {
  const int port = options_.port == 0                           ? bind_to_any_port(options_.host)
                   : bind_to_port(options_.host, options_.port) ? options_.port
                                                                : -1;
  if (port < 0)
    return fail("serve.address",
                fmt::format("cannot listen on {}:{}", options_.host, options_.port),
                "pass another --port (0 selects a free one), or a --host of this machine");
  std::atomic<bool> over = false;
  // Declared after `over`, which its thread uses.
  ThreadGroup watch;
  if (!watch.start([&] { watch_for_stop(over, before_close); }))
    return fail("system.resource", "the system cannot create a thread",
                "raise the limit on threads (ulimit -u), or end other programs");
  if (options_.listening) options_.listening(port);
  const Status served = serve();
  over = true;
  return served;
}

void ApiServer::watch_for_stop(const std::atomic<bool>& over,
                               const std::function<void()>& before_close) {
  constexpr std::chrono::milliseconds kPause{100};
  while (!over && !(options_.stop && options_.stop())) std::this_thread::sleep_for(kPause);
  // The answers end before the connections close, so that clients receive serve.stopping.
  before_close();
  if (over) return;
  std::this_thread::sleep_for(2 * kPause);
  finish();
}

// Checks a request before its body is read.
ApiServer::HandlerResponse ApiServer::admit(const httplib::Request& request,
                                            httplib::Response& response) const {
  const auto post = posts_.find(request.path);
  const std::optional<Refusal> refusal =
      refusal_of(request, options_.access, post == posts_.end() ? kJson : post->second);
  // Unknown paths of POST requests are rejected here, before the body is read.
  const bool known = request.method != "POST" || post != posts_.end();
  if (!refusal) allow_origin(request, options_.access, response);
  if (!refusal && known && request.method != "OPTIONS") return HandlerResponse::Unhandled;
  end_connection();  // the unread body would be parsed as the next request
  response.set_header("Connection", "close");
  if (refusal) {
    response.status = refusal->status;
    response.set_content(json_text(error_reply({refusal->error}), -1), kJson);
  } else {
    response.status = request.method == "OPTIONS" ? 204 : 404;
  }
  return HandlerResponse::Handled;
}

}  // namespace moec
