// Runs a command line in this process and returns its exit code and output.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "frontends/cli/cli.h"
#include "frontends/cli/print/print_findings.h"
#include "tests/files.h"
#include "tests/source_dir.h"

namespace moec {

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

inline Outcome run_command(std::vector<std::string> words) {
  words.insert(words.begin(), "moec");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit_code = run_cli(static_cast<int>(argv.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

// Returns an empty folder for the running test; leftovers of earlier runs are removed.
inline std::string fresh_folder(const std::string& name) {
  std::string folder = testing::TempDir() + "/moec_cli/" + running_test() + "." + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline std::string source_path(const std::string& relative) {
  return source_dir() + "/" + relative;
}

// Returns the source checkpoint of a golden case.
inline std::string checkpoint_of(const std::string& golden_case) {
  return source_path((golden_case.starts_with("tiny") ? "models/" : "tests/golden/") + golden_case);
}

}  // namespace moec
