#include "models/cluster/assign_devices.h"

#include "tests/models/expect_error.h"

namespace moec {
namespace {

using Indices = std::vector<size_t>;

// Two layers, each with a trunk shard (10 bytes, 4 of activations) and two expert groups (30 bytes,
// 2 of activations).
std::vector<DeviceUnit> units() {
  std::vector<DeviceUnit> all;
  for (int64_t layer = 0; layer < 2; ++layer) {
    const std::string label = "L" + std::to_string(layer);
    all.push_back({label + ".attn", layer, -1, 10, 4, 10});
    all.push_back({label + ".g0", layer, 0, 30, 2, 15});
    all.push_back({label + ".g1", layer, 1, 30, 2, 15});
  }
  return all;
}

TEST(AssignDevices, FillsDevicesInLayerOrder) {
  const auto loads = assign_devices(units(), {{"a", 100}, {"b", 100}}, TrunkPlacement::layers);
  ASSERT_TRUE(loads.has_value()) << render(loads.error());
  EXPECT_EQ((*loads)[0].units, (Indices{0, 1, 2}));
  EXPECT_EQ((*loads)[1].units, (Indices{3, 4, 5}));
  EXPECT_EQ((*loads)[1].needed(), 74);
  EXPECT_EQ((*loads)[0].token_bytes, 40);
}

TEST(AssignDevices, PutsEachUnitOnOneDevice) {
  for (const TrunkPlacement trunk : {TrunkPlacement::layers, TrunkPlacement::replicated}) {
    const auto loads = assign_devices(units(), {{"a", 150}, {"b", 60}, {"c", 90}}, trunk);
    ASSERT_TRUE(loads.has_value()) << render(loads.error());
    std::vector<int> held(units().size());
    for (size_t d = 0; d < 3; ++d)
      for (const size_t unit : (*loads)[d].units) ++held[unit];
    for (size_t i = 0; i < held.size(); ++i)
      EXPECT_EQ(held[i], trunk == TrunkPlacement::replicated && !units()[i].experts() ? 3 : 1);
  }
}

TEST(AssignDevices, PrefersTheDeviceWithMostRoom) {
  const auto loads = assign_devices(units(), {{"a", 118}, {"b", 57}}, TrunkPlacement::replicated);
  ASSERT_TRUE(loads.has_value()) << render(loads.error());
  EXPECT_EQ((*loads)[0].units, (Indices{0, 3, 1, 2, 4}));
  EXPECT_EQ((*loads)[1].units, (Indices{0, 3, 5}));
  EXPECT_EQ((*loads)[0].needed(), 114);
}

TEST(AssignDevices, NamesTheTooSmallDevice) {
  // 140 bytes and 4 of activations: the first device needs 70 + 4, so the second needs 74.
  const auto missing = assign_devices(units(), {{"a", 74}, {"b", 73}}, TrunkPlacement::layers);
  expect_error(missing, "plan.devices", "device b lacks 1 bytes");
  EXPECT_TRUE(assign_devices(units(), {{"a", 74}, {"b", 74}}, TrunkPlacement::layers).has_value());
  expect_error(assign_devices(units(), {{"a", 100}, {"b", 23}}, TrunkPlacement::replicated),
               "plan.devices", "device b lacks 1 bytes: the trunk needs");
  expect_error(assign_devices(units(), {{"a", 54}, {"b", 113}}, TrunkPlacement::replicated),
               "plan.devices", "device b lacks 1 bytes: 1 of 4 expert groups");
  EXPECT_TRUE(
      assign_devices(units(), {{"a", 54}, {"b", 114}}, TrunkPlacement::replicated).has_value());
}

// Both devices have g0 of both layers; the first has g1 of layer 0, the second g1 of layer 1.
const GroupCopies kCopies = {{0, {{0, 1}, {0}}}, {1, {{0}, {1, 0}}}};

TEST(AssignCopies, GivesEachDeviceTrunkAndCopies) {
  const auto loads = assign_copies(units(), {{"a", 200}, {"b", 200}}, kCopies);
  ASSERT_TRUE(loads.has_value()) << render(loads.error());
  EXPECT_EQ((*loads)[0].units, (Indices{0, 3, 1, 2, 4}));
  EXPECT_EQ((*loads)[1].units, (Indices{0, 3, 1, 4, 5}));
  EXPECT_EQ((*loads)[0].needed(), 2 * 10 + 3 * 30 + 4);
  // The trunk, one whole group, and half of each of the two groups that both devices contain.
  EXPECT_EQ((*loads)[0].token_bytes, 2 * 10 + 15 + 2 * 7.5);
}

TEST(AssignCopies, CountsRepeatedCopiesOnce) {
  const auto loads =
      assign_copies(units(), {{"a", 200}, {"b", 200}}, {{0, {{0, 0}, {1}}}, {1, {{0}, {1}}}});
  ASSERT_TRUE(loads.has_value()) << render(loads.error());
  EXPECT_EQ((*loads)[0].units, (Indices{0, 3, 1, 4}));
}

TEST(AssignCopies, NamesTheTooSmallDevice) {
  expect_error(assign_copies(units(), {{"a", 114}, {"b", 113}}, kCopies), "plan.devices",
               "device b lacks 1 bytes: the trunk and its copies of experts need");
  EXPECT_TRUE(assign_copies(units(), {{"a", 114}, {"b", 114}}, kCopies).has_value());
}

}  // namespace
}  // namespace moec
