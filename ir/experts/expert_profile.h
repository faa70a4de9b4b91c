// The expert profile: how a text uses a model's experts, per layer. `moec analyze` writes it to
// profile.json. It contains sums and means over the tokens of the text, from which readers derive
// orders, curves and intervals.
//
//   {"format": "moec.expert_profile", "version": 1,
//    "model": "qwen3_moe", "checkpoint": "…", "source": "checkpoint", "text": "…",
//    "experts": 16, "top_k": 2,
//    "categories": [{"name": "code", "documents": 8, "tokens": 512}, …],
//    "layers": [{"layer": 0, "tokens": 2048, "selections": [260, …], "mass": [128.5, …],
//                "output_norm": […], "saliency": […], "largest_activation": […],
//                "together": [31, …], "categories": [{"name": "code", "selections": […]}, …]}, …]}
//
// The lists of a layer have one number per expert. A list that was not measured is absent from the
// file and empty here; `selections` is always present.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"

namespace moec {

inline constexpr const char* kExpertProfileFile = "profile.json";

// A category of texts, such as code.
struct ProfileCategory {
  std::string name;
  int64_t documents = 0;
  int64_t tokens = 0;
  bool operator==(const ProfileCategory&) const = default;
};

// One MoE layer. Means are 0 for an expert that no token chose.
struct LayerProfile {
  int64_t layer = 0;
  int64_t tokens = 0;                      // number of tokens that the router processed
  std::vector<int64_t> selections;         // number of tokens that chose the expert
  std::vector<double> mass;                // sum of its routing weights
  std::vector<double> output_norm;         // mean over its tokens of |f(x)|, the Euclidean norm
  std::vector<double> saliency;            // mean over its tokens of routing weight · |f(x)|
  std::vector<double> largest_activation;  // largest magnitude of the down matrix's input
  // Number of tokens that chose both experts of a pair, for the pairs (0, 1), (0, 2), …, (1, 2), …
  // (pair_at()).
  std::vector<int64_t> together;
  std::vector<std::vector<int64_t>> by_category;  // selections per ExpertProfile::categories
  bool operator==(const LayerProfile&) const = default;
};

struct ExpertProfile {
  std::string model;       // its family
  std::string checkpoint;  // checkpoint_identity(); empty if the source does not provide it
  std::string source;      // origin of the numbers: checkpoint, export, imatrix
  std::string text;        // digest of the tokens; empty for an imatrix
  int64_t experts = 0;     // per layer
  int64_t top_k = 0;       // experts per token; a maximum if the model has null slots
  std::vector<ProfileCategory> categories;
  std::vector<LayerProfile> layers;  // ascending
  bool operator==(const ExpertProfile&) const = default;
};

// Number of pairs of experts, and position of the pair {i, j}, i ≠ j, in LayerProfile::together.
int64_t count_pairs(int64_t experts);
int64_t pair_at(int64_t i, int64_t j, int64_t experts);

// Mean routing weight of an expert; 0 if no token chose it.
double mean_weight(const LayerProfile& layer, int64_t expert);

// Returns the layer with this number, or null.
const LayerProfile* find_layer(const ExpertProfile& profile, int64_t layer);

// Returns the text of the file. All numbers must be finite; they round-trip exactly.
std::string expert_profile_text(const ExpertProfile& profile);

// Errors: profile.syntax, profile.duplicate_key, profile.missing_field, profile.unknown_field,
// profile.bad_value (a list of another length, an impossible count, a layer twice), each with file
// and line.
Result<ExpertProfile> parse_expert_profile(std::string_view text, const std::string& file);

// Reads the file at `path`, or the kExpertProfileFile of a folder. Errors: profile.file, and those
// of parse_expert_profile().
Result<ExpertProfile> read_expert_profile(const std::string& path);

// Checks that layers, experts and top-k of the profile equal those of `grid`. Error profile.model.
Status check_profile(const ExpertProfile& profile, const ExpertGrid& grid, const std::string& file);

}  // namespace moec
