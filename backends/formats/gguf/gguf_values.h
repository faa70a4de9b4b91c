// The keys and values of a GGUF file. Values stay as the bytes of the header and are decoded on
// demand: a tokenizer's arrays cost nothing until they are asked for.
//
// Errors:
//   gguf.missing_key  a key that is needed is not there
//   gguf.key_type     the value has another type than the one that is asked for. A u16 does not
//                     stand in for a u32: other readers refuse such a file as well
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

// Where a value lies in the bytes of the header.
struct GgufValue {
  GgufType type = GgufType::u8;  // of the value, of each element in an array
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
  // `keys` point into `header`, where a reader has found them whole; `file` is for messages.
  GgufValues(std::string file, std::string header, GgufKeys keys);

  const GgufKeys& keys() const { return held_->keys; }
  bool has(std::string_view key) const { return keys().count(key) != 0; }
  const std::string& file() const { return held_->file; }

  // The value of a key. T is uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
  // std::string_view, uint64_t, int64_t or double; the view is valid as long as this object or a
  // copy of it. A bool of any other byte than 0 is true.
  template <class T>
  Result<T> get(std::string_view key) const;
  // The same; nothing where the key is absent.
  template <class T>
  Result<std::optional<T>> find(std::string_view key) const;
  // The elements of an array, in 8 bytes each at most, 16 for strings.
  template <class T>
  Result<std::vector<T>> get_array(std::string_view key) const;
  template <class T>
  Result<std::optional<std::vector<T>>> find_array(std::string_view key) const;
  // A number or a truth value (0, 1) of any type; nothing if it is a string or an array.
  std::optional<double> as_number(const GgufValue& value) const;

  // The bytes of one of keys(), as they follow its type in the file: of an array its elements.
  // Valid as a view of a string is.
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

  std::shared_ptr<const Held> held_;  // shared, so that views of strings outlive a move
};

}  // namespace moec
