// The use of experts by classes of prompts: the text categories of an expert profile.
#pragma once

#include <string>
#include <vector>

#include "ir/experts/expert_profile.h"

namespace moec {

inline constexpr const char* kAllPrompts = "all";

struct PromptClass {
  std::string name;
  // Per MoE layer, the share of each expert in the layer's routing. Empty for a layer in which the
  // class chose no expert.
  std::vector<std::vector<double>> shares;
};

// All prompts, named kAllPrompts, then each category of the profile if there are several. Shares of
// all prompts are those of the routing mass, or of selections if the profile has no mass; shares of
// a category are those of selections. Without a profile, all experts are equally likely. Omits
// categories that chose no expert.
std::vector<PromptClass> prompt_classes(const ExpertProfile* profile, const ExpertGrid& grid);

// The share of a layer's routing that falls on a set of its experts; 1 if the class chose none.
double share_on(const PromptClass& prompts, const ExpertGrid& grid, size_t layer,
                const ExpertSets& sets);

// Mean of share_on() over the layers: all of them process every token.
double kept_share(const PromptClass& prompts, const ExpertGrid& grid, const ExpertSets& sets);

}  // namespace moec
