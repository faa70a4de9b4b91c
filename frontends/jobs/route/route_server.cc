#include "frontends/jobs/route/route_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "embedded/embedded_route_page.h"
#include "frontends/http/api_server.h"
#include "frontends/http/error_reply.h"
#include "frontends/jobs/route/choose_nodes.h"
#include "frontends/jobs/route/gateway_replies.h"
#include "frontends/jobs/route/route_report.h"
#include "frontends/nodes/node_client.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr std::chrono::milliseconds kHealthAnswer{2'000};

class RouteServer {
 public:
  explicit RouteServer(const RouteOptions& options)
      : options_(options),
        pool_(options.nodes.nodes),
        pins_(options.sessions),
        server_(options.server) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions"})
      server_.post(path, [this, path](const auto&, const std::string& body, auto& response) {
        return complete(path, body, response);
      });
    for (size_t i = 0; i < pool_.size(); ++i)
      for (const bool drains : {true, false})
        server_.post(
            fmt::format("/v1/nodes/{}/{}", pool_.node(i).name, drains ? "drain" : "undrain"),
            [this, i, drains](const auto&, const std::string&, auto& response) -> Status {
              pool_.set_draining(i, drains);
              response.set_content(json_text(nodes_json(pool_, pins_), -1), kJson);
              return {};
            });
    server_.get("/v1/nodes", [this](const auto&, auto& response) -> Status {
      response.set_content(json_text(nodes_json(pool_, pins_), -1), kJson);
      return {};
    });
    server_.get("/metrics", [this](const auto&, auto& response) -> Status {
      response.set_content(metrics_text(pool_, pins_, counters_), "text/plain; version=0.0.4");
      return {};
    });
    server_.get("/", [](const auto&, auto& response) -> Status {
      response.set_content(std::string(embedded_route_page.front().text), "text/html");
      return {};
    });
    server_.get("/health", [this](const auto&, auto& response) { return health(response); });
    server_.get("/v1/models", [this](const auto&, auto& response) { return models(response); });
  }

  Status run() {
    std::atomic<bool> over = false;
    check_nodes();  // so that the first request finds the nodes
    ThreadGroup checks;
    if (!checks.start([&] { check_until(over); }))
      return fail("system.resource", "the system cannot create a thread",
                  "raise the limit on threads (ulimit -u), or end other programs");
    const Status served = server_.run([] {});
    over = true;
    return served;
  }

 private:
  // Checks all nodes at the same time, so that one without an answer does not delay the others.
  void check_nodes() {
    ThreadGroup threads;
    for (size_t i = 0; i < pool_.size(); ++i)
      if (!threads.start([this, i] { check(i); })) check(i);
  }

  void check(size_t node) {
    const bool was = pool_.is_usable(node);
    const bool up = get_from_node(pool_.node(node), "/health", kHealthAnswer).status == 200;
    pool_.set_up(node, up);
    if (was && !up) explain(pool_.node(node).name + " does not answer");
    if (!up || pool_.node(node).api != NodeApi::moec) return;
    const NodeReply gates = get_from_node(pool_.node(node), "/v1/gates", kHealthAnswer);
    if (gates.status == 200) pool_.set_gates(node, gates.body);
  }

  void check_until(const std::atomic<bool>& over) {
    constexpr std::chrono::milliseconds kPause{50};
    while (!over) {
      const auto next = std::chrono::steady_clock::now() + options_.check;
      while (!over && std::chrono::steady_clock::now() < next) std::this_thread::sleep_for(kPause);
      if (!over) check_nodes();
    }
  }

  void explain(const std::string& line) const {
    if (options_.explain) options_.explain(line);
  }

  Status complete(const std::string& path, const std::string& body, httplib::Response& response) {
    MOEC_ASSIGN(RouteRequest request, parse_route_request(path, body));
    ++counters_.requests;
    const std::optional<NodeRanking> known = pins_.find(request.session);
    NodeRanking ranking = known ? moved_if_lost(*known) : chosen(request);
    // A known session waits for its node, which has its caches. A new one may go to the next node.
    std::optional<NodeLease> lease = known ? pool_.take(ranking.front()) : take_first(ranking);
    // Also for a known session, because its text has grown.
    pins_.set(request.session, ranking);
    if (!lease) {
      reply(any_usable() ? busy_reply() : no_node_reply(), response);
      return {};
    }
    if (request.stream)
      return stream(std::move(request), std::move(ranking), std::move(*lease), response);
    return relay(request, ranking, std::move(*lease), response);
  }

  // Takes the first node of the ranking that has a place, and makes it the first one.
  std::optional<NodeLease> take_first(NodeRanking& ranking) {
    for (auto node = ranking.begin(); node != ranking.end(); ++node)
      if (auto lease = pool_.take(*node)) {
        std::rotate(ranking.begin(), node, node + 1);
        return lease;
      }
    return std::nullopt;
  }

  // A session whose node is gone moves to the next best one.
  NodeRanking moved_if_lost(NodeRanking ranking) const {
    if (pool_.is_usable(ranking.front())) return ranking;
    const auto usable = std::find_if(ranking.begin(), ranking.end(),
                                     [&](size_t node) { return pool_.is_usable(node); });
    if (usable != ranking.end()) std::rotate(ranking.begin(), usable, usable + 1);
    explain(fmt::format("a session moves to {}", pool_.node(ranking.front()).name));
    return ranking;
  }

  NodeRanking chosen(const RouteRequest& request) {
    NodeChoice choice = choose_nodes(request, pool_, options_.nodes.table, options_.probe);
    if (choice.probed) ++counters_.probes;
    explain("new session, " + choice.reason);
    return std::move(choice.ranking);
  }

  void reply(const NodeReply& answer, httplib::Response& response) {
    response.status = answer.status;
    response.set_content(answer.body, answer.content_type.empty() ? kJson : answer.content_type);
    if (answer.status != 429) return;
    ++counters_.refused;
    response.set_header("Retry-After", "1");
  }

  // A whole answer that was lost is requested again, because the client has received nothing.
  Status relay(const RouteRequest& request, const NodeRanking& ranking, NodeLease first,
               httplib::Response& response) {
    std::optional<NodeLease> lease(std::move(first));
    for (size_t i = 0; i < ranking.size(); ++i) {
      if (i > 0) {
        lease.reset();
        if (auto next = pool_.take(ranking[i])) lease.emplace(std::move(*next));
      }
      if (!lease) continue;
      const NodeReply answer =
          post_to_node(pool_.node(ranking[i]), request.path, request.body, options_.answer);
      if (answer.status != 0 && answer.status < 502) {
        reply(answer, response);
        return {};
      }
      if (answer.status == 0) pool_.count_failure(ranking[i]);
      pool_.count_failover(ranking[i]);
      explain(pool_.node(ranking[i]).name + " was lost before it answered");
    }
    reply(no_node_reply(), response);
    return {};
  }

  Status stream(RouteRequest request, NodeRanking ranking, NodeLease lease,
                httplib::Response& response) {
    const auto stream =
        std::make_shared<StreamRelay>(pool_, std::move(request), std::move(ranking),
                                      std::move(lease), options_.answer, options_.explain);
    const NodeReply begun = stream->begin();
    if (begun.status != 200) {
      reply(begun, response);
      return {};
    }
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream", [stream](size_t, httplib::DataSink& sink) {
          const bool more = stream->next([&](const std::string& events) {
            if (!sink.is_writable()) return false;
            return events.empty() || sink.write(events.data(), events.size());
          });
          if (!more) sink.done();
          return true;
        });
    return {};
  }

  Status health(httplib::Response& response) const {
    const bool any = any_usable();
    response.status = any ? 200 : 503;
    response.set_content(any ? R"({"status":"ok"})" : R"({"status":"no node accepts requests"})",
                         kJson);
    return {};
  }

  bool any_usable() const {
    for (size_t i = 0; i < pool_.size(); ++i)
      if (pool_.is_usable(i)) return true;
    return false;
  }

  Status models(httplib::Response& response) {
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (!pool_.is_usable(i)) continue;
      const NodeReply answer = get_from_node(pool_.node(i), "/v1/models", kHealthAnswer);
      if (answer.status != 200) continue;
      reply(answer, response);
      return {};
    }
    reply(no_node_reply(), response);
    return {};
  }

  const RouteOptions options_;
  NodePool pool_;
  SessionPins pins_;
  RouteCounters counters_;
  ApiServer server_;  // last member, because its requests use the others
};

}  // namespace

Status route_requests(const RouteOptions& options) {
  return catch_refusals([&] { return RouteServer(options).run(); });
}

}  // namespace moec
