#include "frontends/export/gguf/gguf_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "frontends/export/gguf/chat_templates.h"
#include "frontends/sources/gguf/gguf_ends.h"
#include "frontends/sources/gguf/pre_tokenizer_names.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/hf/eos_tokens.h"
#include "ir/base/json.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMaxTokenizerText = 64u << 20;
// A merge may be a pair, which counts as three values. Large vocabularies can therefore exceed the
// default limit of 2^20 values.
constexpr JsonLimits kTokenizerLimits{.bytes = kMaxTokenizerText, .values = kMaxTokenizerText / 4};
constexpr const char* kWithout =
    "pass --tokenizer none to write files that accept token ids, not text";

// Values of tokenizer.ggml.token_type.
enum class TokenKind : int32_t { normal = 1, control = 3, user_defined = 4, unused = 5 };

// Byte 0xff, which no UTF-8 text contains, in the alphabet of byte-level BPE.
constexpr std::string_view kByteThatNoTextHas = "\u00ff";

class TokenizerReader {
 public:
  TokenizerReader(std::string folder, const ModelConfig& model, Diagnostics& notes)
      : folder_(std::move(folder)),
        model_(model),
        notes_(notes),
        tokens_(static_cast<size_t>(model.vocab)),
        // Ids without a token keep this kind. run() gives them distinct texts.
        kinds_(tokens_.size(), static_cast<int32_t>(TokenKind::unused)) {}

  Result<std::vector<GgufEntry>> run() {
    MOEC_TRY(read_tokenizer());
    MOEC_ASSIGN(const JsonValue said, read_object("tokenizer_config.json"));
    MOEC_ASSIGN(const JsonValue config, read_object("config.json"));
    MOEC_ASSIGN(const JsonValue generation, read_object("generation_config.json"));
    MOEC_ASSIGN(std::vector<GgufEntry> chat, chat_template_keys(folder_, said));
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (tokens_[id].empty()) tokens_[id] = fmt::format("[PAD{}]", id);
    // llama.cpp aborts on duplicate token texts.
    MOEC_TRY(check_unique());
    const auto first = special_id(said, generation, config, "bos_token");
    const auto last = special_id(said, generation, config, "eos_token");
    MOEC_ASSIGN(const std::vector<int64_t> ends, ends_beside(last ? last : silent_id_));
    const auto padding = special_id(said, generation, config, "pad_token");
    std::vector<GgufEntry> entries = {
        {"tokenizer.ggml.model", std::string("gpt2")},
        {"tokenizer.ggml.pre", pre_},
        {"tokenizer.ggml.tokens", std::move(tokens_)},
        {"tokenizer.ggml.token_type", std::move(kinds_)},
        // llama.cpp requires this key even if there are no merges.
        {"tokenizer.ggml.merges", std::move(merges_)},
        {"tokenizer.ggml.add_bos_token", adds(said, "add_bos_token", begins_with_special_)},
    };
    if (adds(said, "add_eos_token", ends_with_special_))
      entries.push_back({"tokenizer.ggml.add_eos_token", true});
    // Without an id, llama.cpp would use id 11. silent_id_ is an id that no text yields.
    add_id(entries, "bos", first ? first : silent_id_);
    add_id(entries, "eos", last ? last : silent_id_);
    if (!ends.empty()) add_id(entries, "eot", ends[0]);
    if (ends.size() > 1) add_id(entries, "eom", ends[1]);
    add_id(entries, "padding", padding);
    std::move(chat.begin(), chat.end(), std::back_inserter(entries));
    return entries;
  }

 private:
  std::string path_of(const std::string& name) const {
    return folder_.empty() ? name : folder_ + "/" + name;
  }

  tl::unexpected<Diagnostics> refuse(std::string cause) const {
    return fail("gguf.tokenizer", std::move(cause), kWithout, {.file = path_of("tokenizer.json")});
  }

  // ---- tokenizer.json --------------------------------------------------------------------------

  Status read_tokenizer() {
    MOEC_ASSIGN(const std::string text,
                read_text_file(path_of("tokenizer.json"), kMaxTokenizerText));
    const JsonReport report(text, path_of("tokenizer.json"),
                            JsonCodes::all_as("tokenizer.malformed", kWithout));
    JsonValue cut;
    MOEC_TRY(report.parse_members(kTokenizerLimits,
                                  [&](const std::string& key, const JsonValue& value) -> Status {
                                    if (key == "model") return take_model(value);
                                    if (key == "added_tokens") added_ = value;
                                    if (key == "pre_tokenizer") cut = value;
                                    if (key == "post_processor") take_template(value);
                                    return key == "normalizer" ? check_normalizer(value) : Status();
                                  }));
    // Runs after the whole file is read, because the kind of an added token takes precedence over
    // the kind of the same token in the vocabulary.
    MOEC_TRY(take_added());
    const auto name = pre_tokenizer_name(cut, model_.family, !merges_.empty());
    if (name) {
      pre_ = *name;
      return {};
    }
    return fail("gguf.pre_tokenizer",
                "the pre-tokenizer of the tokenizer has no name in GGUF files", kWithout,
                {.file = path_of("tokenizer.json")});
  }

