// What the tokens of one step of a run chose, as those that watch the run are told it.
#pragma once

#include <cstdint>
#include <vector>

namespace moec {

struct ChosenExpert {
  int64_t expert = 0;
  int64_t tokens = 0;  // of the step that chose it, at least 1
};

// One MoE layer with one token or a chunk of tokens.
struct ChosenStep {
  int64_t layer = 0;
  int64_t tokens = 0;
  std::vector<ChosenExpert> chosen;  // ascending
  int64_t hits = 0;                  // of them that were resident when the step began
};

}  // namespace moec
