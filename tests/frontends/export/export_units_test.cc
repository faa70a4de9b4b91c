// Units of shards that the export of several targets processes together.
#include "frontends/export/export_units.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ShardDecl shard(ShardKind kind, int64_t layer, int64_t layers = 1) {
  ShardDecl decl;
  decl.kind = kind;
  decl.layer = layer;
  decl.layers = layers;
  return decl;
}

Plan plan_of(std::vector<ShardDecl> shards, size_t layers = 2) {
  Plan plan;
  plan.model.layers.resize(layers);
  plan.shards = std::move(shards);
  return plan;
}

// Returns the indices of shards, by unit and target.
std::vector<std::vector<std::vector<size_t>>> units_of(std::initializer_list<const Plan*> plans) {
  std::vector<PackagedPlan> targets;
  for (const Plan* plan : plans) targets.push_back({plan, shard_packages(*plan, {})});
  std::vector<std::vector<std::vector<size_t>>> units;
  for (const ExportUnit& unit : export_units(std::move(targets))) {
    units.emplace_back();
    for (const std::vector<ShardPackage>& packages : unit.packages) {
      units.back().emplace_back();
      for (const ShardPackage& package : packages)
        units.back().back().push_back(package.shards.front());
    }
  }
  return units;
}

std::vector<std::vector<std::vector<size_t>>> units_of(const Plan& a, const Plan& b) {
  return units_of({&a, &b});
}

template <class... Lists>
auto unit(Lists... lists) {
  return ElementsAre(lists...);
}

const Plan kWhole = plan_of({shard(ShardKind::attention, 0), shard(ShardKind::moe, 0),
                             shard(ShardKind::attention, 1), shard(ShardKind::mlp, 1),
                             shard(ShardKind::lm_head, -1)});

TEST(ExportUnits, SeparateShardsOfASingleTarget) {
  const Plan groups = plan_of({shard(ShardKind::experts, 0), shard(ShardKind::experts, 0)}, 1);
  EXPECT_THAT(units_of({&groups}), ElementsAre(unit(ElementsAre(0)), unit(ElementsAre(1))));
}

TEST(ExportUnits, MatchPartsOfALayer) {
  const Plan cut = plan_of({shard(ShardKind::attention, 0), shard(ShardKind::router, 0),
                            shard(ShardKind::experts, 0), shard(ShardKind::experts, 0),
                            shard(ShardKind::attention, 1), shard(ShardKind::mlp, 1),
                            shard(ShardKind::lm_head, -1), shard(ShardKind::lm_head, -1)});
  EXPECT_THAT(
      units_of(kWhole, cut),
      ElementsAre(unit(ElementsAre(0), ElementsAre(0)), unit(ElementsAre(1), ElementsAre(1, 2, 3)),
                  unit(ElementsAre(2), ElementsAre(4)), unit(ElementsAre(3), ElementsAre(5)),
                  unit(ElementsAre(4), ElementsAre(6, 7))));
}

TEST(ExportUnits, IncludePartsInWholeLayers) {
  const Plan joined = plan_of({shard(ShardKind::layers, 0, 2), shard(ShardKind::lm_head, -1)});
  EXPECT_THAT(units_of(kWhole, joined), ElementsAre(unit(ElementsAre(0, 1, 2, 3), ElementsAre(0)),
                                                    unit(ElementsAre(4), ElementsAre(1))));
  const Plan pairs = plan_of({shard(ShardKind::layers, 0, 2), shard(ShardKind::layers, 2, 2)}, 4);
  const Plan uneven = plan_of({shard(ShardKind::layers, 0, 3), shard(ShardKind::layers, 3)}, 4);
  EXPECT_THAT(units_of(pairs, uneven), ElementsAre(unit(ElementsAre(0, 1), ElementsAre(0, 1))));
}

TEST(ExportUnits, AllowMissingShards) {
  const Plan headless = plan_of({shard(ShardKind::attention, 0)});
  EXPECT_THAT(units_of(headless, kWhole).back(), unit(IsEmpty(), ElementsAre(4)));
}

// Returns the first shards of the packages of each share.
std::vector<std::vector<size_t>> shares_of(const std::vector<uint64_t>& bytes, uint64_t table_bytes,
                                           int64_t count) {
  std::vector<ShardPackage> packages;
  for (size_t i = 0; i < bytes.size(); ++i) packages.push_back({"", {i}});
  std::vector<std::vector<size_t>> shares;
  for (int64_t index = 0; index < count; ++index) {
    shares.emplace_back();
    for (const ShardPackage& package :
         packages_of_share({index, count}, packages, bytes, table_bytes))
      shares.back().push_back(package.shards.front());
  }
  return shares;
}

TEST(PackagesOfShare, AreConsecutiveAndOfEqualBytes) {
  EXPECT_THAT(shares_of({10, 10, 10, 10, 10, 10}, 0, 3),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(shares_of({5, 25, 5, 25}, 0, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(PackagesOfShare, CountTheTablesOfTheFirst) {
  EXPECT_THAT(shares_of({10, 10, 10}, 30, 2), ElementsAre(IsEmpty(), ElementsAre(0, 1, 2)));
}

TEST(PackagesOfShare, AreEmptyWithFewPackages) {
  EXPECT_THAT(shares_of({8}, 0, 3), ElementsAre(IsEmpty(), ElementsAre(0), IsEmpty()));
}

// Shards without weights have no bytes.
TEST(PackagesOfShare, DistributePackagesWithoutWeights) {
  EXPECT_THAT(shares_of({0, 0, 0, 0}, 0, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(PackagesOfShare, SupportHugeModels) {
  const std::vector<uint64_t> bytes(4, uint64_t{1} << 61);
  EXPECT_THAT(shares_of(bytes, 0, 4),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

}  // namespace
}  // namespace moec
