// A .mlpackage folder that appears under its final name only when it is complete: it is written
// beside it as NAME.part, then renamed. An older package of that name is replaced.
//
//   Manifest.json                              lists the items below, by identifiers
//   Data/com.apple.CoreML/model.mlmodel
//   Data/com.apple.CoreML/weights/weight.bin   only where there are weights
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kModelPath = "Data/com.apple.CoreML/model.mlmodel";
inline constexpr const char* kWeightPath = "Data/com.apple.CoreML/weights/weight.bin";
inline constexpr const char* kManifestPath = "Manifest.json";

// Manifest.json of a package. Identifiers are UUIDs of version 8 (RFC 9562) made from the xxh3-128
// digest of the item's path, so that they are the same in every package.
std::string package_manifest(bool has_weights);

class Package {
 public:
  // Removes the temporary folders that an interrupted export left of this package. Errors: those of
  // write_error.h.
  static Result<Package> create(std::string final_path);

  Package(Package&& other) noexcept : final_path_(std::move(other.final_path_)) {
    other.final_path_.clear();
  }
  Package& operator=(Package&&) = delete;
  // Removes the temporary folder unless it was published.
  ~Package();

  // The temporary path of a file of the package.
  std::string operator/(const char* path) const { return temporary() + "/" + path; }

  // Flushes the folder and renames it; its files must be complete. Errors as above.
  Status publish();

 private:
  explicit Package(std::string final_path) : final_path_(std::move(final_path)) {}
  std::string temporary() const { return final_path_ + ".part"; }

  std::string final_path_;  // empty when published or moved from
};

}  // namespace moec
