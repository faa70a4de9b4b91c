#include "frontends/export/gguf/chat_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "frontends/sources/hf/checkpoint.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDefault = "default";
// Sorted by name, because a folder lists its files in an arbitrary order.
using Templates = std::map<std::string, std::string, std::less<>>;  // by name

std::string in(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

Result<Templates> templates_of_files(const std::string& folder) {
  Templates found;
  const std::string own = in(folder, "chat_template.jinja");
  if (file_exists(own)) {
    MOEC_ASSIGN(found[std::string(kDefault)], read_text_file(own, kMaxConfigBytes));
  }
  const std::string more = in(folder, "additional_chat_templates");
  std::error_code error;
  const fs::directory_iterator entries(more, error);
  // A missing folder is usual. Any other error could hide templates.
  if (error && error != std::errc::no_such_file_or_directory)
    return fail("gguf.chat_template", fmt::format("cannot read the folder: {}", error.message()),
                "make it readable, or remove it", {.file = more});
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() != ".jinja") continue;
    MOEC_ASSIGN(found[entry.path().stem().string()],
                read_text_file(entry.path().string(), kMaxConfigBytes));
  }
  return found;
}

tl::unexpected<Diagnostics> bad_template(const std::string& file) {
  return fail(
      "gguf.chat_template",
      "\"chat_template\" is neither a string nor a list of objects with the strings \"name\" and "
      "\"template\"",
      "correct it, or remove it to write no template", {.file = file});
}

Result<Templates> templates_of_value(const JsonValue& value, const std::string& file) {
  if (value.string()) return Templates{{std::string(kDefault), *value.string()}};
  if (!value.array()) return bad_template(file);
  Templates found;
  for (const JsonValue& item : *value.array()) {
    const JsonValue *name = item.find("name"), *text = item.find("template");
    if (!name || !name->string() || !text || !text->string()) return bad_template(file);
    found[*name->string()] = *text->string();
  }
  return found;
}

Result<Templates> all_templates(const std::string& folder, const JsonValue& tokenizer_config) {
  MOEC_ASSIGN(Templates found, templates_of_files(folder));
  // Template files replace those of tokenizer_config.json, as in transformers.
  if (!found.empty()) return found;
  const JsonValue* value = tokenizer_config.find("chat_template");
  if (value && !value->is_null())
    return templates_of_value(*value, in(folder, "tokenizer_config.json"));
  const std::string file = in(folder, "chat_template.json");
  if (!file_exists(file)) return found;
  MOEC_ASSIGN(const std::string text, read_text_file(file, kMaxConfigBytes));
  MOEC_ASSIGN(const JsonValue root, parse_json(text, {.file = file}));
  value = root.find("chat_template");
  return value ? templates_of_value(*value, file) : Result<Templates>(std::move(found));
}

// Replaces characters other than letters, digits and underscores, which keys do not allow.
std::string key_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) || c > 127; }, '_');
  return name;
}

}  // namespace

Result<std::vector<GgufEntry>> chat_template_keys(const std::string& folder,
                                                  const JsonValue& tokenizer_config) {
  MOEC_ASSIGN(const Templates templates, all_templates(folder, tokenizer_config));
  std::vector<GgufEntry> entries;
  std::vector<std::string> names;
  for (const auto& [name, text] : templates) {
    if (name == kDefault) {
      entries.push_back({"tokenizer.chat_template", text});
      continue;
    }
    names.push_back(key_name(name));
    // Replaced characters can make two names equal, and a GGUF file has each key once.
    if (std::count(names.begin(), names.end(), names.back()) > 1)
      return fail("gguf.chat_template",
                  fmt::format("two templates would have the key \"tokenizer.chat_template.{}\"",
                              names.back()),
                  "rename one of them", {.file = folder});
    entries.push_back({"tokenizer.chat_template." + names.back(), text});
  }
  if (!names.empty()) entries.push_back({"tokenizer.chat_templates", std::move(names)});
  return entries;
}

}  // namespace moec
