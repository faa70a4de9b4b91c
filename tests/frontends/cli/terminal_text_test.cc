// Control sequences never reach a terminal: tests names, keys and manifests with control and
// bidirectional characters.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/print/say.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/manifest_forms.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// ESC, CSI as C1 control in UTF-8, right-to-left override, DEL, carriage return.
constexpr const char* kHostile =
    "a\x1b[2Jb\xc2\x9b"
    "c\xe2\x80\xae"
    "d\x7f"
    "e\r";

// Expects that the text contains none of the escaped characters.
void expect_harmless(const std::string& text) {
  EXPECT_EQ(text.find_first_of("\x1b\x7f\r"), std::string::npos) << text;
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
  EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos) << text;
}

std::string printed(bool to_terminal, std::initializer_list<std::string_view> parts) {
  testing::internal::CaptureStdout();
  TextPrinter printer(to_terminal);
  for (const std::string_view part : parts) printer.write(part);
  printer.finish();
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

// A byte tokenizer may write one character in several steps.
TEST(TerminalText, EscapesTextForTerminalsOnly) {
  const auto parts = {std::string_view("\xe2"), std::string_view("\x80\xae\xc3"),
                      std::string_view("\xa9\x1b"), std::string_view("\xe2")};
  EXPECT_EQ(printed(true, parts), "\\u202e\xc3\xa9\\u001b\\xe2");
  EXPECT_EQ(printed(false, parts), "\xe2\x80\xae\xc3\xa9\x1b\xe2");
}

TEST(TerminalText, EscapesConfigKeys) {
  const CheckpointCopy copy;
  copy.edit_config([](CheckpointCopy::Json& config) { config[kHostile] = kHostile; });
  for (const Words& words :
       {Words{"plan", copy.folder()}, Words{"plan", copy.folder(), "--json"}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("hf.config.unknown_key"));
    expect_harmless(outcome.out + outcome.err);
  }
}

TEST(TerminalText, EscapesPathsAndArguments) {
  for (const Words& words : {Words{"check", kHostile}, Words{kHostile}, Words{"plan", kHostile},
                             Words{"plan", "x", std::string("--") + kHostile},
                             Words{"plan", "x", "--routing", kHostile}}) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr("\\u202e"));
    expect_harmless(outcome.out + outcome.err);
  }
}

// Programs that parse the JSON get the unescaped name.
TEST(TerminalText, EscapesNamesInAManifest) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out));
  Manifest manifest = read_manifest(out).value();
  manifest.model.family = kHostile;
  write_both_forms(manifest, out);
  const Outcome text = run_command({"inspect", out});
  expect_fine(text);
  EXPECT_THAT(text.out, HasSubstr("\\u202e"));
  expect_harmless(text.out);
  const Outcome json = run_command({"inspect", out, "--json"});
  expect_harmless(json.out);
  EXPECT_EQ(nlohmann::json::parse(json.out)["model"]["family"], kHostile);
}

// All commands print through say.h, which escapes text.
TEST(TerminalText, PrintsOnlyThroughSayH) {
  for (const auto& entry : fs::recursive_directory_iterator(source_path("frontends/cli"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name == "say.h" || name == "say.cc") continue;
    const std::string code = read_file(entry.path());
    for (const char* way :
         {"fmt::print(", "std::cerr", "std::cout <<", "fputs(", "fwrite(", "printf("})
      EXPECT_THAT(code, Not(HasSubstr(way))) << entry.path();
  }
}

}  // namespace
}  // namespace moec
