#include "backends/coverage/compare_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace moec {
namespace {

// The order of an expert's weights follows from the graph, so equal experts have equal joined
// digests.
std::vector<std::string> joined_weights(const LayerExperts& experts) {
  std::vector<std::string> joined;
  for (const ExpertParts& expert : experts) joined.push_back(join_digests(expert.weights));
  return joined;
}

std::vector<std::string> joined_rows(const LayerExperts& experts) {
  std::vector<std::string> joined;
  for (const ExpertParts& expert : experts) joined.push_back(join_digests(expert.router));
  return joined;
}

// Pairs of router rows and weights, sorted within each router group; the groups are also sorted.
std::vector<std::vector<std::string>> without_order(const LayerExperts& experts, size_t groups) {
  // Two layers compute the same result if these lists are equal: the order within a group and the
  // order of groups do not matter.
  std::vector<std::vector<std::string>> sorted(groups);
  const size_t size = experts.size() / groups;
  for (size_t e = 0; e < experts.size(); ++e)
    sorted[e / size].push_back(join_digests(experts[e].router) + "|" +
                               join_digests(experts[e].weights));
  for (auto& group : sorted) std::sort(group.begin(), group.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Returns the position of `text` in `list`: `here` if list[here] matches, otherwise the first
// match.
std::optional<size_t> place_of(const std::string& text, const std::vector<std::string>& list,
                               size_t here) {
  if (list[here] == text) return here;
  const auto found = std::find(list.begin(), list.end(), text);
  if (found == list.end()) return std::nullopt;
  return static_cast<size_t>(found - list.begin());
}

class LayerComparison {
 public:
  LayerComparison(int64_t layer, const LayerExperts& recorded, const LayerExperts& found,
                  const KnownExperts& known)
      : layer_(layer),
        recorded_(recorded),
        found_(found),
        known_(known),
        recorded_weights_(joined_weights(recorded)),
        found_weights_(joined_weights(found)) {}

  Diagnostics run() {
    find_wanted();
    // compare() searches all of `source_` for the wanted expert, so `source_` is completed first.
    for (size_t e = 0; e < found_.size(); ++e) source_.push_back(source_of(e));
    for (size_t e = 0; e < found_.size(); ++e)
      if (source_[e] != wanted_[e]) compare(e);
    // compare_experts() found a difference, although each channel has the weights that its router
    // row selects. So experts must be in other router groups.
    if (findings_.empty())
      find("coverage.permuted_experts", 0, "experts were moved to another router group");
    return std::move(findings_);
  }

 private:
  template <class... Args>
  void find(std::string code, size_t at, fmt::format_string<Args...> cause, Args&&... args) {
    find_in(0, std::move(code), at, cause, std::forward<Args>(args)...);
  }
  // Adds a finding about the expert's weights in one of its holders.
  template <class... Args>
  void find_in(size_t holder, std::string code, size_t at, fmt::format_string<Args...> cause,
               Args&&... args) {
    // An expert without weights may have no holder. The finding then names only the layer.
    const std::vector<ExpertHolder>& holders = found_[at].holders;
    const ExpertHolder held = holder < holders.size() ? holders[holder] : ExpertHolder();
    findings_.push_back(
        {Severity::error,
         std::move(code),
         fmt::format("layer {}: {}", layer_, fmt::format(cause, std::forward<Args>(args)...)),
         "export again",
         {.shard = held.shard, .file = held.file}});
  }

  // The first holder whose number of weights for the expert differs from the recorded one.
  size_t odd_holder(size_t e, size_t wanted) const {
    const auto count = [](const ExpertParts& parts, size_t holder) {
      return std::count_if(parts.weights.begin(), parts.weights.end(),
                           [&](const ExpertPart& part) { return part.holder == holder; });
    };
    for (size_t holder = 0; holder < found_[e].holders.size(); ++holder)
      if (count(found_[e], holder) != count(recorded_[wanted], holder)) return holder;
    return 0;
  }

  // Finds the expert that each router row selects, by comparing the rows with the recorded ones.
  // Maps an unknown row to the channel's own expert, so that the remaining checks still run.
  void find_wanted() {
    const std::vector<std::string> recorded = joined_rows(recorded_), found = joined_rows(found_);
    // Reserves rows at their recorded position first, so that no equal row can claim them.
    std::set<size_t> chosen;
    for (size_t e = 0; e < found.size(); ++e)
      if (found[e] == recorded[e]) chosen.insert(e);
    for (size_t e = 0; e < found.size(); ++e) {
      const std::optional<size_t> row = place_of(found[e], recorded, e);
      const bool good = row && (*row == e || chosen.insert(*row).second);
      wanted_.push_back(good ? *row : e);
      if (!row)
        find("coverage.router_row", e, "router row {} belongs to no expert", e);
      else if (!good)
        find("coverage.router_row", e, "router row {} repeats that of expert {}", e, *row);
    }
  }

  // Returns the recorded expert with the channel's weights. If several experts have equal weights,
  // prefers the one that the channel's router row selects: exchanging equal experts is harmless.
  std::optional<size_t> source_of(size_t e) const {
    return place_of(found_weights_[e], recorded_weights_, wanted_[e]);
  }

  void compare(size_t e) {
    const size_t wanted = wanted_[e];
    if (found_[e].weights.size() > recorded_[wanted].weights.size())
      return find_in(odd_holder(e, wanted), "coverage.duplicate_expert", e,
                     "expert {} has {} weights in the graphs, expected {}", wanted,
                     found_[e].weights.size(), recorded_[wanted].weights.size());
    if (found_[e].weights.size() < recorded_[wanted].weights.size())
      return find_in(odd_holder(e, wanted), "coverage.missing_expert", e,
                     "expert {} has {} of its {} weights in the graph", wanted,
                     found_[e].weights.size(), recorded_[wanted].weights.size());
    if (!source_[e]) return changed(e);
    const auto holder = std::find(source_.begin(), source_.end(), std::optional(wanted));
    if (holder == source_.end())
      return find("coverage.duplicate_expert", e,
                  "the weights of expert {} replace those of expert {}, which are missing",
                  *source_[e], wanted);
    report_cycle(e);
  }

  // Follows the permutation from channel `e` until the cycle closes. Reports each cycle once.
  void report_cycle(size_t e) {
    std::vector<size_t> cycle;
    std::optional<size_t> at = e;
    while (at && reported_.insert(*at).second) {
      cycle.push_back(wanted_[*at]);
      const auto next = std::find(wanted_.begin(), wanted_.end(), *source_[*at]);
      at = next == wanted_.end() ? std::nullopt : std::optional<size_t>(next - wanted_.begin());
      if (at && !source_[*at]) at.reset();
    }
    if (cycle.empty()) return;
    std::sort(cycle.begin(), cycle.end());
    if (cycle.size() == 2)
      find("coverage.swapped_experts", e, "experts {} and {} are exchanged", cycle[0], cycle[1]);
    else
      find("coverage.permuted_experts", e, "experts {} are permuted", fmt::join(cycle, ", "));
  }

  void changed(size_t e) {
    const size_t wanted = wanted_[e];
    // A match is in another layer, because source_of() found none in this layer.
    if (const auto known = known_.find(found_weights_[e]); known != known_.end())
      return find("coverage.foreign_expert", e,
                  "the weights of expert {} of layer {} replace those of expert {}",
                  known->second.expert, known->second.layer, wanted);
    std::vector<std::string> parts;
    bool truncated = false;
    size_t holder = found_[e].holders.size();
    for (size_t i = 0; i < found_[e].weights.size(); ++i)
      if (found_[e].weights[i].digest != recorded_[wanted].weights[i].digest) {
        parts.push_back(describe(e, i, truncated));
        holder = std::min(holder, found_[e].weights[i].holder);
      }
    find_in(holder, truncated ? "coverage.truncated_expert" : "coverage.changed_expert", e,
            "expert {}: {}", wanted, fmt::join(parts, "; "));
  }

  std::string describe(size_t e, size_t part, bool& truncated) const {
    const ExpertPart& weight = found_[e].weights[part];
    for (size_t other = 0; other < recorded_.size(); ++other)
      if (part < recorded_[other].weights.size() &&
          recorded_[other].weights[part].digest == weight.digest)
        return fmt::format("{} belongs to expert {}", weight.name, other);
    // The manifest does not record the bytes of a block, so the largest block of the layer's
    // experts is the reference.
    uint64_t most = 0;
    for (const ExpertParts& expert : found_)
      if (part < expert.weights.size()) most = std::max(most, expert.weights[part].bytes);
    truncated |= weight.bytes < most || weight.zero_tail >= kZeroTail;
    if (weight.bytes < most)
      return fmt::format("{} has {} bytes, expected {} as in other experts", weight.name,
                         weight.bytes, most);
    if (weight.zero_tail >= kZeroTail)
      return fmt::format("{} ends in {} zero bytes", weight.name, weight.zero_tail);
    return fmt::format("{} differs from the exported one", weight.name);
  }

  // Trailing zero bytes indicate a truncated write. A shorter run may belong to the last element.
  static constexpr uint64_t kZeroTail = 8;

  const int64_t layer_;
  const LayerExperts &recorded_, &found_;
  const KnownExperts& known_;
  const std::vector<std::string> recorded_weights_, found_weights_;
  std::vector<size_t> wanted_;                 // by channel
  std::vector<std::optional<size_t>> source_;  // by channel
  std::set<size_t> reported_;
  Diagnostics findings_;
};

}  // namespace

size_t ExpertParts::holder(const std::string& shard, const std::string& file) {
  const auto known = std::find_if(holders.begin(), holders.end(), [&](const ExpertHolder& holder) {
    return holder.shard == shard;
  });
  // A shard has one file per width. Findings name the file that was read last.
  if (known != holders.end()) {
    known->file = file;
    return static_cast<size_t>(known - holders.begin());
  }
  holders.push_back({shard, file});
  return holders.size() - 1;
}

std::string join_digests(const std::vector<ExpertPart>& parts) {
  std::string joined;
  for (const ExpertPart& part : parts) joined += part.digest;
  return joined;
}

Diagnostics compare_experts(int64_t layer, const LayerExperts& recorded, const LayerExperts& found,
                            int64_t groups, const KnownExperts& known) {
  const auto count = static_cast<size_t>(groups);
  if (without_order(recorded, count) == without_order(found, count)) return {};
  return LayerComparison(layer, recorded, found, known).run();
}

}  // namespace moec
