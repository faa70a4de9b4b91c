#include "backends/runtime/session/session_memory.h"

#include <gmock/gmock.h>

#include "tests/backends/manifest/sample.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// Caches of 4 MiB per layer in f32.
Manifest with_caches() {
  Manifest manifest;
  manifest.build.tokens = {1};
  manifest.build.context = 1024;
  for (int64_t layer = 0; layer < 8; ++layer)
    manifest.caches.push_back({layer, 4, 1024, 128, 128, DType::f32});
  return manifest;
}

std::string next_step(uint64_t memory, const SessionCaches& caches) {
  const auto room = room_for_shards(with_caches(), memory, caches);
  EXPECT_FALSE(room);
  return room ? "" : room.error().front().next_step;
}

TEST(SessionMemoryParts, HalveF16Caches) {
  const auto caches = [](int64_t sequences, DType dtype) {
    return parts_beside_shards(with_caches(), {sequences, dtype}).caches;
  };
  EXPECT_EQ(caches(3, DType::f32) - caches(2, DType::f32), 32 * kMebibyte);
  EXPECT_EQ(caches(3, DType::f16) - caches(2, DType::f16), 16 * kMebibyte);
}

TEST(SessionMemoryParts, NameWhatFits) {
  // The program has 48 MiB, the caches have 32 and two copies of 4.
  EXPECT_THAT(next_step(68 * kMebibyte, {}),
              AllOf(HasSubstr("--memory 89 or larger"), HasSubstr("--cache-dtype f16"),
                    HasSubstr("--context 511 or less")));
  EXPECT_THAT(next_step(60 * kMebibyte, {1, DType::f16}), Not(HasSubstr("--cache-dtype")));
  EXPECT_THAT(next_step(40 * kMebibyte, {}), Not(HasSubstr("--context")));
}

}  // namespace
}  // namespace moec
