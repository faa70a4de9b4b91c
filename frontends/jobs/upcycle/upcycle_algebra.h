// The algebra of upcycling: computes the factors that scale experts, and how exactly the new model
// reproduces the dense one.
//
// A feed-forward part is a sum over its hidden units, so it equals the sum of the outputs of G
// equal parts. A group consists of G experts, one per part, with equal router rows, so that all of
// them get the same weight. A token picks T experts, where T is a multiple of G; these form whole
// groups g with weights w_g. The layer's output is s · Σ_g w_g · dense, where s is the factor on a
// part's output:
//   normalised weights   Σ_g G · w_g = 1 for any router: s = G
//   shares of a softmax  Σ_g w_g depends on the token. With a uniform router each w is 1/E:
//                        s = E · G / T
//   sigmoids             Σ_g w_g depends on the token. With a zero router each w is 1/2:
//                        s = 2 · G / T
// If a token picks every expert, softmax shares sum to one for any router.
//
// The factor is applied to down (s), or to up and down (√s each), because a gated part is linear in
// up. On the gate, it would change silu. A squared ReLU of c · z is c² times the squared ReLU of z.
// So the cube root of s on up and down is exact, but the square root is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"

namespace moec {

// exact            the dense model's result, except for the order of summation
// rounded          as exact, with weights rounded to a narrower type
// uniform_router   exact while all router rows are equal
// inexact          none of these
enum class Exactness : uint8_t { exact, rounded, uniform_router, inexact };
constexpr auto enum_names(Exactness) {
  return name_table<Exactness>(
      {"exact", "exact but for rounding", "exact for a uniform router", "inexact"});
}

struct ExactClass {
  Exactness kind = Exactness::exact;
  std::vector<std::string> reasons;  // why it is not exact

  // Lowers the class to `other` if that is worse, and appends the reason.
  void add(Exactness other, std::string reason);
};

// The class and its reasons, such as "inexact: noise was added to the experts".
std::string to_string(const ExactClass& exact);

// Inputs of the algebra; all sizes are resolved.
struct UpcycleTerms {
  int64_t experts = 0, top_k = 0, granularity = 1;
  Score score = Score::softmax;
  bool normalised = true;
  Activation activation = Activation::silu;
  ExpertStart start;
  int64_t redrawn = 0;        // reinitialised units per expert
  int64_t models = 1;         // models that the experts come from
  bool other_model = false;   // the experts come from models other than the dense one
  bool gated_shared = false;  // a sigmoid scales a shared expert with hidden units
  bool narrow = false;        // weights are stored as f16 or bf16
  bool narrowed = false;      // the source stores them in a wider type
};

// Factors of an expert's matrices.
struct PartFactors {
  double gate = 1, up = 1, down = 1;
  bool operator==(const PartFactors&) const = default;
};

// The factor s (above).
double group_scale(const UpcycleTerms& terms);
PartFactors part_factors(const UpcycleTerms& terms);
ExactClass exactness(const UpcycleTerms& terms);

// Duplication: each expert becomes `multiply` adjacent copies with equal router rows. A token that
// picked K experts now picks K · multiply, all copies of the same experts.
//   normalised weights, softmax shares  keep their sum
//   sigmoids, not normalised            keep their value per copy: down is divided by `multiply`
//   selection bias with a softmax       is divided by `multiply`, like the scores it is added to
// Fewer picks select different experts. Noise on router rows makes copies differ.
struct DuplicationTerms {
  int64_t multiply = 1;
  int64_t new_top_k = 0;
  Router routing;  // of the source
  double noise = 0;
  bool narrow = false;  // weights are stored as f16 or bf16

  bool picks_all_copies() const { return new_top_k == routing.top_k * multiply; }
  // Factors on the down matrices and on the selection bias.
  double down_factor() const;
  double choice_factor() const;
};
ExactClass exactness(const DuplicationTerms& terms);

}  // namespace moec
