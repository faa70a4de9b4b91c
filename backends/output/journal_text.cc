#include "backends/output/journal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/folder.h"
#include "backends/manifest/file_names.h"
#include "ir/base/json_fields.h"
#include "ir/base/report_json.h"

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

// True if the line ends with the digest of the text before it.
bool is_sealed(std::string_view line) {
  const size_t end = kDigestKey.size() + kDigestDigits + 2;
  if (line.size() < end || !line.ends_with("\"}")) return false;
  const std::string_view body = line.substr(0, line.size() - end);
  const std::string_view tail = line.substr(body.size());
  // A torn line lacks the digest, and a line that was joined with another one has the digest of
  // other text.
  return tail.starts_with(kDigestKey) &&
         tail.substr(kDigestKey.size(), kDigestDigits) == digest_of(body);
}

ordered_json to_json(const WeightRange& range) {
  return {{"part", enum_name(range.part)}, {"data", range.data},
          {"offset", range.offset},        {"bytes", range.bytes},
          {"alignment", range.alignment},  {"digest", range.digest}};
}

ordered_json to_json(const WeightRecord& weight) {
  // A default ordered_json is null, so a weight without ranges would have null instead of a list.
  auto ranges = ordered_json::array();
  for (const WeightRange& range : weight.ranges) ranges.push_back(to_json(range));
  return {{"name", weight.name},           {"role", enum_name(weight.role)},
          {"moe_layer", weight.moe_layer}, {"first_expert", weight.first_expert},
          {"digests", weight.digests},     {"ranges", std::move(ranges)}};
}

ordered_json to_json(const EmittedFile& file) {
  return {
      {"path", file.path}, {"bytes", file.bytes}, {"digest", file.digest}, {"sha256", file.sha256}};
}

Status read_file_fields(JsonFields& fields, EmittedFile& file) {
  MOEC_TRY(fields.text("path", file.path));
  MOEC_TRY(fields.whole("bytes", file.bytes));
  MOEC_TRY(fields.text("digest", file.digest));
  return fields.text("sha256", file.sha256);
}

Status read_graph(JsonFields& fields, EmittedGraph& graph) {
  MOEC_TRY(fields.whole("tokens", graph.tokens));
  MOEC_TRY(read_file_fields(fields, graph.file));
  MOEC_TRY(fields.text("function", graph.function));
  return fields.has("top_k") ? fields.text("top_k", graph.top_k) : Status();
}

Status read_tensor(JsonFields& fields, EmittedTensor& tensor) {
  MOEC_TRY(fields.text("tensor", tensor.name));
  MOEC_TRY(fields.whole("overflows", tensor.overflows));
  return fields.whole("nonfinite", tensor.nonfinite);
}

// Reads each object of a list into a new element of `out`.
template <class T>
Status read_list(JsonFields& fields, std::string_view name, std::vector<T>& out,
                 Status (*read)(JsonFields&, T&)) {
  return fields.each(name, [&](JsonFields& item) { return read(item, out.emplace_back()); });
}

Status read_range(JsonFields& fields, WeightRange& range) {
  MOEC_TRY(fields.choice("part", range.part));
  MOEC_TRY(fields.whole("data", range.data));
  MOEC_TRY(fields.whole("offset", range.offset));
  MOEC_TRY(fields.whole("bytes", range.bytes));
  MOEC_TRY(fields.whole("alignment", range.alignment));
  return fields.text("digest", range.digest);
}

Status read_record(JsonFields& fields, WeightRecord& record) {
  MOEC_TRY(fields.text("name", record.name));
  MOEC_TRY(fields.choice("role", record.role));
  MOEC_TRY(fields.whole("moe_layer", record.moe_layer));
  MOEC_TRY(fields.whole("first_expert", record.first_expert));
  MOEC_TRY(read_list(fields, "ranges", record.ranges, read_range));
  return fields.text("digests", record.digests);
}

Result<std::set<std::string>> read_names(JsonFields fields) {
  std::vector<std::string> names;
  MOEC_TRY(fields.texts("names", names));
  return std::set<std::string>(names.begin(), names.end());
}

Result<JournalPart> read_part(JsonFields fields) {
  JournalPart part;
  EmitReport& emitted = part.emitted;
  MOEC_TRY(fields.text("name", part.name));
  MOEC_TRY(read_list(fields, "graphs", emitted.graphs, read_graph));
  MOEC_TRY(read_list(fields, "data", emitted.data, read_file_fields));
  MOEC_TRY(read_list(fields, "nonfinite", emitted.tensors, read_tensor));
  MOEC_TRY(read_list(fields, "weights", emitted.weights, read_record));
  MOEC_TRY(fields.whole("weight_bytes", emitted.weight_bytes));
  return part;
}

Result<ExportInputs> read_inputs(JsonFields fields) {
  ExportInputs inputs;
  for (const JsonMember& member : fields.members())
    MOEC_TRY(fields.text(member.key, inputs[member.key]));
  return inputs;
}

Result<FinishedTarget> read_finished(JsonFields fields) {
  FinishedTarget target;
  MOEC_TRY(fields.text("folder", target.folder));
  MOEC_TRY(fields.text("manifest", target.manifest));
  MOEC_TRY(fields.text("journal", target.journal));
  return target;
}

// A line of a journal, which may contain the whole journal of another target. A line that is torn,
// or that journal_line() would not write, is damaged: it has no members and produces no message.
class Line {
 public:
  Line(std::string_view text, const std::string& file)
      : report_(text, file, JsonCodes::all_as("export.journal", {})) {
    // The seal is checked before the text is parsed, so the parser never reads a damaged line.
    if (!is_sealed(text)) return;
    if (auto parsed = report_.parse({.bytes = text.size()})) value_ = std::move(*parsed);
  }

