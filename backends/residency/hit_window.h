// Tells from the hits of a run that its tokens choose other experts than before: another domain, a
// prompt in another language.
//
// Hits are counted in windows of kWindowTokens tokens, one behind the other. The domain has changed
// where the hit rate of a window is by kDomainDrop or more below that of all windows since the last
// change. The first window of a run, which fills the slots, and the one that shows a change are not
// part of that rate.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "backends/residency/chosen_step.h"
#include "ir/experts/expert_profile.h"

namespace moec {

inline constexpr int64_t kWindowTokens = 128;
inline constexpr double kDomainDrop = 0.1;

struct DomainChange {
  int64_t token = 0;              // with which the window that shows it begins
  double before = 0, within = 0;  // hit rates: of the windows before it, and its own
  bool operator==(const DomainChange&) const = default;
};

class HitWindow {
 public:
  // The next step: layers of a chunk of tokens follow one another, and begin with the same layer
  // each time. Returns a change with the first step behind the window that shows it.
  std::optional<DomainChange> note(const ChosenStep& step);
  // What the tokens of the window that ended last chose: layers and selections alone.
  const ExpertProfile& ended() const { return ended_; }

 private:
  struct Hits {
    int64_t uses = 0, hits = 0;
    double rate() const;
  };

  std::optional<DomainChange> end_window();
  void count(const ChosenStep& step);

  std::optional<int64_t> first_layer_;
  int64_t begin_ = 0, tokens_ = 0;  // of the window
  Hits window_, before_;
  bool fresh_ = true;  // no window since the start or the last change
  std::map<int64_t, LayerProfile> layers_;
  ExpertProfile ended_;
};

}  // namespace moec
