// Experts that the tokens of one step chose, as reported to observers of a run.
#pragma once

#include <cstdint>
#include <vector>

namespace moec {

struct ChosenExpert {
  int64_t expert = 0;
  int64_t tokens = 0;  // tokens of the step that chose it, at least 1
};

// One MoE layer's work for one token or a chunk of tokens.
struct ChosenStep {
  int64_t layer = 0;
  int64_t tokens = 0;
  std::vector<ChosenExpert> chosen;  // ascending by expert
  int64_t hits = 0;                  // experts of `chosen` that were resident when the step began
};

}  // namespace moec
