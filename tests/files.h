// Whole files and bytes, for tests that write them, change them and read them back.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace moec {

// The name of the running test, for the paths of its files: ctest runs tests at the same time.
inline std::string running_test() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

// All bytes of a file that is there.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Makes the file, or takes the place of what it held.
inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A text as writers and digests take it.
inline std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace moec
