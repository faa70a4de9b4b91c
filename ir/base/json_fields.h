// Typed access to the fields of JSON objects, for all files with a fixed set of fields: targets,
// manifests, journals, goldens, measured placements, calibrations. Each kind of file defines its
// error codes and next step; checks, wording and places (file, line, column) are shared.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/json.h"

namespace moec {

// Error codes and next step for one kind of file.
struct JsonCodes {
  std::string syntax;         // the text is not JSON, or exceeds a limit
  std::string duplicate_key;  // a key occurs twice in one object
  std::string missing_field;
  std::string unknown_field;
  std::string bad_value;  // a value of the wrong type, or out of range
  std::string next_step;

  // The prefix "target" yields target.syntax, target.duplicate_key, target.missing_field, …
  static JsonCodes by_prefix(const std::string& prefix, std::string next_step);
  // Uses `code` for every error.
  static JsonCodes all_as(const std::string& code, std::string next_step);
};

// A JSON text and its error codes. Borrows the text, which must outlive the report.
class JsonReport {
 public:
  JsonReport(std::string_view text, std::string file, JsonCodes codes)
      : text_(text), source_{.file = std::move(file)}, codes_(std::move(codes)) {}

  const JsonCodes& codes() const { return codes_; }
  const std::string& file() const { return source_.file; }
  // Parses the whole text as one value. Errors: syntax, duplicate_key.
  Result<JsonValue> parse(const JsonLimits& limits = {}) const;
  // Parses member by member, as parse_json_members() does. Errors of `visit` keep their codes.
  Status parse_members(const JsonLimits& limits, const JsonVisitor& visit) const;
  // Returns an error at the place of the value `at`.
  tl::unexpected<Diagnostics> fail_at(const JsonValue& at, std::string code,
                                      std::string cause) const;

 private:
  Diagnostics renamed(Diagnostics errors) const;

  std::string_view text_;
  JsonSource source_;
  JsonCodes codes_;
};

// 2⁵³: doubles, which other JSON readers use, represent every integer up to this value exactly.
inline constexpr int64_t kMaxInteger = int64_t{1} << 53;

// The fields of one object. Borrows the report and the value, which must outlive the fields, and
// the requested names, which must be string literals. Each error names the field that it concerns.
// Errors about the object itself are placed at the object's end.
class JsonFields {
 public:
  // `where` is the path to the object, such as "shards[3].cost"; empty for the outermost object.
  // Error bad_value: the value is not an object.
  static Result<JsonFields> of(const JsonReport& report, const JsonValue& value,
                               std::string where = {});

  bool has(std::string_view name) const { return object_->find(name) != nullptr; }
  bool is_null(std::string_view name) const { return has(name) && object_->find(name)->is_null(); }
  // All fields, sorted by key.
  const JsonValue::Object& members() const { return *object_->object(); }
  const JsonReport& report() const { return *report_; }

  // Returns the value of a field of any type. This and the following functions fail with
  // missing_field if the field is absent, and with bad_value if it has another type.
  Result<const JsonValue*> value(std::string_view name);
  Status text(std::string_view name, std::string& out);
  Status boolean(std::string_view name, bool& out);
  // Integers, here and below, have a magnitude of at most kMaxInteger, so that the sum of a few
  // integers cannot overflow.
  Status integer(std::string_view name, int64_t& out);
  // A non-negative integer that fits into T.
  template <std::integral T>
  Status whole(std::string_view name, T& out);
  // A positive integer.
  Status positive(std::string_view name, int64_t& out);
  // An integer or a floating-point number.
  Status number(std::string_view name, double& out);
  Status integers(std::string_view name, std::vector<int64_t>& out);
  // A list of integers or floating-point numbers.
  Status numbers(std::string_view name, std::vector<double>& out);
  // At least one string.
  Status texts(std::string_view name, std::vector<std::string>& out);
  // A list of at least one name. Calls take(value) with the parsed value of each name; `parse`
  // returns an empty optional for an unknown name.
  template <class Parse, class Take>
  Status named(std::string_view name, Parse parse, Take take);
  // Returns the index in `names` of the field's string.
  template <class Names>
  Result<size_t> one_of(std::string_view name, const Names& names);
  // The name of an enumerator; E must have enum_names().
  template <class E>
  Status choice(std::string_view name, E& out);

  // Checks that the fields "format" and "version" of a file equal `format` and `version`.
  Status form(std::string_view format, int64_t version);

  Result<JsonFields> object(std::string_view name);
  // read(JsonFields&) → Status for each object of a list.
  template <class Read>
  Status each(std::string_view name, Read read);

  // Checks that every field was requested. Error unknown_field for the first that was not; suggests
  // the nearest requested name.
  Status finish() const;
  // Returns error bad_value: `field "name" what`.
  tl::unexpected<Diagnostics> bad(std::string_view name, std::string_view what) const;

 private:
  JsonFields(const JsonReport& report, const JsonValue& object, std::string where)
      : report_(&report), object_(&object), where_(std::move(where)) {}

  tl::unexpected<Diagnostics> fail_field(const std::string& code, std::string_view name,
                                         std::string_view what, const JsonValue& at) const;
  Status check_range(std::string_view name, int64_t value) const;
  std::string path_to(std::string_view name) const;
  Result<const JsonValue::Array*> list(std::string_view name, std::string_view wanted);

  const JsonReport* report_;
  const JsonValue* object_;
  std::string where_;
  std::vector<std::string_view> known_;
};

template <std::integral T>
Status JsonFields::whole(std::string_view name, T& out) {
  int64_t value = 0;
  MOEC_TRY(integer(name, value));
  if (!std::in_range<T>(value) || value < 0)
    return bad(name, fmt::format("is {}, must be an integer from 0 to {}", value,
                                 std::numeric_limits<T>::max()));
  out = static_cast<T>(value);
  return {};
}

template <class Parse, class Take>
Status JsonFields::named(std::string_view name, Parse parse, Take take) {
  std::vector<std::string> names;
  MOEC_TRY(texts(name, names));
  for (const std::string& item : names) {
    auto value = parse(item);
    if (!value) return bad(name, fmt::format("has the unknown name \"{}\"", printable(item, 60)));
    take(*std::move(value));
  }
  return {};
}

template <class Names>
Result<size_t> JsonFields::one_of(std::string_view name, const Names& names) {
  std::string given;
  MOEC_TRY(text(name, given));
  const auto found = std::find(names.begin(), names.end(), given);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  return bad(name, fmt::format("is \"{}\", must be one of {}", printable(given, 60),
                               fmt::join(names, ", ")));
}

template <class E>
Status JsonFields::choice(std::string_view name, E& out) {
  MOEC_ASSIGN(const size_t index, one_of(name, enum_names(E{})));
  out = static_cast<E>(index);
  return {};
}

template <class Read>
Status JsonFields::each(std::string_view name, Read read) {
  MOEC_ASSIGN(const JsonValue::Array* items, list(name, "a list of objects"));
  for (size_t i = 0; i < items->size(); ++i) {
    MOEC_ASSIGN(JsonFields fields,
                of(*report_, (*items)[i], fmt::format("{}[{}]", path_to(name), i)));
    MOEC_TRY(read(fields));
  }
  return {};
}

}  // namespace moec
