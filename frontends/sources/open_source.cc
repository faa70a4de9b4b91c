#include "frontends/sources/open_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/gguf_tokenizer_files.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/eos_tokens.h"
#include "ir/base/regular_file.h"
#include "models/published/published.h"
#include "models/shards/needed_tensors.h"

namespace moec {

// Returns a key that is equal for all parts of a model: "model of 00003" for
// "model-00002-of-00003.gguf". Returns the name of a file that is not a part.
static std::string name_of_model(const std::string& file) {
  static const std::regex part(R"((.+)-[0-9]{5}-of-([0-9]{5})\.gguf)");
  std::smatch found;
  return std::regex_match(file, found, part) ? found[1].str() + " of " + found[2].str() : file;
}

std::string source_in_folder(const std::string& source) {
  namespace fs = std::filesystem;
  std::error_code error;
  // A folder with a config.json is a checkpoint, even if it contains GGUF files as well.
  if (!fs::is_directory(source, error) || fs::exists(fs::path(source) / "config.json", error))
    return source;
  std::vector<std::string> files;
  for (fs::directory_iterator at(source, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".gguf") files.push_back(at->path().filename().string());
  // Sorted, so that the first file is the first part of a split model.
  std::sort(files.begin(), files.end());
  const bool is_one =
      !files.empty() && std::all_of(files.begin(), files.end(), [&](const auto& file) {
        return name_of_model(file) == name_of_model(files.front());
      });
  return is_one ? (fs::path(source) / files.front()).string() : source;
}

Status refuse_gguf(const std::string& source) {
  if (!names_gguf(source)) return {};
  return fail("gguf.family_file",
              "--family-file and --ignore-key apply to Hugging Face configs, not to GGUF files",
              "omit --family-file and --ignore-key, or use the Hugging Face checkpoint",
              {.file = source});
}

Result<std::optional<Family>> family_of(const FamilyOptions& options, std::string_view config,
                                        const std::string& file) {
  std::optional<Family> family;
  if (options.file) {
    MOEC_ASSIGN(family, read_family_file(*options.file));
  } else if (!options.ignored_keys.empty()) {
    // Keys are ignored in a copy of the built-in family, which other sources share.
    MOEC_ASSIGN(const std::string type, model_type_of(config, file));
    MOEC_ASSIGN(const Family* built_in, find_family(type));
    family = *built_in;
  }
  if (family) ignore_keys(options.ignored_keys, *family);
  return family;
}

static const Family* address_of(const std::optional<Family>& family) {
  return family ? &*family : nullptr;
}

static Result<std::optional<Family>> family_of_source(const FamilyOptions& options,
                                                      const std::string& source) {
  // Without ignored keys, the config does not matter; it may even be missing here.
  if (options.ignored_keys.empty()) return family_of(options, "", source);
  MOEC_ASSIGN(const std::string config, read_config_text(source));
  return family_of(options, config, config_path(source));
}

Result<Checkpoint> open_source(const std::string& source, const FamilyOptions& options,
                               TensorsEqual& same) {
  if (options.any()) MOEC_TRY(refuse_gguf(source));
  if (names_gguf(source)) return open_gguf(source);
  MOEC_ASSIGN(const std::optional<Family> family, family_of_source(options, source));
  return open_checkpoint(source, same, address_of(family));
}

static Checkpoint without_files(HfConfig config) {
  Checkpoint checkpoint;
  checkpoint.weights = declared_weights(config.model, DType::bf16);
  checkpoint.config = std::move(config.model);
  checkpoint.plan_only = config.family->plan_only;
  return checkpoint;
}

Result<Checkpoint> open_config_only(const std::string& source, const FamilyOptions& options) {
  if (options.any()) MOEC_TRY(refuse_gguf(source));
  if (names_gguf(source)) {
    MOEC_ASSIGN(const std::string text, gguf_config_text(source));
    MOEC_ASSIGN(HfConfig config, read_config(text, source));
    return without_files(std::move(config));
  }
  MOEC_ASSIGN(const std::optional<Family> family, family_of_source(options, source));
  return open_config(source, address_of(family)).map(without_files);
}

static bool has_weights(const std::string& source) {
  if (names_gguf(source)) return true;
  std::error_code error;
  for (const char* file : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(std::filesystem::path(source) / file, error)) return true;
  return false;
}

Result<Checkpoint> open_for_plan(const std::string& source, const FamilyOptions& options,
                                 TensorsEqual& same) {
  std::error_code error;
  if (has_weights(source)) return open_source(source, options, same);
  if (std::filesystem::exists(source, error)) return open_config_only(source, options);
  // A published name is searched only if no file or folder has the name.
  MOEC_ASSIGN(const PublishedModel* model, find_published(source));
  const std::string file = model->name + "/config.json";
  MOEC_ASSIGN(const std::optional<Family> family, family_of(options, model->config, file));
  MOEC_ASSIGN(HfConfig config, read_config(model->config, file, address_of(family)));
  return without_files(std::move(config));
}

Result<std::string> source_config_text(const std::string& source) {
  return names_gguf(source) ? gguf_config_text(source) : read_config_text(source);
}

static Result<Tokenizer> gguf_tokenizer(const GgufValues& values) {
  MOEC_ASSIGN(const std::string json, gguf_tokenizer_json(values));
  return Tokenizer::parse(json, values.file());
}

ModelTokenizer source_tokenizer(const std::string& source, int64_t vocab) {
  ModelTokenizer of_folder = ModelTokenizer::of_folder(source_folder(source), vocab);
  if (!names_gguf(source)) return of_folder;
  const Result<Gguf> file = read_gguf(source);
  // The folder of a GGUF file without a tokenizer may contain tokenizer files.
  if (file && !has_gguf_tokenizer(file->values)) return of_folder;
  // Parses on demand, because input as token ids needs no tokenizer.
  const auto open = [file]() -> Result<Tokenizer> {
    if (!file) return fail(file.error());
    return gguf_tokenizer(file->values);
  };
  return {open, vocab};
}

Result<CarriedSource> carried_source(const std::string& source) {
  CarriedSource carried{source_folder(source), {}};
  if (!names_gguf(source)) return carried;
  MOEC_ASSIGN(const Gguf file, read_gguf(source));
  if (!has_gguf_tokenizer(file.values)) return carried;
  // Read the header again for each generated file, because keeping it could use much memory.
  const auto make = [source](Result<std::string> (*text)(const GgufValues&)) {
    return [source, text]() -> Result<std::string> {
      MOEC_ASSIGN(const Gguf again, read_gguf(source));
      return text(again.values);
    };
  };
  carried.made = {{"tokenizer.json", make(gguf_tokenizer_json)},
                  {"tokenizer_config.json", make(gguf_tokenizer_config)}};
  return carried;
}

Result<std::vector<int64_t>> source_eos_tokens(const std::string& source, int64_t vocab,
                                               Diagnostics& warnings) {
  if (!names_gguf(source)) return read_eos_tokens(config_path(source), vocab, warnings);
  MOEC_ASSIGN(const std::string text, gguf_config_text(source));
  return eos_tokens_of(text, source, vocab, warnings);
}

}  // namespace moec
