#include "ir/base/json_fields.h"

#include "ir/base/nearest.h"

namespace moec {

JsonCodes JsonCodes::by_prefix(const std::string& prefix, std::string next_step) {
  return {prefix + ".syntax",        prefix + ".duplicate_key", prefix + ".missing_field",
          prefix + ".unknown_field", prefix + ".bad_value",     std::move(next_step)};
}

JsonCodes JsonCodes::all_as(const std::string& code, std::string next_step) {
  return {code, code, code, code, code, std::move(next_step)};
}

// ---- report ------------------------------------------------------------------------------------

Diagnostics JsonReport::renamed(Diagnostics errors) const {
  for (Diagnostic& error : errors) {
    // A visitor can report errors with other codes, which are kept.
    if (!error.code.starts_with("json.")) continue;
    const bool twice = error.code == "json.duplicate_key";
    error.code = twice ? codes_.duplicate_key : codes_.syntax;
    error.next_step = codes_.next_step;
  }
  return errors;
}

Result<JsonValue> JsonReport::parse(const JsonLimits& limits) const {
  return parse_json(text_, source_, limits).map_error([&](Diagnostics errors) {
    return renamed(std::move(errors));
  });
}

Status JsonReport::parse_members(const JsonLimits& limits, const JsonVisitor& visit) const {
  return parse_json_members(text_, source_, limits, visit).map_error([&](Diagnostics errors) {
    return renamed(std::move(errors));
  });
}

tl::unexpected<Diagnostics> JsonReport::fail_at(const JsonValue& at, std::string code,
                                                std::string cause) const {
  return fail(std::move(code), std::move(cause), codes_.next_step,
              json_place(text_, source_, at.offset));
}

// ---- fields ------------------------------------------------------------------------------------

Result<JsonFields> JsonFields::of(const JsonReport& report, const JsonValue& value,
                                  std::string where) {
  if (value.object() != nullptr) return JsonFields(report, value, std::move(where));
  // The outermost value has no path, so the message names the file instead.
  return report.fail_at(value, report.codes().bad_value,
                        fmt::format("{} is {}, must be an object",
                                    where.empty() ? "the file's value" : where, kind_name(value)));
}

std::string JsonFields::path_to(std::string_view name) const {
  return where_.empty() ? std::string(name) : fmt::format("{}.{}", where_, name);
}

// The message has the full path, because objects in a list have the same field names.
tl::unexpected<Diagnostics> JsonFields::fail_field(const std::string& code, std::string_view name,
                                                   std::string_view what,
                                                   const JsonValue& at) const {
  return report_->fail_at(at, code, fmt::format("field \"{}\" {}", path_to(name), what));
}

tl::unexpected<Diagnostics> JsonFields::bad(std::string_view name, std::string_view what) const {
  const JsonValue* value = object_->find(name);
  // A missing field has no place, so the message points to the object.
  return fail_field(report_->codes().bad_value, name, what, value == nullptr ? *object_ : *value);
}

Result<const JsonValue*> JsonFields::value(std::string_view name) {
  // Keeps a view of the name, so the name must outlive this object.
  known_.push_back(name);
  if (const JsonValue* value = object_->find(name)) return value;
  return fail_field(report_->codes().missing_field, name, "is missing", *object_);
}

Status JsonFields::text(std::string_view name, std::string& out) {
  MOEC_ASSIGN(const JsonValue* found, value(name));
  if (found->string() == nullptr) return bad(name, "must be a string");
  out = *found->string();
  return {};
}

Status JsonFields::boolean(std::string_view name, bool& out) {
  MOEC_ASSIGN(const JsonValue* found, value(name));
  if (found->boolean() == nullptr) return bad(name, "must be true or false");
  out = *found->boolean();
  return {};
}

Status JsonFields::check_range(std::string_view name, int64_t value) const {
  if (value >= -kMaxInteger && value <= kMaxInteger) return {};
  return bad(name, fmt::format("is {}, must have a magnitude of at most {}", value, kMaxInteger));
}

Status JsonFields::integer(std::string_view name, int64_t& out) {
  MOEC_ASSIGN(const JsonValue* found, value(name));
  if (found->integer() == nullptr) return bad(name, "must be an integer");
  // Above kMaxInteger = 2^53, not every integer is a double. A JSON reader that stores doubles
  // would round such an integer.
  MOEC_TRY(check_range(name, *found->integer()));
  out = *found->integer();
  return {};
}

Status JsonFields::positive(std::string_view name, int64_t& out) {
  MOEC_TRY(integer(name, out));
  if (out <= 0) return bad(name, fmt::format("is {}, must be above 0", out));
  return {};
}

Status JsonFields::number(std::string_view name, double& out) {
  MOEC_ASSIGN(const JsonValue* found, value(name));
  const std::optional<double> number = found->number();
  if (!number) return bad(name, "must be a number");
  out = *number;
  return {};
}

Result<const JsonValue::Array*> JsonFields::list(std::string_view name, std::string_view wanted) {
  MOEC_ASSIGN(const JsonValue* found, value(name));
  if (found->array() == nullptr) return bad(name, fmt::format("must be {}", wanted));
  return found->array();
}

Status JsonFields::form(std::string_view format, int64_t version) {
  std::string given;
  int64_t number = 0;
  MOEC_TRY(text("format", given));
  MOEC_TRY(positive("version", number));
  if (given != format) return bad("format", fmt::format("must be \"{}\"", format));
  if (number != version) return bad("version", fmt::format("must be {}", version));
  return {};
}

Status JsonFields::integers(std::string_view name, std::vector<int64_t>& out) {
  constexpr std::string_view kWanted = "a list of integers";
  MOEC_ASSIGN(const JsonValue::Array* items, list(name, kWanted));
  for (const JsonValue& item : *items) {
    if (item.integer() == nullptr) return bad(name, fmt::format("must be {}", kWanted));
    MOEC_TRY(check_range(name, *item.integer()));
    out.push_back(*item.integer());
  }
  return {};
}

Status JsonFields::numbers(std::string_view name, std::vector<double>& out) {
  constexpr std::string_view kWanted = "a list of numbers";
  MOEC_ASSIGN(const JsonValue::Array* items, list(name, kWanted));
  for (const JsonValue& item : *items) {
    const std::optional<double> number = item.number();
    if (!number) return bad(name, fmt::format("must be {}", kWanted));
    out.push_back(*number);
  }
  return {};
}

Status JsonFields::texts(std::string_view name, std::vector<std::string>& out) {
  constexpr std::string_view kWanted = "a list of strings, at least one";
  MOEC_ASSIGN(const JsonValue::Array* items, list(name, kWanted));
  for (const JsonValue& item : *items) {
    if (item.string() == nullptr) return bad(name, fmt::format("must be {}", kWanted));
    out.push_back(*item.string());
  }
  if (items->empty()) return bad(name, fmt::format("must be {}", kWanted));
  return {};
}

Result<JsonFields> JsonFields::object(std::string_view name) {
  MOEC_ASSIGN(const JsonValue* found, value(name));
  return of(*report_, *found, path_to(name));
}

Status JsonFields::finish() const {
  // Each accessor that reads a value registers its name in known_.
  for (const JsonMember& member : *object_->object())
    if (std::find(known_.begin(), known_.end(), member.key) == known_.end())
      return fail_field(report_->codes().unknown_field, printable(member.key, 80),
                        "is unknown" + did_you_mean(member.key, known_), member.value);
  return {};
}

}  // namespace moec