  Status take_model(const JsonValue& model) {
    const JsonValue* type = model.find("type");
    const JsonValue* fallback = model.find("byte_fallback");
    // `byte_fallback` marks a BPE converted from SentencePiece, which is not byte-level.
    const bool is_sentencepiece = fallback && fallback->boolean() && *fallback->boolean();
    const JsonValue* vocabulary = model.find("vocab");
    if (!type || !type->string() || *type->string() != "BPE" || is_sentencepiece || !vocabulary ||
        !vocabulary->object())
      return refuse("the tokenizer is not byte-level BPE, the only kind that moec writes");
    for (const char* mark : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const JsonValue* text = model.find(mark);
          text && text->string() && !text->string()->empty())
        return refuse(
            fmt::format("the tokenizer's tokens have a {}, which GGUF files cannot express", mark));
    for (const JsonMember& member : *vocabulary->object())
      MOEC_TRY(take_token(member.key, member.value.integer(), TokenKind::normal));
    return take_merges(model.find("merges"));
  }

  Status take_token(const std::string& token, const int64_t* id, TokenKind kind) {
    if (id == nullptr || *id < 0 || *id >= std::ssize(tokens_))
      return refuse(fmt::format("the token \"{}\" has no id below the model's vocabulary size {}",
                                printable(token, 60), tokens_.size()));
    std::string& known = tokens_[static_cast<size_t>(*id)];
    // The same text may come from the vocabulary and from the added tokens.
    if (!known.empty() && known != token)
      return refuse(fmt::format("the tokens \"{}\" and \"{}\" have the same id {}",
                                printable(known, 60), printable(token, 60), *id));
    known = token;
    kinds_[static_cast<size_t>(*id)] = static_cast<int32_t>(kind);
    if (token == kByteThatNoTextHas) silent_id_ = *id;
    return {};
  }

  // A merge is "a b" or ["a", "b"]. Joining with a space is unambiguous, because the alphabet of
  // byte-level BPE represents a space by another character.
  Status take_merges(const JsonValue* merges) {
    if (merges == nullptr || !merges->array()) return {};
    merges_.reserve(merges->array()->size());
    for (const JsonValue& merge : *merges->array()) {
      const JsonValue::Array* parts = merge.array();
      if (merge.string() != nullptr)
        merges_.push_back(*merge.string());
      else if (parts && parts->size() == 2 && (*parts)[0].string() && (*parts)[1].string())
        merges_.push_back(*(*parts)[0].string() + " " + *(*parts)[1].string());
      else
        return refuse("a merge is not a pair of strings");
    }
    return {};
  }

  Status take_added() {
    if (!added_.array()) return {};
    for (const JsonValue& token : *added_.array()) {
      const JsonValue* text = token.find("content");
      const JsonValue* id = token.find("id");
      const JsonValue* special = token.find("special");
      const bool is_special = special && special->boolean() && *special->boolean();
      if (!text || !text->string() || !id) return refuse("an added token has no content or no id");
      MOEC_TRY(take_token(*text->string(), id->integer(),
                          is_special ? TokenKind::control : TokenKind::user_defined));
    }
    return {};
  }

  // Readers of GGUF files do not normalize text. NFC is accepted, because nearly every text is
  // already in that form.
  Status check_normalizer(const JsonValue& normalizer) const {
    if (normalizer.is_null()) return {};
    const JsonValue* steps = normalizer.find("normalizers");
    if (steps && steps->array() && steps->array()->empty()) return {};
    const JsonValue* type = normalizer.find("type");
    if (type && type->string() && *type->string() == "NFC") return {};
    return refuse("the tokenizer has a normalizer other than NFC");
  }

  // Reads the special tokens at both ends of the template for a single text.
  void take_template(const JsonValue& processor) {
    // A `Sequence` contains the other processors.
    if (const JsonValue* steps = processor.find("processors"); steps && steps->array())
      for (const JsonValue& step : *steps->array()) take_template(step);
    const JsonValue* single = processor.find("single");
    if (!single || !single->array() || single->array()->empty()) return;
    if (single->array()->front().find("SpecialToken")) begins_with_special_ = true;
    if (single->array()->back().find("SpecialToken")) ends_with_special_ = true;
  }

