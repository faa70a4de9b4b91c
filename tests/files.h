// Whole files and bytes, for tests that write, edit and read files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace moec {

// The running test's name, for paths of its files, because ctest runs tests in parallel.
inline std::string running_test() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

// Returns all bytes of an existing file.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  EXPECT_TRUE(file.good()) << path;
  if (!file.good()) return {};
  std::string bytes(file.tellg(), '\0');
  file.seekg(0).read(bytes.data(), std::ssize(bytes));
  EXPECT_EQ(file.gcount(), std::ssize(bytes)) << path;
  return bytes;
}

// Creates the file or replaces its content.
inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Views a text as bytes, for writers and digests.
inline std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace moec
