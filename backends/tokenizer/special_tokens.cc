#include "backends/tokenizer/special_tokens.h"

#include <fmt/format.h>

#include <string>

namespace moec {
namespace {

// The ids of a special token of the template.
Result<std::vector<int64_t>> ids_of(JsonFields& fields, const std::string& name) {
  MOEC_ASSIGN(JsonFields tokens, fields.object("special_tokens"));
  if (!tokens.has(name))
    return fields.bad("special_tokens", fmt::format("lacks \"{}\"", printable(name, 60)));
  MOEC_ASSIGN(JsonFields token, tokens.object(name));
  std::vector<int64_t> ids;
  MOEC_TRY(token.integers("ids", ids));
  for (const int64_t id : ids)
    if (id < 0) return token.bad("ids", fmt::format("contains {}, but must not be negative", id));
  return ids;
}

// Reads one part of a template: {"Sequence": …} (the text) or {"SpecialToken": …}. `has_text` is
// true for parts after the text.
Status read_part(JsonFields& fields, JsonFields& part, SurroundingTokens& tokens, bool& has_text) {
  if (part.has("Sequence")) {
    if (has_text) return fields.bad("single", "contains the text twice");
    has_text = true;
    return {};
  }
  MOEC_ASSIGN(JsonFields special, part.object("SpecialToken"));
  std::string name;
  MOEC_TRY(special.text("id", name));
  MOEC_ASSIGN(const std::vector<int64_t> ids, ids_of(fields, name));
  auto& side = has_text ? tokens.behind : tokens.before;
  side.insert(side.end(), ids.begin(), ids.end());
  return {};
}

// Reads only "single". "pair" applies to two texts, which no caller encodes.
Result<SurroundingTokens> read_template(JsonFields& fields) {
  SurroundingTokens tokens;
  bool has_text = false;
  MOEC_TRY(fields.each(
      "single", [&](JsonFields& part) { return read_part(fields, part, tokens, has_text); }));
  if (!has_text) return fields.bad("single", "lacks the text");
  return tokens;
}

// Reads a token and its id: ["[SEP]", 102].
Status read_pair(JsonFields& fields, std::string_view name, std::vector<int64_t>& tokens) {
  MOEC_ASSIGN(const JsonValue* pair, fields.value(name));
  const auto* items = pair->array();
  if (!items || items->size() != 2 || !(*items)[1].integer())
    return fields.bad(name, "must be a token and its id");
  const int64_t id = *(*items)[1].integer();
  if (id < 0) return fields.bad(name, fmt::format("has id {}, which must not be negative", id));
  tokens.push_back(id);
  return {};
}

Result<SurroundingTokens> sequence_of_processors(JsonFields& fields) {
  MOEC_ASSIGN(const JsonValue* items, fields.value("processors"));
  if (!items->array()) return fields.bad("processors", "must be a list");
  SurroundingTokens all;
  for (const JsonValue& item : *items->array()) {
    MOEC_ASSIGN(const SurroundingTokens more, read_post_processor(fields.report(), item));
    all.before.insert(all.before.begin(), more.before.begin(), more.before.end());
    all.behind.insert(all.behind.end(), more.behind.begin(), more.behind.end());
  }
  return all;
}

}  // namespace

Result<SurroundingTokens> read_post_processor(const JsonReport& report, const JsonValue& value) {
  SurroundingTokens tokens;
  if (value.is_null()) return tokens;
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value, "post_processor"));
  std::string type;
  MOEC_TRY(fields.text("type", type));
  if (type == "ByteLevel") return tokens;  // affects offsets only
  if (type == "TemplateProcessing") return read_template(fields);
  if (type == "Sequence") return sequence_of_processors(fields);
  if (type != "BertProcessing" && type != "RobertaProcessing")
    return refuse_component(fields, "post-processor", type);
  // BertProcessing and RobertaProcessing add the same tokens for a single text.
  MOEC_TRY(read_pair(fields, "cls", tokens.before));
  MOEC_TRY(read_pair(fields, "sep", tokens.behind));
  return tokens;
}

}  // namespace moec
