// Models without experts work throughout the program; features that need experts report that the
// model has none.
#include <gmock/gmock.h>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string dense_checkpoint() { return checkpoint_of("llama_a"); }

std::string dense_export() {
  const std::string out = fresh_folder("dense");
  expect_fine(export_case("llama_a", out, {"--tokens", "1,4"}));
  return out;
}

TEST(DenseModel, OmitsRoutingFromReports) {
  const std::string out = dense_export();
  for (const char* command : {"inspect", "check"}) {
    const Outcome outcome = run_command({command, out});
    expect_fine(outcome);
    EXPECT_THAT(outcome.out, HasSubstr("no experts")) << command;
    EXPECT_THAT(outcome.out, Not(HasSubstr("routing"))) << command;
  }
}

TEST(DenseModel, NotesIgnoredExpertFlags) {
  const std::string out = fresh_folder("dense_host");
  const Words host = {"--tokens", "1,4", "--routing", "host"};
  const Outcome outcome = export_case("llama_a", out, host);
  expect_fine(outcome);
  EXPECT_THAT(outcome.err + outcome.out, HasSubstr("note[plan.no_experts]"));
  expect_fine(validate_case("llama_a", out));
}

TEST(DenseModel, RunsWithoutExperts) {
  const Outcome outcome =
      run_command({"run", dense_export(), "--prompt-tokens", "1,2,3", "--max-tokens", "3"});
  expect_fine(outcome);
}

// A feature that needs experts, and the code of its error.
struct Refusal {
  const char* name;
  const char* code;
  std::function<Words(const std::string& out, const std::string& tokens)> words;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

const Refusal kRefusals[] = {
    {"analyze", "analyze.no_experts",
     [](auto&, auto& tokens) -> Words {
       return {"analyze", dense_checkpoint(), "--tokens", tokens, "--out", fresh_folder("a")};
     }},
    {"analyze_export", "analyze.no_experts",
     [](auto& out, auto& tokens) -> Words {
       return {"analyze", out, "--tokens", tokens, "--out", fresh_folder("b")};
     }},
    {"trace", "analyze.no_experts",
     [](auto& out, auto& tokens) -> Words {
       return {"trace", out, "--tokens", tokens, "--out", fresh_folder("t") + ".csv"};
     }},
    {"discover", "analyze.no_experts",
     [](auto& out, auto& tokens) -> Words {
       return {"discover", out, "--tokens", tokens, "--out", fresh_folder("d") + ".json"};
     }},
    {"probe", "session.no_experts",
     [](auto& out, auto& tokens) -> Words {
       return {"probe", out, "--tokens", tokens};
     }},
    {"place", "place.no_experts",
     [](auto&, auto&) -> Words {
       return {"place", dense_checkpoint(), "--nodes", "2"};
     }},
    {"split", "split.no_experts",
     [](auto& out, auto&) -> Words {
       return {"split", out, "--out", fresh_folder("s")};
     }},
    {"slots", "session.no_experts",
     [](auto& out, auto&) -> Words {
       return {"run", out, "--prompt-tokens", "1", "--capacity", "2"};
     }},
    {"mask", "session.no_experts",
     [](auto& out, auto&) -> Words {
       return {"run", out, "--prompt-tokens", "1", "--expert-mask", "L0:0-1"};
     }},
    {"gates", "run.no_gates",
     [](auto& out, auto&) -> Words {
       return {"run", out, "--prompt-tokens", "1", "--log-gates", fresh_folder("g") + ".csv"};
     }},
    {"sensitivity", "calibrate.no_experts",
     [](auto&, auto& tokens) -> Words {
       return {"calibrate", dense_checkpoint(), "--tokens", tokens, "--sensitivity",
               "--out",     fresh_folder("c")};
     }},
};

class DenseRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(DenseRefusal, ReportsThatExpertsAreMissing) {
  const std::string tokens = fresh_folder("tokens") + ".txt";
  write_file(tokens, "1 2 3 4 5 6 7 8");
  const Outcome outcome = run_command(GetParam().words(dense_export(), tokens));
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().code));
  EXPECT_THAT(outcome.err, HasSubstr("no experts"));
}

INSTANTIATE_TEST_SUITE_P(Commands, DenseRefusal, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
