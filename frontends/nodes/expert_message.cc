#include "frontends/nodes/expert_message.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "ir/base/json_fields.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNextStep = "use nodes with the same version of moec";
// Maximum values of a matrix; no width and no hidden size come near.
constexpr int64_t kMaxValues = int64_t{1} << 31;

tl::unexpected<Diagnostics> bad(std::string cause) {
  return fail("peers.bad_call", std::move(cause), kNextStep);
}

ordered_json size_json(const Rows& rows) {
  return {{"columns", rows.columns}, {"count", rows.count()}};
}

void append(std::string& text, const Rows& rows) {
  const auto bytes = std::as_bytes(std::span(rows.data));
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());  // NOLINT: bytes as char
}

// Takes the rows of a head from the front of the bytes after it.
Result<Rows> take_rows(JsonFields& fields, std::string_view& bytes) {
  Rows rows;
  int64_t count = 0;
  MOEC_TRY(fields.positive("columns", rows.columns));
  MOEC_TRY(fields.positive("count", count));
  if (rows.columns > kMaxValues / count) return fields.bad("count", "is too large");
  const auto values = static_cast<size_t>(rows.columns * count);
  if (bytes.size() < values * sizeof(float)) return bad("the body ends within its rows");
  rows.data.resize(values);
  std::memcpy(rows.data.data(), bytes.data(), values * sizeof(float));
  bytes.remove_prefix(values * sizeof(float));
  return rows;
}

// Reads the JSON line of a body. read(JsonFields&, bytes) takes rows from the bytes after the line.
template <class Read>
Status read_message(std::string_view body, Read read) {
  const size_t end = body.find('\n');
  if (end == std::string_view::npos) return bad("the body has no line of JSON");
  const JsonReport report(body.substr(0, end), "body",
                          JsonCodes::all_as("peers.bad_call", kNextStep));
  std::string_view bytes = body.substr(end + 1);
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  MOEC_TRY(read(fields, bytes));
  MOEC_TRY(fields.finish());
  if (!bytes.empty()) return bad("the body has more bytes than its rows");
  return {};
}

Status read_call(JsonFields& fields, std::string_view& bytes, ExpertCall& call) {
  MOEC_TRY(fields.whole("layer", call.layer));
  MOEC_TRY(fields.text("numerics", call.numerics));
  MOEC_TRY(fields.each("shards", [&](JsonFields& shard) -> Status {
    CalledShard& called = call.shards.emplace_back();
    MOEC_TRY(shard.text("name", called.name));
    MOEC_TRY(shard.text("digest", called.digest));
    return shard.finish();
  }));
  return fields.each("inputs", [&](JsonFields& input) -> Status {
    std::string port;
    MOEC_TRY(input.text("port", port));
    MOEC_ASSIGN(Rows rows, take_rows(input, bytes));
    if (!call.inputs.emplace(port, std::move(rows)).second)
      return input.bad("port", "occurs twice");
    return input.finish();
  });
}

}  // namespace

std::string call_text(const ExpertCall& call) {
  ordered_json shards = ordered_json::array(), inputs = ordered_json::array();
  for (const CalledShard& shard : call.shards)
    shards.push_back({{"name", shard.name}, {"digest", shard.digest}});
  for (const auto& [port, rows] : call.inputs) {
    ordered_json input = {{"port", port}};
    input.update(size_json(rows));
    inputs.push_back(std::move(input));
  }
  std::string text = json_text({{"layer", call.layer},
                                {"numerics", call.numerics},
                                {"shards", std::move(shards)},
                                {"inputs", std::move(inputs)}},
                               -1) +
                     "\n";
  for (const auto& [port, rows] : call.inputs) append(text, rows);
  return text;
}

std::string rows_text(const Rows& rows) {
  std::string text = json_text(size_json(rows), -1) + "\n";
  append(text, rows);
  return text;
}

Result<ExpertCall> parse_call(std::string_view body) {
  ExpertCall call;
  MOEC_TRY(read_message(body, [&](JsonFields& fields, std::string_view& bytes) {
    return read_call(fields, bytes, call);
  }));
  return call;
}

Result<Rows> parse_rows(std::string_view body) {
  Rows rows;
  MOEC_TRY(read_message(body, [&](JsonFields& fields, std::string_view& bytes) -> Status {
    MOEC_ASSIGN(rows, take_rows(fields, bytes));
    return {};
  }));
  return rows;
}

}  // namespace moec
