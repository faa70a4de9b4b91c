#include "frontends/measure/layer_counter.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ir/base/at.h"

namespace moec {

// `sums` is empty until the first row, which determines its size; resize() adds zeros.
void add_squares(std::vector<float>& sums, std::span<const float> row) {
  sums.resize(row.size());
  for (size_t c = 0; c < row.size(); ++c) sums[c] += row[c] * row[c];
}

namespace {

std::vector<int64_t> zeros(int64_t count) {
  return std::vector<int64_t>(static_cast<size_t>(count), 0);
}

// Experts of a layer, most recently used first. The returned distance is the LRU stack distance: an
// LRU cache of c experts has the expert exactly if the distance is less than c.
class RecentExperts {
 public:
  // Moves the expert to the front. Returns the number of other experts used since its last use;
  // absent for its first use.
  std::optional<size_t> use(int64_t expert) {
    const auto found = std::find(recent_.begin(), recent_.end(), expert);
    std::optional<size_t> distance;
    if (found != recent_.end()) {
      distance = static_cast<size_t>(found - recent_.begin());
      recent_.erase(found);
    }
    recent_.insert(recent_.begin(), expert);
    return distance;
  }

 private:
  std::vector<int64_t> recent_;
};

}  // namespace

double euclidean_norm(std::span<const float> row) {
  double sum = 0;
  // Products are formed in double: the square of a large f32 would overflow.
  for (const float value : row) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

LayerCounter::LayerCounter(int64_t layer, int64_t experts, const Text& text, CountedParts parts)
    : text_(text),
      parts_(parts),
      layer_(layer),
      experts_(experts),
      norms_(static_cast<size_t>(experts)),
      added_(static_cast<size_t>(experts)),
      largest_(static_cast<size_t>(experts)) {
  if (parts.sums) sums_.emplace(experts);
}

// Choices are only collected here. finish() sorts them, because experts run one after the other and
// report their tokens out of order.
void LayerCounter::choose(int64_t token, int64_t expert, double weight) {
  choices_.push_back({token, expert, weight});
}

void LayerCounter::add_output(int64_t expert, double norm, double added_norm) {
  at(norms_, expert) += norm;
  at(added_, expert) += added_norm;
}

void LayerCounter::add_activations(int64_t expert, std::span<const float> inner) {
  double& largest = at(largest_, expert);
  for (const float value : inner) largest = std::max(largest, std::fabs(double{value}));
}

void LayerCounter::drop_outputs() { parts_.outputs = parts_.activations = false; }

void LayerCounter::add(const TextChunk& window, const ExpertRows& rows) {
  const size_t count = rows.tokens.size();
  const auto row = [&](std::span<const float> all, size_t i) {
    // All rows of a value have the same width, which follows from the number of tokens.
    const size_t width = all.size() / count;
    return all.subspan(i * width, width);
  };
  for (size_t i = 0; i < count; ++i) {
    // Tokens from `window.count()` on fill up the last window of a document.
    if (rows.tokens[i] >= window.count()) continue;
    choose(window.first + rows.tokens[i], rows.expert, rows.weights[i]);
    const double norm = euclidean_norm(row(rows.output, i));
    // If the routing weight multiplies the expert's input, the output already includes it.
    const bool weighed = rows.weight_on == RoutedWeight::input;
    add_output(rows.expert, norm, weighed ? norm : norm * std::fabs(double{rows.weights[i]}));
    add_activations(rows.expert, row(rows.inner, i));
    if (!sums_) continue;
    add_squares(at(sums_->input, rows.expert), row(rows.input, i));
    add_squares(at(sums_->inner, rows.expert), row(rows.inner, i));
  }
}

void LayerCounter::count_pairs_of(std::span<const ExpertChoice> chosen,
                                  LayerProfile& profile) const {
  for (size_t i = 0; i < chosen.size(); ++i)
    for (size_t j = i + 1; j < chosen.size(); ++j)
      ++at(profile.together, pair_at(chosen[i].expert, chosen[j].expert, experts_));
}

// Adds the choices of one window to `measured`.
void LayerCounter::count_part(const TextPart& part, std::span<const ExpertChoice> choices,
                              LayerMeasurement& measured) const {
  LayerProfile& profile = measured.profile;
  const size_t category = text_.category_of[part.document];
  for (const ExpertChoice& choice : choices) {
    ++at(profile.selections, choice.expert);
    at(profile.mass, choice.expert) += choice.weight;
    ++at(profile.by_category[category], choice.expert);
    ++at(measured.by_document[part.document], choice.expert);
    ++at(at(measured.halves, part.half), choice.expert);
  }
  if (!parts_.pairs) return;
  // The choices are sorted by token, so the experts of a token are adjacent.
  for (auto first = choices.begin(); first != choices.end();) {
    const auto last = std::find_if(
        first, choices.end(), [&](const ExpertChoice& one) { return one.token != first->token; });
    count_pairs_of({first, last}, profile);
    first = last;
  }
}

void LayerCounter::finish_means(LayerProfile& profile) const {
  const auto means = [&](const std::vector<double>& sums) {
    std::vector<double> means(sums.size());
    for (size_t e = 0; e < sums.size(); ++e)
      // An expert that was never chosen has no outputs; its mean stays 0.
      if (profile.selections[e] > 0)
        means[e] = sums[e] / static_cast<double>(profile.selections[e]);
    return means;
  };
  if (parts_.outputs) profile.output_norm = means(norms_);
  if (parts_.outputs) profile.saliency = means(added_);
  if (parts_.activations) profile.largest_activation = largest_;
}

LayerMeasurement LayerCounter::finish() && {
  // count_part() and the reuse distances need the order (token, expert). It also makes the sums of
  // weights independent of the order in which experts run.
  std::sort(choices_.begin(), choices_.end(), [](const ExpertChoice& a, const ExpertChoice& b) {
    return std::tie(a.token, a.expert) < std::tie(b.token, b.expert);
  });
  LayerMeasurement measured;
  LayerProfile& profile = measured.profile;
  profile.layer = layer_;
  profile.tokens = text_.count();
  profile.selections = zeros(experts_);
  profile.mass.resize(static_cast<size_t>(experts_));
  if (parts_.pairs) profile.together = zeros(count_pairs(experts_));
  profile.by_category.assign(text_.categories.size(), zeros(experts_));
  measured.by_document.assign(text_.category_of.size(), zeros(experts_));
  measured.halves = {zeros(experts_), zeros(experts_)};
  measured.reuse = zeros(experts_);
  RecentExperts recent;
  for (const ExpertChoice& choice : choices_)
    if (const auto distance = recent.use(choice.expert)) ++measured.reuse[*distance];
  // The parts ascend by first token, so the choices of each part are a prefix of the rest.
  std::span<const ExpertChoice> rest = choices_;
  for (const TextPart& part : text_.parts) {
    const auto end = std::find_if(rest.begin(), rest.end(), [&](const ExpertChoice& one) {
      return one.token >= part.first + part.count;
    });
    count_part(part, {rest.begin(), end}, measured);
    rest = {end, rest.end()};
  }
  finish_means(profile);
  measured.sums = std::move(sums_);
  measured.choices = std::move(choices_);
  return measured;
}

}  // namespace moec
