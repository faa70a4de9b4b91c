#include "frontends/jobs/route/relay_stream.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "frontends/jobs/route/event_reader.h"
#include "frontends/jobs/route/gateway_replies.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds kMoment{100};
constexpr const char* kDone = "[DONE]";

std::string event_of(std::string_view data) { return fmt::format("data: {}\n\n", data); }

// A field of an object; null if it is absent.
const ordered_json& field(const ordered_json& object, const char* name) {
  static const ordered_json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

// The part of a text that an event contains. Reading it throws if a field has another type than in
// the OpenAI API.
struct EventNews {
  std::string text;
  std::vector<int64_t> tokens;
  int64_t calls = 0;  // of tools
  bool finished = false;
};

EventNews news_of(const ordered_json& event) {
  EventNews news;
  // Other servers also send events without choices.
  if (!event.contains("choices")) return news;
  for (const ordered_json& choice : event["choices"].get_ref<const ordered_json::array_t&>()) {
    const ordered_json& text = choice.at(choice.contains("text") ? "text" : "delta");
    const ordered_json& words = text.is_object() ? field(text, "content") : text;
    if (!words.is_null()) news.text += words.get_ref<const std::string&>();
    for (const ordered_json& token : field(choice, "token_ids"))
      news.tokens.push_back(token.get<int64_t>());
    if (text.is_object()) news.calls += std::ssize(field(text, "tool_calls"));
    news.finished = news.finished || field(choice, "finish_reason").is_string();
  }
  return news;
}

}  // namespace

StreamRelay::StreamRelay(NodePool& pool, RouteRequest request, NodeRanking ranking, NodeLease lease,
                         std::chrono::milliseconds most, ExplainCallback explain)
    : pool_(pool),
      request_(std::move(request)),
      ranking_(std::move(ranking)),
      most_(most),
      explain_(std::move(explain)),
      thread_([this, its = std::make_shared<NodeLease>(std::move(lease))] {
        const Status ran = catch_refusals([&]() -> Status {
          run(std::move(*its));
          return {};
        });
        if (!ran) finish(refusal_reply(503, ran.error().front().code, ran.error().front().cause));
      }) {}

StreamRelay::~StreamRelay() {
  queue_.cancel();
  thread_.join();
}

NodeReply StreamRelay::begin() { return queue_.wait_for_begin(); }

bool StreamRelay::next(const std::function<bool(const std::string&)>& send) {
  const EventQueue::News news = queue_.take(kMoment);
  return send(news.events) && !news.over;
}

void StreamRelay::finish(const NodeReply& refusal) {
  queue_.begin(refusal);
  // If the status is sent already, the error is an event.
  if (!ended_ && !refusal.body.empty()) queue_.push(event_of(refusal.body));
  queue_.end();
}

void StreamRelay::run(NodeLease lease) {
  {
    // The lease ends with the request to its node.
    const NodeLease first = std::move(lease);
    if (!try_node(ranking_.front(), request_.body)) return finish(refusal_);
  }
  size_t lost = ranking_.front();
  for (size_t i = 1; i < ranking_.size(); ++i) {
    const size_t node = ranking_[i];
    const auto body = resumed_body(request_, so_far_, pool_.node(node).api);
    if (!body) continue;
    const std::optional<NodeLease> next = pool_.take(node);
    if (!next) continue;
    pool_.count_failover(std::exchange(lost, node));
    if (explain_)
      explain_(fmt::format("{} continues after {} bytes of text", pool_.node(node).name,
                           so_far_.text.size()));
    if (!try_node(node, *body)) return finish(refusal_);
  }
  finish(refusal_);
}

// Returns true if another node must continue the text.
bool StreamRelay::try_node(size_t node, const std::string& body) {
  switch (stream_from(node, body)) {
    case End::complete:
    case End::cancelled:
      refusal_ = {};
      return false;
    case End::refused:
      return false;
    case End::lost:
      break;
  }
  refusal_ = refusal_reply(502, "route.node_lost",
                           fmt::format("{} was lost during the answer", pool_.node(node).name));
  resumed_ = !so_far_.empty();
  return true;
}

StreamRelay::End StreamRelay::stream_from(size_t node, const std::string& body) {
  EventReader reader;
  failed_ = false;
  const NodeReply reply = stream_from_node(
      pool_.node(node), request_.path, body, most_,
      {.begin =
           [&](int status) {
             if (status == 200) queue_.begin({200, {}, {}});
             return !queue_.cancelled();
           },
       .take =
           [&](std::string_view piece) {
             return reader.add(piece, [&](std::string_view data) { return take_event(data); });
           }});
  if (ended_) return End::complete;
  if (queue_.cancelled()) return End::cancelled;
  // The text is complete, although the node was lost before the end of the stream.
  if (finished_) {
    ended_ = queue_.push(event_of(kDone));
    return End::complete;
  }
  // 503: the node is shutting down. Errors of the request itself would be the same on other nodes.
  if (reply.status != 0 && reply.status != 200 && reply.status < 502) {
    refusal_ = reply;
    return End::refused;
  }
  if (reply.status == 0 && !failed_) pool_.count_failure(node);
  return End::lost;
}

// Returns false at the end of the stream, if the node reports an error, and if the client has left.
bool StreamRelay::take_event(std::string_view data) {
  if (data == kDone) {
    ended_ = queue_.push(event_of(data));
    return false;
  }
  const auto event = ordered_json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object() || event.contains("error")) {
    failed_ = true;
    return false;
  }
  try {
    return take_event(event, data);
  } catch (const ordered_json::exception&) {
    // A field has another type than in the OpenAI API.
    failed_ = true;
    return false;
  }
}

bool StreamRelay::take_event(const ordered_json& event, std::string_view data) {
  const EventNews news = news_of(event);
  if (id_.empty() && event.contains("id")) id_ = event["id"].get<std::string>();
  if (!queue_.push(resumed_ ? rewritten(data) : event_of(data))) return false;
  so_far_.text += news.text;
  so_far_.calls += news.calls;
  lacks_tokens_ = lacks_tokens_ || (!news.text.empty() && news.tokens.empty());
  so_far_.tokens.insert(so_far_.tokens.end(), news.tokens.begin(), news.tokens.end());
  if (lacks_tokens_) so_far_.tokens.clear();
  so_far_.events += news.text.empty() ? 0 : 1;
  finished_ = finished_ || news.finished;
  return true;
}

// Events of the node that continues a text get the id of the first one, and do not name the role
// again.
std::string StreamRelay::rewritten(std::string_view data) const {
  ordered_json event = ordered_json::parse(data);
  event["id"] = id_;
  if (event.contains("choices"))
    for (ordered_json& choice : event["choices"])
      if (choice.contains("delta")) choice["delta"].erase("role");
  return event_of(json_text(event, -1));
}

}  // namespace moec
