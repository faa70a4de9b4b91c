// Checkpoint folders for tests: edited copies of golden checkpoints, and handwritten safetensors
// files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/files.h"
#include "tests/source_dir.h"

namespace moec {

inline std::string golden_folder(const std::string& name) {
  return source_dir() + "/tests/golden/" + name;
}

// Creates an empty folder for the running test.
inline std::string empty_folder(const std::string& name) {
  std::string path = testing::TempDir() + "/hf_" + running_test() + "." + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

// Copies a golden checkpoint without its golden results.
inline std::string copy_golden(const std::string& golden, const std::string& name) {
  std::string to = empty_folder(name);
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder(golden))) {
    std::string file = entry.path().filename().string();
    if (file.rfind("golden", 0) != 0) std::filesystem::copy_file(entry.path(), to + "/" + file);
  }
  return to;
}

// Replaces the first occurrence of `from` in a file, which must exist.
inline void change_file(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " in " << path;
  write_file(path, text.replace(at, from.size(), to));
}

// Returns a safetensors file with this header and `payload` zero bytes.
inline std::string safetensors_bytes(const std::string& header, size_t payload) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i)
    bytes += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 0xff);
  return bytes + header + std::string(payload, '\0');
}

}  // namespace moec
