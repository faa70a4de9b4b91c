#include "frontends/sources/hf/eos_tokens.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/hf/infinities.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kEosKey = "eos_token_id";

// Reads the ids from the text of one file.
class EosReader {
 public:
  EosReader(std::string path, int64_t vocab, Diagnostics& warnings)
      : path_(std::move(path)), vocab_(vocab), warnings_(warnings) {}

  // Absent if the key is absent or null.
  Result<std::optional<std::vector<int64_t>>> run(std::string_view text) {
    MOEC_ASSIGN(const JsonValue root, parse_json(with_infinities(text), {.file = path_}));
    const JsonValue* value = find(root);
    if (value == nullptr) return std::optional<std::vector<int64_t>>();
    take(*value);
    if (const JsonValue* first = odd_)
      warnings_.push_back({Severity::warning, "export.eos_token",
                           fmt::format("{} of the values of \"{}\", including {}, are outside the "
                                       "vocabulary of {} and ignored",
                                       odd_count_, kEosKey, to_string(*first, 40), vocab_),
                           "correct the config, or pass --stop-token ID to moec run",
                           json_place(text, {.file = path_}, first->offset)});
    return std::optional(std::vector<int64_t>(ids_.begin(), ids_.end()));
  }

 private:
  // Configs of multimodal models have the key either at the top level or inside the text model's
  // object.
  static const JsonValue* find(const JsonValue& root) {
    const JsonValue* text = root.find("text_config");
    for (const JsonValue* object : {&root, text})
      if (object != nullptr && object->object() != nullptr)
        if (const JsonValue* value = object->find(kEosKey); value != nullptr && !value->is_null())
          return value;
    return nullptr;
  }
  void take(const JsonValue& value) {
    if (value.array() == nullptr) return take_id(value);
    for (const JsonValue& item : *value.array()) take_id(item);
  }
  void take_id(const JsonValue& value) {
    const int64_t* id = value.integer();
    if (id != nullptr && *id >= 0 && *id < vocab_) {
      ids_.insert(*id);
      return;
    }
    if (odd_ == nullptr) odd_ = &value;
    ++odd_count_;
  }

  std::string path_;
  int64_t vocab_;
  Diagnostics& warnings_;
  std::set<int64_t> ids_;
  const JsonValue* odd_ = nullptr;  // first value that is not a valid id
  size_t odd_count_ = 0;
};

}  // namespace

Result<std::vector<int64_t>> read_eos_tokens(const std::string& config_path, int64_t vocab,
                                             Diagnostics& warnings) {
  // generation_config.json comes first, because generate() of transformers reads the end tokens
  // from it.
  const auto beside = std::filesystem::path(config_path).parent_path() / "generation_config.json";
  for (const std::string& path : {beside.string(), config_path}) {
    if (!file_exists(path)) continue;
    MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxConfigBytes));
    MOEC_ASSIGN(const auto ids, EosReader(path, vocab, warnings).run(text));
    // A key ends the search even if none of its ids is valid.
    if (ids) return *ids;
  }
  warnings.push_back({Severity::note,
                      "export.no_end",
                      "neither config.json nor generation_config.json has an end token, so texts "
                      "end only at the length limit",
                      "pass --stop-token ID to moec run",
                      {.file = config_path}});
  return std::vector<int64_t>();
}

Result<std::vector<int64_t>> eos_tokens_of(std::string_view text, const std::string& file,
                                           int64_t vocab, Diagnostics& warnings) {
  MOEC_ASSIGN(auto ids, EosReader(file, vocab, warnings).run(text));
  return std::move(ids).value_or(std::vector<int64_t>());
}

}  // namespace moec
