// Detects changes of domain from the hits of a run: its tokens now choose other experts, for
// example after a prompt in another language.
//
// Hits are counted in consecutive windows of kWindowTokens tokens. The domain has changed if the
// hit rate of a window is at least kDomainDrop below the rate of all windows since the last change.
// The first window of a run, which fills the slots, and a window that shows a change do not count
// toward that rate.
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
  int64_t token = 0;              // first token of the window that shows the change
  double before = 0, within = 0;  // hit rates: of the windows before it, of the window itself
  bool operator==(const DomainChange&) const = default;
};

class HitWindow {
 public:
  // Records the next step. The layers of a chunk follow one another and start with the same layer
  // each time. Returns a change at the first step after the window that shows it.
  std::optional<DomainChange> note(const ChosenStep& step);
  // Layers and selections of the latest complete window.
  const ExpertProfile& ended() const { return ended_; }

 private:
  struct Hits {
    int64_t uses = 0, hits = 0;
    double rate() const;
  };

  std::optional<DomainChange> end_window();
  void count(const ChosenStep& step);

  std::optional<int64_t> first_layer_;
  int64_t begin_ = 0, tokens_ = 0;  // of the current window
  Hits window_, before_;
  bool fresh_ = true;  // no complete window since the start or the last change
  std::map<int64_t, LayerProfile> layers_;
  ExpertProfile ended_;
};

}  // namespace moec
