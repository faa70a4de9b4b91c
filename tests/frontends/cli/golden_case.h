// Exports and validates golden cases with the command line.
#pragma once

#include <filesystem>
#include <map>

#include "tests/files.h"
#include "tests/frontends/cli/command.h"

namespace moec {

using Words = std::vector<std::string>;

inline Outcome export_case(const std::string& golden_case, const std::string& out,
                           Words more = {}) {
  Words words = {"export", checkpoint_of(golden_case), "--out", out};
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

inline Outcome validate_case(const std::string& golden_case, const std::string& out,
                             Words more = {}) {
  Words words = {"validate", out, "--golden", source_path("tests/golden/" + golden_case)};
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

inline void expect_fine(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.out << outcome.err;
}

// Maps the relative path of each regular file to its bytes.
inline std::map<std::string, std::string> all_bytes(const std::string& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

// An export variant: a test name and its flags.
struct Variant {
  const char* name;
  Words flags;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

}  // namespace moec
