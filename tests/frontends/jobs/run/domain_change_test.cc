// Detects when tokens start to select other experts; with --policy pinned, the newly selected
// experts are pinned.
#include <gmock/gmock.h>

#include "backends/formats/read_shard.h"
#include "backends/manifest/manifest_file.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

constexpr int64_t kTinyExperts = 16, kTinyLayers = 4;

class SteppedStore {
 public:
  explicit SteppedStore(const ExpertStoreOptions& options) {
    const std::string out = fresh_folder("out");
    expect_fine(export_case("tinymoe", out, {"--experts-per-shard", "4"}));
    auto opened = ExpertStore::open(read_manifest(out).value(), out, options);
    EXPECT_TRUE(opened) << render(opened.error());
    store_ = std::move(*opened);
  }

  // Processes a token that selects these experts in each layer. Each expert has a separate file, so
  // its unit equals its number.
  void token(const std::vector<int64_t>& experts) {
    for (int64_t layer = 0; layer < kTinyLayers; ++layer) {
      Rows weights{kTinyExperts, std::vector<float>(kTinyExperts)};
      for (const int64_t expert : experts) weights.data[static_cast<size_t>(expert)] = 0.5F;
      ASSERT_TRUE(store_->begin_layer(layer, weights));
      for (const int64_t expert : experts) {
        const auto unit = static_cast<size_t>(layer * kTinyExperts + expert);
        ASSERT_NE(store_->acquire(unit).value(), nullptr);
        store_->release(unit);
      }
    }
  }

  int64_t hits_of(const std::vector<int64_t>& experts) {
    const int64_t before = store_->counts().hits;
    token(experts);
    return store_->counts().hits - before;
  }

  const ExpertStore& operator*() const { return *store_; }

 private:
  std::unique_ptr<ExpertStore> store_;
};

// With four slots: experts 0 and 1 for three windows, then 8 together with each other expert in
// turn.
void change_the_domain(SteppedStore& store) {
  for (int64_t token = 0; token < 3 * kWindowTokens; ++token) store.token({0, 1});
  for (int64_t token = 0; token < kWindowTokens; ++token) store.token({8, 9 + token % 5});
  store.token({0, 1});
}

const std::vector<ExpertId> kFirstDomain = {{0, 0}, {0, 1}, {1, 0}, {1, 1},
                                            {2, 0}, {2, 1}, {3, 0}, {3, 1}};

TEST(DomainChange, IsReportedOnce) {
  std::vector<DomainChange> told;
  SteppedStore store({.capacity = 4,
                      .reads = ExpertReads::serial,
                      .on_change = [&](const DomainChange& change) { told.push_back(change); }});
  change_the_domain(store);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ((*store).changes(), told);
  EXPECT_EQ(told[0].token, 3 * kWindowTokens);
  EXPECT_DOUBLE_EQ(told[0].before, 1);  // after the first window, which fills the slots
  EXPECT_LT(told[0].within, 0.6);
}

TEST(DomainChange, PinsNewlySelectedExperts) {
  const auto pinned_hits = [](std::vector<ExpertId> pinned, bool changes) {
    SteppedStore store({.capacity = 4,
                        .policy = PolicyKind::pinned,
                        .pinned = std::move(pinned),
                        .reads = ExpertReads::serial,
                        .pin_top_k = 1});
    if (changes) change_the_domain(store);
    store.token({8, 9});
    for (const int64_t other : {2, 4, 6}) store.token({other, other + 1});
    return store.hits_of({8, 15});
  };
  // Expert 8 stays resident if it is pinned from the start or since the domain change.
  EXPECT_EQ(pinned_hits(kFirstDomain, false), 0);
  EXPECT_EQ(pinned_hits(kFirstDomain, true), kTinyLayers);
  EXPECT_EQ(pinned_hits({{0, 8}, {1, 8}, {2, 8}, {3, 8}}, false), kTinyLayers);
}

// Repeats one token, then processes many different ones.
std::vector<float> logits_of_two_domains(Session& session) {
  std::vector<int64_t> tokens(4 * kWindowTokens, 'e');
  for (int64_t i = 0; i < 2 * kWindowTokens; ++i) tokens.push_back(i * 89 % 256);
  std::vector<float> logits;
  for (size_t begin = 0; begin < tokens.size(); begin += kWindowTokens) {
    session.reset();
    for (size_t i = 0; i < kWindowTokens; ++i) {
      const auto rows = session.feed(std::span(tokens).subspan(begin + i, 1));
      EXPECT_TRUE(rows) << render(rows.error());
      logits.insert(logits.end(), rows->data.begin(), rows->data.end());
    }
  }
  return logits;
}

TEST(DomainChange, KeepsResults) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out,
                          {"--experts-per-shard", "4", "--tokens", "1", "--context", "128"}));
  const auto open = [&](std::optional<ExpertStoreOptions> experts) {
    auto session = Session::open(out, read_shard, {.experts = std::move(experts)});
    EXPECT_TRUE(session) << render(session.error());
    return std::move(*session);
  };
  Session all = open(std::nullopt);
  Session some =
      open(ExpertStoreOptions{.capacity = 5, .policy = PolicyKind::pinned, .pinned = kFirstDomain});
  EXPECT_EQ(logits_of_two_domains(some), logits_of_two_domains(all));
  EXPECT_EQ(some.experts()->changes().size(), 1u);
}

}  // namespace
}  // namespace moec
