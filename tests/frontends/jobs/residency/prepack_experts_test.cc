// moec prepack, and runs that load its files.
#include "frontends/jobs/residency/prepack_experts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/runtime/experts/prepacked_file.h"
#include "ir/experts/expert_profile.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;

// A profile in which each of tinymoe's 4 layers of 16 experts selected these experts, the first one
// most often.
std::string profile_of(const std::vector<int64_t>& experts, int64_t tokens) {
  ExpertProfile profile{"tinymoe", "", "export", "", 16, 2, {}, {}};
  for (int64_t layer = 0; layer < 4; ++layer) {
    LayerProfile& each = profile.layers.emplace_back();
    each.layer = layer;
    each.tokens = 16 * tokens;
    each.selections.resize(16);
    for (size_t i = 0; i < experts.size(); ++i)
      each.selections[static_cast<size_t>(experts[i])] = tokens - static_cast<int64_t>(i);
  }
  const std::string path =
      fresh_folder(fmt::format("profile{}{}", tokens, experts.size())) + "/profile.json";
  write_file(path, expert_profile_text(profile));
  return path;
}

struct PackedModel {
  std::string out, file;

  explicit PackedModel(const std::string& name = "model", const char* experts = "4")
      : out(fresh_folder(name) + "/out"), file(fresh_folder(name + "_pack") + "/warm.pack") {
    expect_fine(export_case("tinymoe", out, {"--experts-per-shard", experts}));
  }
  Outcome prepack(Words more) const {
    Words words = {"prepack", out, "--out", file};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  Outcome run(Words more) const {
    Words words = {"run", out, "--prompt", "def ", "-n", "16"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
};

std::vector<int64_t> experts_of_layer(const PrepackedTable& table, int64_t layer) {
  std::vector<int64_t> experts;
  for (const PrepackedExpert& expert : table.resident)
    if (expert.key.layer == layer) experts.push_back(expert.key.expert);
  return experts;
}

TEST(Prepack, PacksTheMostSelectedExperts) {
  const PackedModel model;
  const Outcome told =
      model.prepack({"--profile", profile_of({3, 9, 1}, 100), "--profile", profile_of({7, 9}, 80),
                     "--capacity", "4", "--pin-top-k", "2", "--json"});
  expect_fine(told);
  const auto json = nlohmann::json::parse(told.out);
  EXPECT_EQ(json["experts"], 16);
  EXPECT_EQ(json["pinned"], 8);
  const PrepackedFile pack = PrepackedFile::open(model.file).value();
  // 9 has 99 + 79, 3 has 100, 1 has 98, 7 has 80.
  for (int64_t layer = 0; layer < 4; ++layer)
    EXPECT_EQ(experts_of_layer(pack.table(), layer), (std::vector<int64_t>{9, 3, 1, 7}));
  ASSERT_NE(pack.find({2, 3}), nullptr);
  EXPECT_TRUE(pack.find({2, 3})->pinned);
  EXPECT_FALSE(pack.find({2, 1})->pinned);
  EXPECT_EQ(pack.find({2, 2}), nullptr);
  uint64_t last = 0;
  for (const PrepackedExpert& expert : pack.table().resident) {
    EXPECT_EQ(expert.offset % kPrepackedPage, 0u);
    EXPECT_GT(expert.offset, last);
    last = expert.offset;
  }
  EXPECT_THAT(read_file(model.file),
              HasSubstr("\"slot_of\": [-1, 2, -1, 1, -1, -1, -1, 3, -1, 0,"));
}

TEST(Prepack, WarmsRunsWithoutChangingResults) {
  const PackedModel model;
  const Outcome plain = model.run({});
  expect_fine(model.prepack(
      {"--profile", profile_of({3, 9, 1, 5}, 100), "--capacity", "4", "--pin-top-k", "2"}));
  const Outcome warm = model.run({"--prepacked", model.file});
  EXPECT_EQ(warm.out, plain.out);
  EXPECT_THAT(warm.err, HasSubstr("[experts: 4 per layer"));
  EXPECT_THAT(warm.err, HasSubstr("[initial load: 16 experts, "));
  const Outcome fewer = model.run({"--prepacked", model.file, "--capacity", "3"});
  EXPECT_EQ(fewer.out, plain.out);
  EXPECT_THAT(fewer.err, HasSubstr("[initial load: 12 experts, "));
  const Outcome more = model.run({"--prepacked", model.file, "--capacity", "9", "--policy", "lcp"});
  EXPECT_EQ(more.out, plain.out);
  EXPECT_THAT(more.err, HasSubstr("[initial load: 16 experts, "));
  EXPECT_THAT(model.run({"--prepacked", model.file, "--state", model.file + ".json"}).err,
              HasSubstr("run.flags"));
}

TEST(Prepack, RejectsDamagedFiles) {
  const PackedModel model;
  expect_fine(model.prepack({"--profile", profile_of({3, 9}, 100), "--capacity", "4"}));
  const std::string whole = read_file(model.file);
  const auto refused = [&](const std::string& bytes, const std::string& code) {
    write_file(model.file, bytes);
    const Outcome outcome = model.run({"--prepacked", model.file, "--capacity", "4"});
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr("[prepacked." + code));
  };
  const auto changed = [&](size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  refused("text", "file");
  refused(changed(0), "file");
  refused(changed(8), "version");
  refused(changed(kPrepackedPage + 100), "damaged");
  refused(changed(whole.size() - 100), "damaged");
  refused(changed(whole.size() - 64), "truncated");
  for (const size_t bytes : {whole.size() - 1, whole.size() / 2, size_t{kPrepackedPage}})
    refused(whole.substr(0, bytes), "truncated");
  EXPECT_THAT(model.run({"--prepacked", model.file + "x"}).err, HasSubstr("[prepacked.file"));
  // Rejects a pack of another export.
  write_file(model.file, whole);
  const PackedModel other("other", "8");
  EXPECT_THAT(other.run({"--prepacked", model.file}).err, HasSubstr("[session.prepacked"));
}

TEST(Prepack, RejectsUnsupportedInput) {
  const PackedModel model;
  const std::string profile = profile_of({3, 9}, 100);
  const auto error = [&](Words more) { return model.prepack(std::move(more)).err; };
  EXPECT_THAT(error({"--profile", profile, "--capacity", "4", "--pin-top-k", "3"}),
              HasSubstr("[prepack.pin_top_k"));
  EXPECT_THAT(error({"--profile", profile_of({}, 100), "--capacity", "4"}),
              HasSubstr("[prepack.empty"));
  EXPECT_THAT(error({"--profile", model.out, "--capacity", "4"}), HasSubstr("[profile.file"));
  EXPECT_FALSE(std::filesystem::exists(model.file));
  std::filesystem::create_directory(model.file);
  EXPECT_THAT(error({"--profile", profile, "--capacity", "4"}), HasSubstr("[output.exists"));
  EXPECT_THAT(run_command({"prepack", model.out, "--profile", profile, "--capacity", "4", "--out",
                           model.out + "/p"})
                  .err,
              HasSubstr("[output.in_source"));
}

TEST(PinTopK, PinsTheMostSelectedExperts) {
  const PackedModel model;
  const Outcome plain = model.run({});
  const std::string profile = profile_of({3, 9, 1, 5}, 100);
  const Outcome pinned = model.run({"--capacity", "4", "--pin-top-k", "2", "--profile", profile});
  EXPECT_EQ(pinned.out, plain.out);
  EXPECT_THAT(model.run({"--capacity", "4", "--pin-top-k", "3", "--profile", profile}).err,
              HasSubstr("[session.pin_top_k"));
  EXPECT_THAT(model.run({"--capacity", "4", "--pin-top-k", "2"}).err, HasSubstr("[run.flags"));
  EXPECT_THAT(
      model.run({"--capacity", "4", "--pin-top-k", "2", "--profile", profile, "--policy", "lru"})
          .err,
      HasSubstr("[run.flags"));
}

}  // namespace
}  // namespace moec
