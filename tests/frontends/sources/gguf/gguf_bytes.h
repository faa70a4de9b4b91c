// Builds GGUF files byte by byte, so that tests can violate each rule of the format.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontends/sources/gguf/gguf.h"
#include "tests/files.h"

namespace moec {

// Returns an empty folder for the running test.
inline std::string folder_of_test() {
  std::string path = testing::TempDir() + "/gguf_" + running_test();
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

template <class T>
std::string number_bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string gguf_string(std::string_view text) {
  return number_bytes<uint64_t>(text.size()) + std::string(text);
}
inline std::string gguf_type(GgufType type) { return number_bytes(static_cast<uint32_t>(type)); }

class GgufBytes {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> sizes;  // as in the file, innermost first
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  GgufBytes& raw_key(std::string_view key, GgufType type, const std::string& value) {
    keys_ += gguf_string(key) + gguf_type(type) + value;
    ++key_count;
    return *this;
  }
  GgufBytes& u32(std::string_view key, uint32_t value) {
    return raw_key(key, GgufType::u32, number_bytes(value));
  }
  GgufBytes& u16(std::string_view key, uint16_t value) {
    return raw_key(key, GgufType::u16, number_bytes(value));
  }
  GgufBytes& i32(std::string_view key, int32_t value) {
    return raw_key(key, GgufType::i32, number_bytes(value));
  }
  GgufBytes& text(std::string_view key, std::string_view value) {
    return raw_key(key, GgufType::string, gguf_string(value));
  }
  GgufBytes& array(std::string_view key, GgufType type, uint64_t count, const std::string& values) {
    return raw_key(key, GgufType::array, gguf_type(type) + number_bytes(count) + values);
  }
  GgufBytes& tensor(const Tensor& tensor) {
    tensors_ += gguf_string(tensor.name) + number_bytes(static_cast<uint32_t>(tensor.sizes.size()));
    for (int64_t size : tensor.sizes) tensors_ += number_bytes(size);
    tensors_ += number_bytes(tensor.type) + number_bytes(tensor.offset);
    ++tensor_count;
    return *this;
  }

  // Returns the header without padding and data.
  std::string header() const {
    return "GGUF" + number_bytes(version) + number_bytes(tensor_count) + number_bytes(key_count) +
           keys_ + tensors_;
  }
  // Returns the header with padding, followed by `data` zero bytes.
  std::string file(size_t data, size_t alignment = 32) const {
    std::string bytes = header();
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes + std::string(data, '\0');
  }

  uint32_t version = 3;
  uint64_t tensor_count = 0, key_count = 0;

 private:
  std::string keys_, tensors_;
};

inline Result<GgufHeader> parse_bytes(const std::string& bytes) {
  return parse_gguf(bytes, bytes.size(), "x.gguf");
}

}  // namespace moec
