#include "frontends/sources/gguf/gguf_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "frontends/sources/gguf/gguf_rope.h"
#include "ir/base/bounded_diagnostics.h"

namespace moec {
namespace {

using Names = std::set<std::string, std::less<>>;

// Returns the keys, without "ARCH.", that determine the family and its config.
Names keys_of_model(const GgufArchitecture& architecture) {
  // vocabulary_size() reads this key for every architecture.
  Names names = {"vocab_size"};
  for (const GgufFamily& family : architecture.families) {
    for (const auto& [key, value] : family.when) names.insert(key);
    for (const auto& [key, values] : family.only) names.insert(key);
  }
  for (const auto& [name, item] : architecture.concepts)
    for (const GgufExpression& from : item.from) names.insert({from.left, from.right});
  for (const auto& [key, terms] : architecture.writing.keys) names.insert(key);
  return names;
}

class KeyChecker {
 public:
  explicit KeyChecker(const GgufModel& model)
      : model_(model), values_(model.file.values), known_(keys_of_model(model.architecture)) {}

  Result<Diagnostics> run() {
    const std::string prefix = model_.key("");
    // Except for general.architecture, keys with other prefixes do not affect the arithmetic.
    for (const auto& [key, value] : values_.keys())
      if (key.starts_with(prefix)) check(key, key.substr(prefix.size()));
    if (errors_.count() > 0) return fail(errors_.take());
    return std::move(warnings_);
  }

 private:
  void check(const std::string& key, const std::string& name) {
    if (known_.contains(name) || reads_rope_key(model_, name)) return;
    const auto found = model_.architecture.keys.find(name);
    if (found == model_.architecture.keys.end()) return refuse_unknown(key);
    const GgufKeyRule& rule = found->second;
    if (!rule.only.empty()) check_values(key, rule.only);
    if (!rule.same_as.empty()) check_same(key, model_.key(rule.same_as));
    if (rule.unread) warn_of_unread(key, *rule.unread);
  }

  void refuse(std::string code, std::string cause, std::string next) {
    errors_.add({Severity::error,
                 std::move(code),
                 std::move(cause),
                 std::move(next),
                 {.file = values_.file()}});
  }

  void refuse_unknown(const std::string& key) {
    refuse("gguf.unknown_key",
           fmt::format("unknown key \"{}\" of this architecture, on which the model may depend",
                       printable(key, 80)),
           "use the Hugging Face checkpoint of the model, or remove the key from the file if "
           "llama.cpp does not read it");
  }

  // Returns a value as text for a message.
  std::string said(const std::string& key) const {
    const GgufValue& value = values_.keys().find(key)->second;
    const auto number = values_.as_number(value);
    return number ? fmt::format("{}", *number) : to_string(value);
  }

  // `accepted` has numbers only; booleans are compared as 0 and 1.
  void check_values(const std::string& key, const std::vector<double>& accepted) {
    const auto found = values_.as_number(values_.keys().find(key)->second);
    if (found && std::count(accepted.begin(), accepted.end(), *found) > 0) return;
    refuse(
        "gguf.value",
        fmt::format("{} is {}; only {} is supported", key, said(key), fmt::join(accepted, " or ")),
        "use the Hugging Face checkpoint of the model");
  }

  // An absent `other` key differs from every value, because its default is not known here.
  void check_same(const std::string& key, const std::string& other) {
    const auto found = values_.as_number(values_.keys().find(key)->second);
    const auto wanted =
        values_.has(other) ? values_.as_number(values_.keys().find(other)->second) : std::nullopt;
    if (found && found == wanted) return;
    refuse("gguf.value",
           fmt::format("{} is {}, but {} is {}; only equal values are supported", key, said(key),
                       other, values_.has(other) ? said(other) : "absent"),
           "use the Hugging Face checkpoint of the model");
  }

  void warn_of_unread(const std::string& key, double computed) {
    if (values_.as_number(values_.keys().find(key)->second) == computed) return;
    warnings_.push_back(
        {Severity::warning,
         "gguf.unread_key",
         fmt::format("{} is {}, which llama.cpp ignores: the model uses {}, as in llama.cpp", key,
                     said(key), computed),
         "compare the model with its Hugging Face checkpoint",
         {.file = values_.file()}});
  }

  const GgufModel& model_;
  const GgufValues& values_;
  Names known_;
  BoundedDiagnostics errors_;
  Diagnostics warnings_;
};

}  // namespace

Result<Diagnostics> check_keys(const GgufModel& model) { return KeyChecker(model).run(); }

}  // namespace moec
