// A .mlpackage folder that appears under its final name only when it is complete: it is written
// beside it as NAME.part, then renamed. An older package of that name is replaced.
//
//   Manifest.json                              lists the items below, by identifiers
//   Data/com.apple.CoreML/model.mlmodel
//   Data/com.apple.CoreML/weights/weight.bin   only where there are weights
#pragma once

#include <string>
#include <utility>

#include "backends/files/folder.h"
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
  // Folder.
  static Result<Package> create(const OutputPath& path);

  Package(Package&& other) noexcept
      : path_(std::move(other.path_)),
        parent_(std::move(other.parent_)),
        leaf_(std::exchange(other.leaf_, {})) {}
  Package& operator=(Package&&) = delete;
  // Removes the temporary folder unless it was published.
  ~Package();

  // The temporary path of a file of the package.
  OutputPath operator/(const char* path) const;

  // Flushes the folder and renames it; its files must be complete. Errors as above.
  Status publish();

 private:
  Package(OutputPath path, Folder parent, std::string leaf)
      : path_(std::move(path)), parent_(std::move(parent)), leaf_(std::move(leaf)) {}
  std::string temporary() const { return leaf_ + ".part"; }
  std::string older() const { return leaf_ + ".old"; }
  Status replace() const;

  OutputPath path_;
  Folder parent_;     // where the package lies
  std::string leaf_;  // its name there; empty when published or moved from
};

// The folders and files of a .mlpackage.

// Where the model of a package lies: FOLDER/Data/com.apple.CoreML/model.mlmodel, as Manifest.json
// says. `path` is the package's folder, or the model in it, or a model that stands alone. Errors:
// coreml.open, coreml.package (a manifest that does not fit the folder).
Result<std::string> find_model(const std::string& path);

}  // namespace moec
