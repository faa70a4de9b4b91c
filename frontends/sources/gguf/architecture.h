// How the GGUF files of llama.cpp hold the models of a family: which key, or which constant of
// llama.cpp's own, gives each concept of a config (models/families/family_vocabulary.h), and which
// tensor has each role. One descriptor an architecture, frontends/sources/gguf/*.json; README.md
// describes them. Source: llama.cpp v0.5.0, its results compared with those of transformers 5.23.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/base/json.h"
#include "ir/model/model_config.h"

namespace moec {

// "a", "a / b", "a - b", or a literal: a number, true or false. Keys stand without "ARCH.".
struct GgufExpression {
  std::string left, right;  // keys; both empty: a literal
  char op = 0;              // '/', '-', or 0 for `left` alone
  std::string literal;      // as JSON
  bool operator==(const GgufExpression&) const = default;
};

// Where a concept's value comes from: the first expression whose keys are all in the file; or what
// llama.cpp always computes; or whether a tensor is there; or nowhere, since the model is the same
// with any value.
struct GgufConcept {
  std::vector<GgufExpression> from;
  std::map<int64_t, JsonValue> names;  // of the number that `from` gives; empty: that number
  std::optional<JsonValue> otherwise;  // for numbers without a name; else they are refused
  std::optional<double> zero;          // what 0 stands for
  std::optional<JsonValue> is;
  std::string has;     // a tensor of a layer, without "blk.N."
  std::string unread;  // why
  std::string as;      // the key of the config to set; empty: the first of the concept
};

// A family that the architecture stands for, where the keys of `when` have these values; nothing:
// where they are there at all.
struct GgufFamily {
  std::string family;  // model_type
  std::map<std::string, std::optional<int64_t>> when;
  std::map<std::string, std::vector<int64_t>> only;  // values that the family can express
};

// How the rows of q and k lie in each head: as the family stores them, or with the two rows of each
// rotated pair side by side.
enum class GgufRows : uint8_t { stored, pairs };
constexpr auto enum_names(GgufRows) { return name_table<GgufRows>({"stored", "pairs"}); }

// A number, or concepts that are added up or multiplied.
struct GgufTerms {
  std::optional<int64_t> number;
  std::vector<std::string> concepts;
};

// Numbers of layers for which llama.cpp takes a model with this concept above 0 for another one.
struct GgufExclusion {
  std::string concept_name;
  std::vector<int64_t> layers;
};

// What only the writing of files asks for.
struct GgufWriting {
  // Keys without "ARCH." that files have besides, and the sums that they say.
  std::map<std::string, GgufTerms, std::less<>> keys;
  bool needs_head = false;  // a head that is the embedding is stored once more
  std::vector<RopeScaling> scalings = {RopeScaling::none, RopeScaling::linear, RopeScaling::yarn};
  std::vector<GgufExclusion> exclusions;
  // Concepts that llama.cpp takes to be a product, whatever the file says.
  std::map<std::string, GgufTerms, std::less<>> equal;
};

// The values that a key may have if no concept is read from it. Exactly one field is set.
struct GgufKeyRule {
  std::vector<double> only;      // the values that are computed; true is 1
  std::string same_as;           // the key, without "ARCH.", that must have the same value
  std::optional<double> unread;  // what llama.cpp computes with, whatever the key says
  std::string harmless;          // why the model is the same with any value
};

struct GgufArchitecture {
  std::string name;
  std::vector<GgufFamily> families;  // the first that fits
  GgufRows rows = GgufRows::stored;
  // Whether all dims of a head rotate: rope.dimension_count can say nothing else.
  bool rotates_heads = false;
  bool yarn_rounds = true;  // YaRN's range of frequencies is rounded to whole dims
  std::map<std::string, GgufConcept, std::less<>> concepts;
  std::map<std::string, GgufKeyRule, std::less<>> keys;     // without "ARCH."
  std::map<std::string, std::string, std::less<>> tensors;  // role → template
  GgufWriting writing;
};

// The parts of the latent's matrix, without "blk.N.": k_b [H, rank, nope] and v_b [H, v, rank].
inline constexpr std::string_view kGgufLatentKeys = "attn_k_b.weight";
inline constexpr std::string_view kGgufLatentValues = "attn_v_b.weight";
// The divisors of the rotation's frequencies.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// Those compiled into the binary, by name.
std::span<const GgufArchitecture> gguf_architectures();

// Errors: gguf.architecture, with the names of all, and for those that no family can express the
// reason.
Result<const GgufArchitecture*> find_gguf_architecture(std::string_view name);

// The architecture that stands for a family. Errors: gguf.family where there is none, with the
// reason where one is known.
Result<const GgufArchitecture*> gguf_architecture_of(std::string_view family);

// Reads a descriptor; `common` has the entries that all share, which its own replace. Errors:
// gguf_architecture.* with the field's name.
Result<GgufArchitecture> load_gguf_architecture(std::string_view text, std::string_view common,
                                                const std::string& file);

}  // namespace moec