  Status check_unique() const {
    // Views suffice: tokens_ does not change while they exist.
    std::unordered_set<std::string_view> seen;
    for (const std::string& token : tokens_)
      if (!seen.insert(token).second)
        return refuse(fmt::format("the token \"{}\" has two ids", printable(token, 60)));
    return {};
  }

  // ---- Other files -----------------------------------------------------------------------------

  // Returns an empty object if the file is missing.
  Result<JsonValue> read_object(const std::string& name) const {
    const std::string path = path_of(name);
    if (!file_exists(path)) return JsonValue{JsonValue::Object()};
    MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxConfigBytes));
    return parse_json(text, {.file = path}, {.long_integers = true});
  }

  // Finds a special token by its text in tokenizer_config.json, otherwise by its id in another
  // file.
  std::optional<int64_t> special_id(const JsonValue& said, const JsonValue& generation,
                                    const JsonValue& config, const std::string& name) const {
    const JsonValue* token = said.find(name);
    // An object describes an added token; its content is the text.
    if (token && token->object()) token = token->find("content");
    if (token && token->string())
      for (size_t id = 0; id < tokens_.size(); ++id)
        if (tokens_[id] == *token->string()) return static_cast<int64_t>(id);
    for (const JsonValue* file : {&generation, &config}) {
      const JsonValue* id = file->find(name + "_id");
      // A config may list several end tokens; the first one becomes `eos`.
      if (id && id->array() && !id->array()->empty()) id = &id->array()->front();
      if (id && id->integer() && *id->integer() >= 0 && *id->integer() < std::ssize(tokens_))
        return *id->integer();
    }
    return std::nullopt;
  }

  static void add_id(std::vector<GgufEntry>& entries, std::string_view name,
                     std::optional<int64_t> id) {
    if (id)
      entries.push_back(
          {fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(*id)});
  }

  // Returns the end tokens of the checkpoint, except `eos` and those that llama.cpp recognizes by
  // their text. GGUF has keys for two further end tokens; warns if there are more.
  Result<std::vector<int64_t>> ends_beside(std::optional<int64_t> eos) {
    Diagnostics of_export;  // discarded: the export itself warns about ids without a token
    MOEC_ASSIGN(std::vector<int64_t> ends,
                read_eos_tokens(path_of("config.json"), model_.vocab, of_export));
    const std::vector<int64_t> known = ends_by_text(tokens_);
    std::erase_if(ends, [&](int64_t id) {
      return id == eos || std::binary_search(known.begin(), known.end(), id);
    });
    if (ends.size() > 2)
      notes_.push_back(
          {Severity::warning,
           "gguf.ends",
           fmt::format(
               "a GGUF file has keys for three end tokens, so the checkpoint's end tokens {} do "
               "not end a text there",
               fmt::join(ends.begin() + 2, ends.end(), ", ")),
           "pass their texts as stop strings to the program that runs the file",
           {.file = path_of("generation_config.json")}});
    return ends;
  }

  // Returns the flag of tokenizer_config.json or, if absent, the behaviour of the post-processor's
  // template.
  static bool adds(const JsonValue& said, std::string_view name, bool in_template) {
    const JsonValue* flag = said.find(name);
    return flag && flag->boolean() ? *flag->boolean() : in_template;
  }

  std::string folder_;
  const ModelConfig& model_;
  Diagnostics& notes_;
  std::vector<std::string> tokens_;  // by id; empty: none
  std::vector<int32_t> kinds_;
  std::vector<std::string> merges_;
  std::string pre_;
  JsonValue added_;
  std::optional<int64_t> silent_id_;  // id of kByteThatNoTextHas
  bool begins_with_special_ = false, ends_with_special_ = false;
};

}  // namespace

Result<std::vector<GgufEntry>> tokenizer_keys(const std::string& source, const ModelConfig& model,
                                              bool wanted, Diagnostics& notes) {
  const std::string folder = source_folder(source);
  const std::string path = folder.empty() ? "tokenizer.json" : folder + "/tokenizer.json";
  if (wanted && file_exists(path)) return TokenizerReader(folder, model, notes).run();
  if (wanted)
    notes.push_back(
        {Severity::note,
         "export.no_tokenizer",
         "the checkpoint has no tokenizer.json, so the files accept token ids, not text",
         "to use text, add tokenizer.json to the checkpoint and export again",
         {.file = folder}});
  return std::vector<GgufEntry>{{"tokenizer.ggml.model", std::string("none")}};
}

}  // namespace moec