  bool is_whole() const { return !value_.is_null(); }

  // Returns the member `key` if `read` succeeds, otherwise nullopt.
  template <class Read>
  auto member(const char* key, Read read) const
      -> std::optional<typename std::invoke_result_t<Read, JsonFields>::value_type> {
    // Lines of other kinds lack the member: read_lines() queries all members of each line.
    const JsonValue* value = value_.find(key);
    if (!value) return std::nullopt;
    auto result = JsonFields::of(report_, *value, key).and_then(read);
    // The line is intact, but this version writes the member in another form.
    if (!result) return std::nullopt;
    return std::move(*result);
  }

 private:
  JsonReport report_;
  JsonValue value_;
};

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Adds all lines except the inputs; skips damaged ones. Returns the number of undamaged lines.
size_t read_lines(std::string_view text, const std::string& file, JournalText& journal) {
  size_t whole = 0;
  while (!text.empty()) {
    const Line line(take_line(text), file);
    if (line.is_whole()) ++whole;
    if (auto names = line.member("files", read_names)) journal.names.merge(*names);
    if (auto part = line.member("part", read_part)) journal.parts.push_back(std::move(*part));
    if (auto target = line.member("finished", read_finished))
      journal.finished.push_back(std::move(*target));
  }
  return whole;
}

}  // namespace

std::string seal_line(std::string_view object) {
  return fmt::format("{}{}{}\"}}\n", object, kDigestKey, digest_of(object));
}

std::string journal_line(const ExportInputs& inputs) {
  auto object = ordered_json::object();
  for (const auto& [name, value] : inputs) object[name] = value;
  return line_of("export", object);
}

std::string journal_line(const std::set<std::string>& names) {
  return line_of("files", {{"names", names}});
}

std::string journal_line(const JournalPart& part) {
  auto graphs = ordered_json::array(), data = ordered_json::array(),
       nonfinite = ordered_json::array(), weights = ordered_json::array();
  for (const EmittedGraph& graph : part.emitted.graphs) {
    ordered_json entry = {{"tokens", graph.tokens}};
    entry.update(to_json(graph.file));
    entry["function"] = graph.function;
    // read_graph() accepts a missing field, so only exports with several values of k have it.
    if (!graph.top_k.empty()) entry["top_k"] = graph.top_k;
    graphs.push_back(std::move(entry));
  }
  for (const EmittedFile& file : part.emitted.data) data.push_back(to_json(file));
  // A resumed export does not need the other tensors, and a model has thousands of them.
  for (const EmittedTensor& tensor : part.emitted.tensors)
    if (tensor.overflows > 0 || tensor.nonfinite > 0)
      nonfinite.push_back({{"tensor", tensor.name},
                           {"overflows", tensor.overflows},
                           {"nonfinite", tensor.nonfinite}});
  for (const WeightRecord& weight : part.emitted.weights) weights.push_back(to_json(weight));
  return line_of("part", {{"name", part.name},
                          {"graphs", std::move(graphs)},
                          {"data", std::move(data)},
                          {"weights", std::move(weights)},
                          {"weight_bytes", part.emitted.weight_bytes},
                          {"nonfinite", std::move(nonfinite)}});
}

std::string journal_line(const FinishedTarget& target) {
  return line_of(
      "finished",
      {{"folder", target.folder}, {"manifest", target.manifest}, {"journal", target.journal}});
}

std::string journal_text(const JournalText& journal) {
  std::string lines = journal_line(journal.inputs);
  if (!journal.names.empty()) lines += journal_line(journal.names);
  for (const JournalPart& part : journal.parts) lines += journal_line(part);
  for (const FinishedTarget& target : journal.finished) lines += journal_line(target);
  return lines;
}

Result<JournalText> parse_journal(std::string_view text, const std::string& file) {
  JournalText journal;
  // The inputs determine whether the parts belong to this export. So the first line must be intact.
  auto inputs = Line(take_line(text), file).member("export", read_inputs);
  if (!inputs)
    return fail("export.journal",
                "the first line of the journal, with the inputs of the export, is damaged",
                "start over with --force", {.file = file});
  journal.inputs = std::move(*inputs);
  read_lines(text, file, journal);
  return journal;
}

std::vector<EmittedFile> files_of(const EmitReport& emitted) {
  std::vector<EmittedFile> files = emitted.data;
  for (const EmittedGraph& graph : emitted.graphs) files.push_back(graph.file);
  return files;
}

std::map<std::string, std::string, std::less<>> files_of_journal(std::string_view text,
                                                                 const std::string& file) {
  JournalText journal;
  // A file without a sealed line is not a journal of moec. It must not make other files removable.
  if (read_lines(text, file, journal) == 0) return {};
  std::map<std::string, std::string, std::less<>> files = {{kJournalFile, ""}};
  // The later entry of a part applies, as in Journal: the part was emitted again.
  for (const JournalPart& part : journal.parts)
    for (EmittedFile& emitted : files_of(part.emitted))
      files.insert_or_assign(std::move(emitted.path), std::move(emitted.digest));
  // emplace() keeps a known digest; names of incomplete parts get an empty digest.
  for (const std::string& name : journal.names) files.emplace(name, "");
  // The digests do not protect against a crafted journal, and --force removes these paths.
  std::erase_if(files, [](const auto& entry) { return !is_below(entry.first); });
  return files;
}

}  // namespace moec
