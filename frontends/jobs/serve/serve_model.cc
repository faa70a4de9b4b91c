#include "frontends/jobs/serve/serve_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/manifest/expert_grid.h"
#include "frontends/http/api_server.h"
#include "frontends/jobs/serve/answer_completion.h"
#include "frontends/jobs/serve/reload_check.h"
#include "frontends/nodes/expert_message.h"
#include "frontends/nodes/peer_report.h"
#include "ir/base/json_fields.h"
#include "ir/base/parse_number.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

using nlohmann::ordered_json;

constexpr const char* kTexts = "/v1/completions";
constexpr const char* kChats = "/v1/chat/completions";
// First tokens that a probe runs by default, as in `moec probe`.
constexpr int64_t kProbeTokens = 32;

int64_t seconds_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

// A body with messages is one of a chat.
Result<Endpoint> endpoint_of(const std::string& body) {
  const JsonReport report(body, "request", JsonCodes::by_prefix("serve", "send a JSON object"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(const JsonFields fields, JsonFields::of(report, value));
  return fields.has("messages") ? Endpoint::chat : Endpoint::text;
}

Status check_no_fields(const std::string& body) {
  const JsonReport report(body, "request", JsonCodes::by_prefix("serve", "send {}"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(const JsonFields fields, JsonFields::of(report, value));
  return fields.finish();
}

Result<int64_t> probe_tokens(const httplib::Request& request) {
  if (!request.has_param("tokens")) return kProbeTokens;
  const std::string text = request.get_param_value("tokens");
  const auto tokens = parse_whole(text);
  if (tokens && *tokens > 0) return *tokens;
  return fail("serve.bad_value",
              fmt::format("tokens is {}, but must be a positive integer", printable(text, 60)));
}

// Rounds to thousandths of a token, which are short as text.
double rounded(double count) { return std::round(count * 1000) / 1000; }

std::vector<double> rounded(std::vector<double> counts) {
  for (double& count : counts) count = rounded(count);
  return counts;
}

class HttpServer {
 public:
  HttpServer(Session session, ServedText text, std::string name, const ServeOptions& options)
      : name_(std::move(name)),
        options_(options),
        text_(std::move(text)),
        scheduler_(std::move(session), options.limits, options.peers),
        server_(options.server) {
    server_.get("/health", [](const httplib::Request&, httplib::Response& response) -> Status {
      response.set_content(R"({"status":"ok"})", kJson);
      return {};
    });
    server_.get(
        "/v1/models", [this](const httplib::Request&, httplib::Response& response) -> Status {
          response.set_content(
              json_text({{"object", "list"}, {"data", ordered_json::array({model_json()})}}, -1),
              kJson);
          return {};
        });
    server_.get("/v1/models/(.+)", [this](const auto& request, auto& response) -> Status {
      if (request.matches[1] == name_)
        response.set_content(json_text(model_json(), -1), kJson);
      else
        // Without a body: the error handler adds it.
        response.status = 404;
      return {};
    });
    complete_at(kTexts, Endpoint::text);
    complete_at(kChats, Endpoint::chat);
    server_.post("/v1/probe", [this](const auto& request, const auto& body, auto& response) {
      return probe(request, body, response);
    });
    server_.post(
        kExpertsPath,
        [this](const auto&, const auto& body, auto& response) -> Status {
          MOEC_ASSIGN(ExpertCall call, parse_call(body));
          MOEC_ASSIGN(const Rows sum, scheduler_.run_experts(std::move(call)));
          response.set_content(rows_text(sum), kBytes);
          return {};
        },
        kBytes);
    server_.post("/v1/reload", [this](const auto&, const auto& body, auto& response) {
      return reload(body, response);
    });
    server_.get("/v1/gates", [this](const auto& request, auto& response) -> Status {
      MOEC_ASSIGN(const ordered_json json, request.has_param("layer")
                                               ? layer_gates_json(request.get_param_value("layer"))
                                               : gates_json());
      response.set_content(json_text(json, -1), kJson);
      return {};
    });
  }

  Status run() {
    // The scheduler stops first, so that texts end with serve.stopping before connections close.
    return server_.run([this] { scheduler_.stop(); });
  }

 private:
  ordered_json model_json() const {
    return {{"id", name_}, {"object", "model"}, {"created", started_}, {"owned_by", "moec"}};
  }

  void complete_at(const char* path, Endpoint endpoint) {
    server_.post(path, [this, endpoint](const httplib::Request&, const std::string& body,
                                        httplib::Response& response) {
      return complete(endpoint, body, response);
    });
  }

  Result<CompletionRequest> parse(Endpoint endpoint, const std::string& body) const {
    return parse_completion(
        endpoint, body, {scheduler_.manifest(), text_.tokenizer, text_.chat.get()}, most_tokens());
  }

  Status complete(Endpoint endpoint, const std::string& body, httplib::Response& response) {
    MOEC_ASSIGN(CompletionRequest wanted, parse(endpoint, body));
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

  // Answers how much of the routing weight of a prompt's first tokens falls on this node's experts.
  Status probe(const httplib::Request& request, const std::string& body,
               httplib::Response& response) {
    MOEC_ASSIGN(const int64_t most, probe_tokens(request));
    MOEC_ASSIGN(const Endpoint endpoint, endpoint_of(body));
    MOEC_ASSIGN(CompletionRequest wanted, parse(endpoint, body));
    std::vector<int64_t>& prompt = wanted.prompts.front();
    prompt.resize(static_cast<size_t>(std::min(most, std::ssize(prompt))));
    const size_t tokens = prompt.size();
    MOEC_ASSIGN(const RoutingMass mass, scheduler_.probe(std::move(prompt)));
    if (!mass.finite())
      return fail("probe.nonfinite", "the routing weights are NaN or infinite",
                  "run moec check to find weights and casts that overflow");
    ordered_json json = {{"object", "probe"}, {"model", name_}, {"tokens", tokens}};
    json.update(mass_json(mass));
    response.set_content(json_text(json, -1), kJson);
    return {};
  }

  // The share of the node's experts, and the share of each expert by layer.
  ordered_json mass_json(const RoutingMass& mass) const {
    const ExpertGrid grid = expert_grid(scheduler_.manifest());
    ordered_json json = {{"kept", nullptr},
                         {"kept_by_layer", nullptr},
                         {"layers", grid.layers},
                         {"routing", nullptr}};
    if (mass.empty()) return json;
    json["kept"] = mass.kept(scheduler_.own_experts());
    json["kept_by_layer"] = mass.kept_by_layer(scheduler_.own_experts(), grid);
    json["routing"] = mass.shares(grid);
    return json;
  }

  Result<ordered_json> gates_json() const {
    const RoutingMass gates = scheduler_.gates();
    const ExpertGrid grid = expert_grid(scheduler_.manifest());
    ordered_json json = {{"object", "gates"},
                         {"model", name_},
                         {"family", scheduler_.manifest().model.family},
                         {"expert_count", grid.experts},
                         {"top_k", grid.top_k},
                         {"experts", to_string(scheduler_.own_experts())},
                         {"half_life", kGateHalfLife},
                         {"tokens", gates.tokens()}};
    json.update(mass_json(gates));
    if (const auto counts = scheduler_.peer_counts()) json["peers"] = peer_json(*counts);
    return json;
  }

  // One layer per reply, because the pairs of all layers may be tens of megabytes.
  Result<ordered_json> layer_gates_json(const std::string& text) const {
    const std::vector<int64_t> layers = expert_grid(scheduler_.manifest()).layers;
    const auto layer = parse_whole(text);
    if (!layer || !std::binary_search(layers.begin(), layers.end(), *layer))
      return fail("serve.bad_value",
                  fmt::format("layer is {}, but must be one of the MoE layers {}",
                              printable(text, 60), fmt::join(layers, ", ")));
    const LayerChoices choices = scheduler_.choices(*layer);
    return ordered_json{
        {"object", "gates.layer"},           {"layer", *layer},
        {"tokens", rounded(choices.tokens)}, {"selections", rounded(choices.selections)},
        {"mass", rounded(choices.mass)},     {"together", rounded(choices.together)}};
  }

  // Continues all texts with the current contents of the folder. If it cannot be opened, or differs
  // in more than its experts, the server keeps the earlier contents.
  Status reload(const std::string& body, httplib::Response& response) {
    // Refuses a path, for example: clients must not choose the files that the server reads.
    MOEC_TRY(check_no_fields(body));
    if (!options_.reload.open)
      return fail("serve.no_reload", "the server cannot reload its folder", "restart the server");
    const std::unique_lock lock(reloading_, std::try_to_lock);
    if (!lock.owns_lock())
      return fail("serve.busy", "the server is reloading its folder", "try again later");
    // Opened here and not by the scheduler, so that texts continue meanwhile.
    MOEC_ASSIGN(Session session, options_.reload.open());
    MOEC_TRY(check_reload(scheduler_.manifest(), session.manifest()));
    const auto experts = session.experts();
    const std::string before = to_string(scheduler_.own_experts());
    MOEC_TRY(scheduler_.replace(std::move(session)));
    if (options_.reload.opened) options_.reload.opened(experts);
    response.set_content(json_text({{"object", "reload"},
                                    {"model", name_},
                                    {"experts", to_string(scheduler_.own_experts())},
                                    {"experts_before", before}},
                                   -1),
                         kJson);
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
  std::mutex reloading_;
  Scheduler scheduler_;
  ApiServer server_;  // last member, because its requests use the scheduler
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
