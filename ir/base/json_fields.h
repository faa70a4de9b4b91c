// Typed access to the fields of JSON objects: the one reader of files with fixed fields (targets,
// manifests, journals, goldens, measured placements, calibrations). Each file brings its own error
// codes and next step; the checks, the words and the places (file, line, column) are shared.
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

// The codes of the errors in one kind of file, and what its reader should do about them.
struct JsonCodes {
  std::string syntax;         // the text is not JSON, or breaks a limit
  std::string duplicate_key;  // one object has a key twice
  std::string missing_field;
  std::string unknown_field;
  std::string bad_value;  // a value of another type, or out of range
  std::string next_step;

  // "target" gives target.syntax, target.duplicate_key, target.missing_field, …
  static JsonCodes by_prefix(const std::string& prefix, std::string next_step);
  // One code for everything.
  static JsonCodes all_as(const std::string& code, std::string next_step);
};

// A text and how errors in it are reported. Refers to the text, which must stay.
class JsonReport {
 public:
  JsonReport(std::string_view text, std::string file, JsonCodes codes)
      : text_(text), source_{.file = std::move(file)}, codes_(std::move(codes)) {}

  const JsonCodes& codes() const { return codes_; }
  const std::string& file() const { return source_.file; }
  // The whole text as one value. Errors: syntax, duplicate_key.
  Result<JsonValue> parse(const JsonLimits& limits = {}) const;
  // Member by member, as parse_json_members does; errors of `visit` keep their codes.
  Status parse_members(const JsonLimits& limits, const JsonVisitor& visit) const;
  // An error at a value.
  tl::unexpected<Diagnostics> fail_at(const JsonValue& at, std::string code,
                                      std::string cause) const;

 private:
  Diagnostics renamed(Diagnostics errors) const;

  std::string_view text_;
  JsonSource source_;
  JsonCodes codes_;
};

// The greatest integer up to which doubles, as other readers of JSON have them, hold each one: 2⁵³.
inline constexpr int64_t kMostInteger = int64_t{1} << 53;

// The fields of one object. Refers to the report and the value, which must stay, and to the names
// that it is asked for, which are literals. All errors name the field; those of the object itself
// stand behind its end.
class JsonFields {
 public:
  // `where` leads to the object, "shards[3].cost"; it is empty for the outermost one. Error
  // bad_value where the value is not an object.
  static Result<JsonFields> of(const JsonReport& report, const JsonValue& value,
                               std::string where = {});

  bool has(std::string_view name) const { return object_->find(name) != nullptr; }
  bool is_null(std::string_view name) const { return has(name) && object_->find(name)->is_null(); }
  // All of them, sorted by key.
  const JsonValue::Object& members() const { return *object_->object(); }
  const JsonReport& report() const { return *report_; }

  // The value of a field, whatever its type. From here on: error missing_field where there is none,
  // bad_value where it has another type.
  Result<const JsonValue*> value(std::string_view name);
  Status text(std::string_view name, std::string& out);
  Status boolean(std::string_view name, bool& out);
  // Integers, here and below, are at most kMostInteger away from 0, so that a few of them can be
  // added without a check.
  Status integer(std::string_view name, int64_t& out);
  // An integer that is not below 0 and fits into T.
  template <std::integral T>
  Status whole(std::string_view name, T& out);
  // An integer above 0.
  Status positive(std::string_view name, int64_t& out);
  // An integer or a fraction.
  Status number(std::string_view name, double& out);
  Status integers(std::string_view name, std::vector<int64_t>& out);
  // Integers or fractions.
  Status numbers(std::string_view name, std::vector<double>& out);
  // At least one string.
  Status texts(std::string_view name, std::vector<std::string>& out);
  // A list of names, of each of which `parse` makes an optional value.
  template <class Parse, class Take>
  Status named(std::string_view name, Parse parse, Take take);
  // The index of a string in a list of names.
  template <class Names>
  Result<size_t> one_of(std::string_view name, const Names& names);
  // A name of an enum that has enum_names().
  template <class E>
  Status choice(std::string_view name, E& out);

  // The fields "format" and "version", by which a file says what it is and how it is read: exactly
  // these.
  Status form(std::string_view format, int64_t version);

  Result<JsonFields> object(std::string_view name);
  // read(JsonFields&) → Status for each object of a list.
  template <class Read>
  Status each(std::string_view name, Read read);

  // Error unknown_field for the first field that was not asked for, with the nearest that was.
  Status finish() const;
  // Error bad_value: `field "name" what`.
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
