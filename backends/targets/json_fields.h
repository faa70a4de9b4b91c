// Strict reading of the JSON of targets: every field is asked for, every key stands once.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/ops.h"

namespace moec {

// Errors target.syntax (with line and column) and target.duplicate_key.
Result<nlohmann::json> parse_target_json(std::string_view text);

tl::unexpected<Diagnostics> fail_field(std::string code, const std::string& where,
                                       std::string_view field, std::string_view what);

// The fields of one JSON object, each of which must be asked for.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  Status text(std::string_view name, std::string& out) {
    MOEC_ASSIGN(const nlohmann::json* value, get(name));
    if (!value->is_string()) return bad(name, "must be a string");
    out = value->get<std::string>();
    return {};
  }

  Status boolean(std::string_view name, bool& out) {
    MOEC_ASSIGN(const nlohmann::json* value, get(name));
    if (!value->is_boolean()) return bad(name, "must be true or false");
    out = value->get<bool>();
    return {};
  }

  // A whole number, not below 0.
  Status whole(std::string_view name, int64_t& out) {
    MOEC_ASSIGN(const nlohmann::json* value, get(name));
    if (!value->is_number_integer() || value->get<int64_t>() < 0)
      return bad(name, "must be a whole number, not below 0");
    out = value->get<int64_t>();
    return {};
  }

  Status positive(std::string_view name, int64_t& out) {
    MOEC_TRY(whole(name, out));
    if (out == 0) return bad(name, "must be above 0");
    return {};
  }

  Status texts(std::string_view name, std::vector<std::string>& out) {
    MOEC_ASSIGN(const nlohmann::json* value, get(name));
    if (!value->is_array() || value->empty()) return bad(name, "must be a list of strings");
    for (const nlohmann::json& item : *value) {
      if (!item.is_string()) return bad(name, "must be a list of strings");
      out.push_back(item.get<std::string>());
    }
    return {};
  }

  // A list of names, each of which `parse` gives an optional value for.
  template <class Parse, class Take>
  Status named(std::string_view name, Parse parse, Take take) {
    std::vector<std::string> names;
    MOEC_TRY(texts(name, names));
    for (const std::string& item : names) {
      auto value = parse(item);
      if (!value) return bad(name, fmt::format("names unknown \"{}\"", item));
      take(*std::move(value));
    }
    return {};
  }

  template <class Names>
  Result<size_t> one_of(std::string_view name, const Names& names) {
    std::string given;
    MOEC_TRY(text(name, given));
    const auto found = std::find(names.begin(), names.end(), given);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    return bad(name, fmt::format("is \"{}\", must be one of {}", given, fmt::join(names, ", ")));
  }

  template <class E>
  Status choice(std::string_view name, E& out) {
    MOEC_ASSIGN(const size_t index, one_of(name, enum_names(E{})));
    out = static_cast<E>(index);
    return {};
  }

  bool has(std::string_view name) const { return object_.contains(name); }

  Status finish() const {
    for (const auto& [name, value] : object_.items())
      if (!known_.count(name))
        return fail_field("target.unknown_field", where_, name, "is unknown");
    return {};
  }

  tl::unexpected<Diagnostics> bad(std::string_view name, std::string_view what) const {
    return fail_field("target.bad_value", where_, name, what);
  }

 private:
  Result<const nlohmann::json*> get(std::string_view name) {
    known_.emplace(name);
    const auto found = object_.find(name);
    if (found == object_.end())
      return fail_field("target.missing_field", where_, name, "is missing");
    return &*found;
  }

  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace moec
