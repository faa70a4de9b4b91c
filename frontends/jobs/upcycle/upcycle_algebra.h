// The arithmetic of upcycling: by which factor experts are scaled, and whether the new model then
// computes what the dense one does.
//
// A feed-forward part is a sum over its hidden units. Cut into G equal shards it is the sum of
// their outputs. A group is G experts, one for each shard, whose router rows are equal, so that a
// token gives all of them the weight w. With T picks, T a multiple of G, a token picks whole groups
// with weights w_g, and its output is s · Σ_g w_g · dense, where s is the factor on a shard's
// output:
//   normalised weights   Σ_g G · w_g = 1, whatever the router says: s = G
//   shares of a softmax  Σ_g w_g depends on the token. With a uniform router each w is 1/E:
//                        s = E · G / T
//   sigmoids             the same; with a router of zeros each w is 1/2: s = 2 · G / T
// With every expert picked the shares sum to one as well.
//
// The factor may stand on down (s), or on up and down (√s each): up is linear in a gated part. On
// the gate it changes silu. A squared ReLU of c · z is c² times that of z: the cube root of s on up
// and down is exact, the square root is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"

namespace moec {

// exact            the dense model's result, but for the order of sums
// rounded          the same, but that weights were rounded to a narrower type
// uniform_router   exact as long as all router rows are equal
enum class Exactness : uint8_t { exact, rounded, uniform_router, inexact };
constexpr auto enum_names(Exactness) {
  return name_table<Exactness>(
      {"exact", "exact but for rounding", "exact for a uniform router", "inexact"});
}

struct ExactClass {
  Exactness kind = Exactness::exact;
  std::vector<std::string> reasons;  // why it is not exact

  // The worse of the two, with both reasons.
  void add(Exactness other, std::string reason);
};

// "exact", "inexact: noise was added to the experts".
std::string to_string(const ExactClass& exact);

// What the algebra depends on; all sizes are resolved.
struct UpcycleTerms {
  int64_t experts = 0, top_k = 0, granularity = 1;
  Score score = Score::softmax;
  bool normalised = true;
  Activation activation = Activation::silu;
  ExpertStart start;
  int64_t redrawn = 0;        // units of an expert that are drawn anew
  int64_t models = 1;         // whose feed-forward parts the experts are
  bool other_model = false;   // they are not the dense model's
  bool gated_shared = false;  // a shared expert behind a sigmoid holds hidden units
  bool narrow = false;        // weights are stored as f16 or bf16
  bool narrowed = false;      // of a wider type
};

// What each matrix of an expert is multiplied by.
struct PartFactors {
  double gate = 1, up = 1, down = 1;
  bool operator==(const PartFactors&) const = default;
};

// s above.
double group_scale(const UpcycleTerms& terms);
PartFactors part_factors(const UpcycleTerms& terms);
ExactClass exactness(const UpcycleTerms& terms);

// Duplication of experts: each becomes `multiply` equal ones, side by side, with equal router rows.
// A token that picked K experts now picks K · multiply: all copies of the same ones. Normalised
// weights and shares of a softmax are then the same in sum. Sigmoids that are not normalised are
// each as large as before, so that down is divided by `multiply`. A softmax over more experts gives
// each a smaller score, so that what is added to scores for the choice is divided as well. Fewer
// picks are other experts; noise on router rows splits copies.
struct DuplicationTerms {
  int64_t multiply = 1;
  int64_t new_top_k = 0;
  Router routing;  // of the source
  double noise = 0;
  bool narrow = false;  // weights are stored as f16 or bf16

  bool picks_all_copies() const { return new_top_k == routing.top_k * multiply; }
  // On down, and on what is added to scores for the choice.
  double down_factor() const;
  double choice_factor() const;
};
ExactClass exactness(const DuplicationTerms& terms);

}  // namespace moec
