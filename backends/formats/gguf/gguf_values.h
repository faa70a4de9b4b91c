// The keys and values of a GGUF file. Values stay encoded in the header's bytes until requested,
// because a tokenizer's arrays are large.
//
// Errors:
//   gguf.missing_key  a required key is absent
//   gguf.key_type     the value does not have the requested type. A u16 is not accepted as a u32,
//                     because other readers reject such files too
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/formats/gguf/gguf_format.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The position of a value in the header's bytes.
struct GgufValue {
  GgufType type = GgufType::u8;  // of the value, or of an array's elements
  bool is_array = false;
  uint64_t count = 1;  // elements of an array
  uint64_t offset = 0;
  bool operator==(const GgufValue&) const = default;
};

// "u32", "array of string".
std::string to_string(const GgufValue& value);

using GgufKeys = std::map<std::string, GgufValue, std::less<>>;

class GgufValues {
 public:
  GgufValues() : GgufValues({}, {}, {}) {}
  // `keys` point into `header`; the reader has checked their bounds. `file` is for messages.
  GgufValues(std::string file, std::string header, GgufKeys keys);

  const GgufKeys& keys() const { return held_->keys; }
  bool has(std::string_view key) const { return keys().count(key) != 0; }
  const std::string& file() const { return held_->file; }

  // Returns the value of a key. T is uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float,
  // bool, std::string_view, uint64_t, int64_t or double. A string_view is valid as long as this
  // object or a copy of it exists. Any nonzero byte is the bool true.
  template <class T>
  Result<T> get(std::string_view key) const;
  // Like get(), but returns nullopt if the key is absent.
  template <class T>
  Result<std::optional<T>> find(std::string_view key) const;
  // Returns the elements of an array. Requires at most 8 bytes of memory per element, or 16 for
  // strings.
  template <class T>
  Result<std::vector<T>> get_array(std::string_view key) const;
  template <class T>
  Result<std::optional<std::vector<T>>> find_array(std::string_view key) const;
  // Returns a number of any type, or a bool as 0 or 1; nullopt for a string or an array.
  std::optional<double> as_number(const GgufValue& value) const;

  // Returns the encoded bytes of a value in keys(), without its type; for an array, only the
  // elements. Valid as long as a string_view from get().
  std::string_view bytes(const GgufValue& value) const;

 private:
  struct Held {
    std::string file, header;
    GgufKeys keys;
  };

  Result<const GgufValue*> lookup(std::string_view key, GgufType type, bool is_array) const;
  Result<const GgufValue*> needed(std::string_view key, GgufType type, bool is_array) const;
  template <class T>
  std::vector<T> decode(const GgufValue& value) const;

  std::shared_ptr<const Held> held_;  // shared, so that string views survive a move
};

}  // namespace moec
