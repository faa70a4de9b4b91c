#include "backends/output/journal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "backends/files/digest.h"
#include "ir/base/json.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kDigestKey = ",\"digest\":\"";
constexpr size_t kDigestDigits = 32;

std::string digest_of(std::string_view text) {
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

std::string line_of(const char* key, const ordered_json& value) {
  return seal_line(fmt::format("{{\"{}\":{}", key, json_text(value, -1)));
}

// The line is whole: its end is the digest of its beginning.
bool is_sealed(std::string_view line) {
  const size_t end = kDigestKey.size() + kDigestDigits + 2;
  if (line.size() < end || !line.ends_with("\"}")) return false;
  const std::string_view body = line.substr(0, line.size() - end);
  const std::string_view tail = line.substr(body.size());
  return tail.starts_with(kDigestKey) &&
         tail.substr(kDigestKey.size(), kDigestDigits) == digest_of(body);
}

ordered_json to_json(const EmittedFile& file) {
  return {
      {"path", file.path}, {"bytes", file.bytes}, {"digest", file.digest}, {"sha256", file.sha256}};
}

// Fields of a part, read without a message: a line that is not as journal_line() writes it counts
// as damaged.
class Fields {
 public:
  explicit Fields(const JsonValue& value) : value_(value) {}

  std::string text(const char* key) {
    const JsonValue* found = value_.find(key);
    const std::string* text = found ? found->string() : nullptr;
    ok_ = ok_ && text;
    return text ? *text : std::string();
  }
  uint64_t count(const char* key) {
    const JsonValue* found = value_.find(key);
    const int64_t* number = found ? found->integer() : nullptr;
    ok_ = ok_ && number && *number >= 0;
    return ok_ ? static_cast<uint64_t>(*number) : 0;
  }
  template <class Read>
  void each(const char* key, Read read) {
    const JsonValue* found = value_.find(key);
    const JsonValue::Array* items = found ? found->array() : nullptr;
    ok_ = ok_ && items;
    if (!items) return;
    for (const JsonValue& item : *items) {
      Fields fields(item);
      read(fields);
      ok_ = ok_ && fields.ok_;
    }
  }
  EmittedFile file() { return {text("path"), count("bytes"), text("digest"), text("sha256")}; }
  WeightRecord record() {
    const auto role = parse_enum<WeightRole>(text("role"));
    ok_ = ok_ && role;
    return {text("name"), role.value_or(WeightRole::plain),
            static_cast<int64_t>(count("moe_layer")), static_cast<int64_t>(count("first_expert")),
            text("digests")};
  }
  bool ok() const { return ok_; }

 private:
  const JsonValue& value_;
  bool ok_ = true;
};

std::optional<JournalPart> read_part(const JsonValue& value) {
  JournalPart part;
  Fields fields(value);
  part.name = fields.text("name");
  EmitReport& emitted = part.emitted;
  fields.each("graphs", [&](Fields& graph) {
    emitted.graphs.push_back(
        {static_cast<int64_t>(graph.count("tokens")), graph.file(), graph.text("function")});
  });
  fields.each("data", [&](Fields& data) { emitted.data.push_back(data.file()); });
  fields.each("odd_tensors", [&](Fields& tensor) {
    EmittedTensor& found = emitted.tensors.emplace_back();
    found.name = tensor.text("tensor");
    found.overflows = tensor.count("overflows");
    found.nans = tensor.count("nans");
  });
  fields.each("weights", [&](Fields& weight) { emitted.weights.push_back(weight.record()); });
  emitted.weight_bytes = fields.count("weight_bytes");
  if (!fields.ok()) return std::nullopt;
  return part;
}

std::optional<ExportFacts> read_facts(const JsonValue& value) {
  const JsonValue::Object* members = value.object();
  if (!members) return std::nullopt;
  ExportFacts facts;
  for (const JsonMember& member : *members) {
    const std::string* text = member.value.string();
    if (!text) return std::nullopt;
    facts[member.key] = *text;
  }
  return facts;
}

std::optional<FinishedTarget> read_finished(const JsonValue& value) {
  Fields fields(value);
  FinishedTarget target{fields.text("folder"), fields.text("manifest"), fields.text("journal")};
  if (!fields.ok()) return std::nullopt;
  return target;
}

// The object of a whole line, which may hold the journal of another target.
std::optional<JsonValue> read_line(std::string_view line, const std::string& file) {
  if (!is_sealed(line)) return std::nullopt;
  auto parsed = parse_json(line, {.file = file}, {.bytes = line.size()});
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

// What stands under the key, as `read` understands it.
template <class Read>
auto read_member(const std::optional<JsonValue>& line, const char* key, Read read)
    -> decltype(read(*line)) {
  const JsonValue* value = line ? line->find(key) : nullptr;
  if (!value) return std::nullopt;
  return read(*value);
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string seal_line(std::string_view object) {
  return fmt::format("{}{}{}\"}}\n", object, kDigestKey, digest_of(object));
}

std::string journal_line(const ExportFacts& facts) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : facts) object[name] = value;
  return line_of("export", object);
}

std::string journal_line(const JournalPart& part) {
  auto graphs = ordered_json::array(), data = ordered_json::array(),
       odd_tensors = ordered_json::array(), weights = ordered_json::array();
  for (const EmittedGraph& graph : part.emitted.graphs) {
    ordered_json entry = {{"tokens", graph.tokens}};
    entry.update(to_json(graph.file));
    entry["function"] = graph.function;
    graphs.push_back(std::move(entry));
  }
  for (const EmittedFile& file : part.emitted.data) data.push_back(to_json(file));
  for (const EmittedTensor& tensor : part.emitted.tensors)
    if (tensor.overflows > 0 || tensor.nans > 0)
      odd_tensors.push_back(
          {{"tensor", tensor.name}, {"overflows", tensor.overflows}, {"nans", tensor.nans}});
  for (const WeightRecord& weight : part.emitted.weights)
    weights.push_back({{"name", weight.name},
                       {"role", enum_name(weight.role)},
                       {"moe_layer", weight.moe_layer},
                       {"first_expert", weight.first_expert},
                       {"digests", weight.digests}});
  return line_of("part", {{"name", part.name},
                          {"graphs", std::move(graphs)},
                          {"data", std::move(data)},
                          {"weights", std::move(weights)},
                          {"weight_bytes", part.emitted.weight_bytes},
                          {"odd_tensors", std::move(odd_tensors)}});
}

std::string journal_line(const FinishedTarget& target) {
  return line_of(
      "finished",
      {{"folder", target.folder}, {"manifest", target.manifest}, {"journal", target.journal}});
}

std::string journal_text(const JournalText& journal) {
  std::string lines = journal_line(journal.facts);
  for (const JournalPart& part : journal.parts) lines += journal_line(part);
  for (const FinishedTarget& target : journal.finished) lines += journal_line(target);
  return lines;
}

Result<JournalText> parse_journal(std::string_view text, const std::string& file) {
  JournalText journal;
  auto facts = read_member(read_line(take_line(text), file), "export", read_facts);
  if (!facts)
    return fail("export.journal", "the journal does not say what the export was made from",
                "start anew with --force", {.file = file});
  journal.facts = std::move(*facts);
  while (!text.empty()) {
    const auto line = read_line(take_line(text), file);
    if (auto part = read_member(line, "part", read_part)) journal.parts.push_back(std::move(*part));
    if (auto target = read_member(line, "finished", read_finished))
      journal.finished.push_back(std::move(*target));
  }
  return journal;
}

}  // namespace moec
