#include "ir/base/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace moec {
namespace {

// A sum over no tokens has mean 0 instead of NaN, which JSON cannot represent.
double mean_of(const PartialSum& total) { return total.count > 0 ? total.sum / total.count : 0; }

void add(PartialSum& total, const PartialSum& part) {
  total.sum += part.sum;
  total.count += part.count;
}

// Uses the engine's output directly: it is portable, unlike the output of the standard
// distributions.
double resampled_mean(std::span<const PartialSum> documents, std::mt19937_64& random) {
  PartialSum total;
  // Draws whole documents, because the tokens of one document are not independent.
  for (size_t i = 0; i < documents.size(); ++i) add(total, documents[random() % documents.size()]);
  return mean_of(total);
}

}  // namespace

BootstrapMean bootstrap_mean(std::span<const PartialSum> documents, uint64_t seed) {
  PartialSum total;
  for (const PartialSum& document : documents) add(total, document);
  BootstrapMean result{mean_of(total), std::nullopt};
  if (documents.size() < 2) return result;
  std::mt19937_64 random(seed);
  std::vector<double> means;
  for (int i = 0; i < kBootstrapResamples; ++i) means.push_back(resampled_mean(documents, random));
  std::sort(means.begin(), means.end());
  constexpr size_t kOutside = kBootstrapResamples / 40;  // 2.5 % at either end
  result.bounds = {means[kOutside], means[means.size() - 1 - kOutside]};
  return result;
}

}  // namespace moec
