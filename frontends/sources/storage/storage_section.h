// An object of the config that describes the storage of matrices, with the checks of its members.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/config/config_reader.h"
#include "ir/base/json.h"
#include "ir/model/model_config.h"

namespace moec {

class StorageSection {
 public:
  // `path` and `method` name the object in messages; `next` is the next step of unsupported values.
  StorageSection(ConfigReader& reader, const JsonValue& object, std::string path,
                 std::string_view method, std::string_view next)
      : reader_(reader), object_(object), path_(std::move(path)), method_(method), next_(next) {}

  // Null if the member is absent or null.
  const JsonValue* find(std::string_view key) const;
  // Adds a finding if a member with another name is set. Unknown keys are refused, because they
  // could change how the stored values are decoded.
  void check_keys(std::span<const std::string_view> known) const;
  // Returns the member if it has one of these values. Else adds a finding, unless it is absent and
  // `optional`, and returns the first value.
  JsonValue::Data one_of(std::string_view key, std::initializer_list<JsonValue::Data> accepted,
                         bool optional = false) const;
  int64_t integer(std::string_view key, std::initializer_list<int64_t> accepted) const;
  // Returns the size of groups; 0 for whole rows, which the config states as -1.
  int64_t group_size(std::string_view key = "group_size") const;
  void refuse(std::string_view key, std::string_view wanted) const;

  ConfigReader& reader() const { return reader_; }
  const JsonValue& object() const { return object_; }
  const std::string& path() const { return path_; }
  // A section for a member that is an object.
  StorageSection inside(const JsonValue& member, std::string path) const {
    return {reader_, member, std::move(path), method_, next_};
  }

 private:
  ConfigReader& reader_;
  const JsonValue& object_;
  std::string path_;
  std::string_view method_, next_;
};

// Integers in groups of `group` columns of a row (0: whole rows).
StoredWeights grouped_integers(WeightCoding coding, int64_t group, int64_t bits, bool zeros);

// Each reads the object of a method.
StoredWeights read_fp8(const StorageSection& section);
StoredWeights read_mxfp4(const StorageSection& section);
StoredWeights read_modelopt(const StorageSection& section);
StoredWeights read_compressed_tensors(const StorageSection& section);
StoredWeights read_gptq(const StorageSection& section);
StoredWeights read_awq(const StorageSection& section);
StoredWeights read_bitsandbytes(const StorageSection& section);
StoredWeights read_mlx(const StorageSection& section);

}  // namespace moec
