// Maps llama.cpp architectures to model families. A descriptor specifies the key, or llama.cpp's
// constant, for each concept of a config (models/families/family_vocabulary.h), and the tensor for
// each role. There is one descriptor per architecture: frontends/sources/gguf/*.json, documented in
// README.md. Source: llama.cpp v0.5.0; its results were compared with those of transformers 5.23.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/gguf/layer_keys.h"
#include "frontends/sources/gguf/tensor_forms.h"
#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/base/json.h"
#include "ir/model/model_config.h"

namespace moec {

// A key "a", two keys "a / b" or "a - b", or a literal: a number, true or false. Keys omit "ARCH.".
struct GgufExpression {
  std::string left, right;  // keys; both empty: a literal
  char op = 0;              // '/', '-', or 0 for `left` alone
  std::string literal;      // as JSON
  bool operator==(const GgufExpression&) const = default;
};

// Source of a concept's value. Exactly one of `from`, `is`, `has` and `unread` is set:
//   from      the first expression with all keys in the file
//   is        llama.cpp's constant
//   has       true if any layer has the tensor
//   unread    none, because the value does not affect the model
struct GgufConcept {
  std::vector<GgufExpression> from;
  std::map<int64_t, JsonValue> names;  // number from `from` → value; empty: the number itself
  std::optional<JsonValue> otherwise;  // value for unknown numbers; absent: these are refused
  std::optional<double> zero;          // value that 0 represents
  std::string times;                   // key that multiplies each entry of a list in `from`
  // Two names for a list with one name per layer. With `from`, the value is the number of leading
  // layers with the first name; with `has`, layers that have the tensor have the second name.
  std::vector<std::string> listed;
  std::optional<JsonValue> is;
  std::string has;     // tensor of a layer, without "blk.N."
  std::string unread;  // reason why the value does not affect the model
  std::string as;      // key of the config to set; empty: the first key of the concept
};

// True if the names are those of a boolean, which llama.cpp has a default for.
bool has_named_flags(const GgufConcept& item);

// A family of the architecture. The family applies if the file has each key of `when` with the
// given value; std::nullopt matches any value.
struct GgufFamily {
  std::string family;  // model_type
  std::map<std::string, std::optional<int64_t>> when;
  std::map<std::string, std::vector<int64_t>> only;  // key → values that the family can express
};

// A number, or concepts that are added or multiplied.
struct GgufTerms {
  std::optional<int64_t> number;
  std::vector<std::string> concepts;
};

// Layer counts that a model with the concept `concept_name` above 0 must not have, because
// llama.cpp reserves them for another model.
struct GgufExclusion {
  std::string concept_name;
  std::vector<int64_t> layers;
};

// Fields that only the writer uses.
struct GgufWriting {
  // Additional keys, without "ARCH.", and their values as sums.
  std::map<std::string, GgufTerms, std::less<>> keys;
  bool needs_head = false;  // a tied head is stored as a separate tensor
  std::vector<RopeScaling> scalings = {RopeScaling::none, RopeScaling::linear, RopeScaling::yarn};
  std::vector<GgufExclusion> exclusions;
  // Concepts that llama.cpp computes as a product, regardless of the file.
  std::map<std::string, GgufTerms, std::less<>> equal;
};

// Accepted values of a key that is not the source of a concept. Exactly one field is set.
struct GgufKeyRule {
  std::vector<double> only;      // supported values; true counts as 1
  std::string same_as;           // key, without "ARCH.", that must have the same value
  std::optional<double> unread;  // constant that llama.cpp uses instead of the key
  std::string harmless;          // reason why the value does not affect the model
};

// The rotary embedding of the layers of one kind.
struct GgufRotation {
  std::string kind;  // see layer_kind()
  // Keys without "ARCH."; the usual key replaces an absent one.
  std::string base = "rope.freq_base", dims = "rope.dimension_count";
  std::string head = "attention.key_length";
  bool scaled = false;  // the keys rope.scaling.* and the tensor of divisors apply
};

struct GgufArchitecture {
  std::string name;
  std::vector<GgufFamily> families;  // the first that applies is used
  GgufForms forms;
  // True if all dims of a head rotate; rope.dimension_count must then equal the head size.
  bool rotates_heads = false;
  // The rotary embeddings by layer kind; empty: all layers have the same.
  std::vector<GgufRotation> rotations;
  bool yarn_rounds = true;  // the family rounds YaRN's range of frequencies to whole dims
  std::map<std::string, GgufConcept, std::less<>> concepts;
  std::map<std::string, GgufKeyRule, std::less<>> keys;  // without "ARCH."
  GgufLayers layers;
  std::map<std::string, JsonValue, std::less<>> config;     // further entries of the config
  std::map<std::string, std::string, std::less<>> tensors;  // role → template
  GgufWriting writing;
};

// The two parts of kv_b, without "blk.N.": k_b [H, rank, nope] and v_b [H, v, rank].
inline constexpr std::string_view kGgufLatentKeys = "attn_k_b.weight";
inline constexpr std::string_view kGgufLatentValues = "attn_v_b.weight";
// Divisors of the rotary frequencies. Pairs with this divisor, or a larger one, do not rotate: at
// every position, their angle is smaller than the rounding error of cos and sin.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";
inline constexpr float kUnrotatedDivisor = 1e30F;

// Returns the architectures compiled into the binary, sorted by name.
std::span<const GgufArchitecture> gguf_architectures();

// Returns the architecture with this name. Error: gguf.architecture, with the known names, or with
// the reason if no family can express the architecture.
Result<const GgufArchitecture*> find_gguf_architecture(std::string_view name);

// Returns the architecture of a family. Error: gguf.family (there is none), with the reason if it
// is known.
Result<const GgufArchitecture*> gguf_architecture_of(std::string_view family);

// Reads a descriptor. `common` is the text of the shared entries, which entries of `text` override.
// Errors: gguf_architecture.*, with the name of the field.
Result<GgufArchitecture> load_gguf_architecture(std::string_view text, std::string_view common,
                                                const std::string& file);

// Returns "uses NAME = VALUE, but this model has OTHER" for the first concept that llama.cpp
// computes as a product (GgufWriting::equal) and that has another value in `model`; empty if there
// is none.
std::string broken_product(const ModelConfig& model, const GgufArchitecture& architecture);

}  // namespace moec
