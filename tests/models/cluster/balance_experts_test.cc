#include "models/cluster/balance_experts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

// The example of EPLB's README: two layers of 12 experts.
const std::vector<double> kLayer0 = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
const std::vector<double> kLayer1 = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
constexpr BalanceOptions kPublished{.replicas = 16, .groups = 4, .nodes = 2, .devices = 8};

ExpertBalance balance(const std::vector<double>& loads, const BalanceOptions& options) {
  auto result = balance_experts(loads, options);
  EXPECT_TRUE(result.has_value()) << render(result.error());
  return result ? *result : ExpertBalance();
}

double max_over_mean(const std::vector<double>& loads) {
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) /
         std::accumulate(loads.begin(), loads.end(), 0.0);
}

TEST(BalanceExperts, ReproducesThePublishedExample) {
  EXPECT_EQ(balance(kLayer0, kPublished).expert_of,
            (std::vector<int64_t>{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  EXPECT_EQ(balance(kLayer1, kPublished).expert_of,
            (std::vector<int64_t>{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
}

// The largest device load divided by the mean load, computed by an independent implementation.
TEST(BalanceExperts, ReproducesLoadsOfThePublishedExample) {
  const BalanceOptions global{.replicas = 16, .groups = 1, .nodes = 2, .devices = 8};
  auto ratio = [](const std::vector<double>& loads, const BalanceOptions& options) {
    return max_over_mean(device_loads(loads, balance(loads, options), options.devices));
  };
  EXPECT_NEAR(ratio(kLayer0, kPublished), 1.208, 5e-4);
  EXPECT_NEAR(ratio(kLayer1, kPublished), 1.242, 5e-4);
  EXPECT_NEAR(ratio(kLayer0, global), 1.073, 5e-4);
  EXPECT_NEAR(ratio(kLayer1, global), 1.190, 5e-4);
}

TEST(BalanceExperts, KeepsOrderWithoutReplicas) {
  const BalanceOptions options{.replicas = 4, .devices = 4};
  EXPECT_EQ(balance({1, 5, 2, 9}, options).expert_of, (std::vector<int64_t>{0, 1, 2, 3}));
}

// Returns random valid options.
BalanceOptions random_options(std::mt19937& random, int64_t experts) {
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  BalanceOptions options;
  options.nodes = 1 + below(3);
  options.devices = options.nodes * (1 + below(3));
  do options.groups = 1 + below(experts);
  while (experts % options.groups != 0);
  const int64_t least = (experts + options.devices - 1) / options.devices;
  options.replicas = options.devices * (least + below(experts - least + 1));
  return options;
}

// Checks that expert_of and slots_of are inverse to each other.
void expect_inverse(const ExpertBalance& balance) {
  size_t listed = 0;
  for (size_t expert = 0; expert < balance.slots_of.size(); ++expert) {
    EXPECT_FALSE(balance.slots_of[expert].empty()) << "expert " << expert;
    for (int64_t slot : balance.slots_of[expert])
      EXPECT_EQ(balance.expert_of.at(static_cast<size_t>(slot)), static_cast<int64_t>(expert));
    listed += balance.slots_of[expert].size();
  }
  EXPECT_EQ(listed, balance.expert_of.size());
}

// Checks that the hierarchical policy keeps all copies of a group's experts on one node.
void expect_groups_together(const ExpertBalance& balance, const BalanceOptions& options) {
  const auto experts = static_cast<int64_t>(balance.slots_of.size());
  std::vector<int64_t> node_of(static_cast<size_t>(options.groups), -1);
  for (size_t slot = 0; slot < balance.expert_of.size(); ++slot) {
    const int64_t group = balance.expert_of[slot] / (experts / options.groups);
    const int64_t node = static_cast<int64_t>(slot) / (options.replicas / options.nodes);
    int64_t& known = node_of[static_cast<size_t>(group)];
    if (known < 0) known = node;
    EXPECT_EQ(known, node) << "group " << group;
  }
}

TEST(BalanceExperts, KeepsInvariantsForRandomLoads) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    std::vector<double> loads(2 + random() % 14);
    for (double& load : loads) load = static_cast<double>(random() % 100);
    const BalanceOptions options = random_options(random, static_cast<int64_t>(loads.size()));
    const ExpertBalance result = balance(loads, options);
    ASSERT_EQ(result.expert_of.size(), static_cast<size_t>(options.replicas));
    expect_inverse(result);
    if (options.groups % options.nodes == 0) expect_groups_together(result, options);
    const std::vector<double> devices = device_loads(loads, result, options.devices);
    EXPECT_NEAR(std::accumulate(devices.begin(), devices.end(), 0.0),
                std::accumulate(loads.begin(), loads.end(), 0.0), 1e-9);
  }
}

double largest_load_of_a_copy(const std::vector<double>& loads, const ExpertBalance& balance) {
  double largest = 0;
  for (size_t expert = 0; expert < loads.size(); ++expert)
    largest =
        std::max(largest, loads[expert] / static_cast<double>(balance.slots_of[expert].size()));
  return largest;
}

// Smallest possible maximum load per copy, found by exhaustive search.
double least_possible(const std::vector<double>& loads, size_t expert, int64_t copies) {
  const auto behind = static_cast<int64_t>(loads.size() - expert) - 1;
  if (behind == 0) return loads[expert] / static_cast<double>(copies);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t own = 1; own + behind <= copies; ++own)
    least = std::min(least, std::max(loads[expert] / static_cast<double>(own),
                                     least_possible(loads, expert + 1, copies - own)));
  return least;
}

TEST(BalanceExperts, MinimizesTheLargestCopyLoad) {
  std::mt19937 random(11);
  for (int i = 0; i < 50; ++i) {
    std::vector<double> loads(2 + random() % 4);
    for (double& load : loads) load = static_cast<double>(random() % 50);
    const auto experts = static_cast<int64_t>(loads.size());
    for (int64_t devices = 2; devices <= 3; ++devices)
      for (int64_t replicas = devices * ((experts + devices - 1) / devices);
           replicas <= experts * devices; replicas += devices) {
        const BalanceOptions options{.replicas = replicas, .devices = devices};
        EXPECT_DOUBLE_EQ(largest_load_of_a_copy(loads, balance(loads, options)),
                         least_possible(loads, 0, replicas));
      }
  }
}

TEST(BalanceExperts, RejectsImpossibleCounts) {
  auto refuse = [](const BalanceOptions& options, const std::string& part) {
    expect_error(balance_experts(kLayer0, options), "balance.counts", part);
  };
  refuse({.replicas = 16, .groups = 5, .nodes = 1, .devices = 8}, "12 experts are not divisible");
  refuse({.replicas = 16, .groups = 4, .nodes = 3, .devices = 8}, "8 devices are not divisible");
  refuse({.replicas = 15, .groups = 4, .nodes = 2, .devices = 8}, "multiple of 8 from 16 to 96");
  refuse({.replicas = 8, .groups = 4, .nodes = 2, .devices = 8}, "8 replicas of 12 experts");
  refuse({.replicas = 104, .groups = 4, .nodes = 2, .devices = 8}, "104 replicas of 12 experts");
  refuse({.replicas = 16, .groups = 0, .nodes = 2, .devices = 8}, "0 groups");
  refuse({.replicas = 16, .groups = 4, .nodes = 0, .devices = 8}, "0 nodes");
  refuse({.replicas = 16, .groups = 4, .nodes = 2, .devices = 0}, "0 devices");
  refuse({.replicas = 16, .groups = 1, .nodes = 1, .devices = int64_t{1} << 40}, "from 1 to 65536");
  expect_error(balance_experts({}, {.replicas = 1}), "balance.counts", "0 experts");
}

TEST(BalanceExperts, RejectsImpossibleLoads) {
  const BalanceOptions options{.replicas = 2, .devices = 2};
  for (double bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    expect_error(balance_experts(std::vector<double>{1, bad}, options), "balance.load",
                 "the load of expert 1");
}

}  // namespace
}  // namespace moec
