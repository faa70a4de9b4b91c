// The only JSON reader; safe for untrusted files. It is strict: duplicate keys, numbers that do not
// fit, deep nesting, too many values, NUL bytes and anything after the value are errors. Allocation
// sizes never depend on a number in the text. json_fields.h reads the typed fields of objects.
// nlohmann-json does the lexing; its types are not visible outside json.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct JsonMember;

// A value and the offset of its end in the text. Members of objects are sorted by key.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;
  using Data = std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object>;

  Data data;
  uint64_t offset = 0;  // end of the value, in bytes from the start of the text

  bool is_null() const { return std::holds_alternative<std::monostate>(data); }
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data); }
  const std::string* string() const { return std::get_if<std::string>(&data); }
  const Array* array() const { return std::get_if<Array>(&data); }
  const Object* object() const { return std::get_if<Object>(&data); }
  // Returns the value of an integer or a floating-point number; empty for other types.
  std::optional<double> number() const;
  // Returns the value of the member, or null if this is not an object or lacks the key.
  const JsonValue* find(std::string_view key) const;

  // Compares values and ignores offsets.
  bool operator==(const JsonValue& other) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
  bool operator==(const JsonMember&) const = default;
};

inline bool JsonValue::operator==(const JsonValue& other) const { return data == other.data; }

// "null", "a boolean", "an integer", …: for messages.
std::string_view kind_name(const JsonValue& value);
// Returns the value as one line of JSON for messages, truncated with "…" after about `limit` bytes.
std::string to_string(const JsonValue& value, size_t limit = 120);

struct JsonLimits {
  size_t bytes = 16 << 20;
  size_t depth = 32;        // nested arrays and objects
  size_t values = 1 << 20;  // per document; with parse_json_members per member
  // Reads integers beyond 64 bits as doubles. transformers writes model_max_length 10^30 into
  // tokenizer_config.json if a model has no maximum.
  bool long_integers = false;
};

// The origin of a text, for diagnostics. Places have a file and an offset, and a line and column
// unless the text is part of a binary file.
struct JsonSource {
  std::string file;
  uint64_t first_offset = 0;  // of the text in the file
  bool has_lines = true;
};

// Parses one value, which must be the whole text. Errors: json.too_long, json.syntax,
// json.duplicate_key, json.depth, json.values, json.number (an integer that does not fit into 64
// bits, unless JsonLimits::long_integers).
Result<JsonValue> parse_json(std::string_view text, const JsonSource& source,
                             const JsonLimits& limits = {});

// Parses a text that must be a single object (error json.not_object). Calls `visit` for each member
// in text order, so that the whole object is never in memory. Stops at the first error of `visit`.
using JsonVisitor = std::function<Status(const std::string& key, const JsonValue& value)>;
Status parse_json_members(std::string_view text, const JsonSource& source, const JsonLimits& limits,
                          const JsonVisitor& visit);

// Makes text from a file safe for a message: replaces control characters and truncates it to
// `limit` bytes.
std::string printable(std::string_view text, size_t limit = 200);

// Returns the place of the byte at `offset` in the text.
Place json_place(std::string_view text, const JsonSource& source, uint64_t offset);

}  // namespace moec
