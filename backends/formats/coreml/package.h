// Writes a .mlpackage folder that appears under its final name only when complete: it is written as
// NAME.part, then renamed. Replaces an older package with the same name.
//
//   Manifest.json                              lists the items below, by identifiers
//   Data/com.apple.CoreML/model.mlmodel
//   Data/com.apple.CoreML/weights/weight.bin   only if there are weights
#pragma once

#include <string>
#include <utility>

#include "backends/files/folder.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kModelPath = "Data/com.apple.CoreML/model.mlmodel";
inline constexpr const char* kWeightPath = "Data/com.apple.CoreML/weights/weight.bin";
inline constexpr const char* kManifestPath = "Manifest.json";

// Returns the text of a package's Manifest.json. Identifiers are version 8 UUIDs (RFC 9562) derived
// from the xxh3-128 digest of the item's path, so they are equal in every package.
std::string package_manifest(bool has_weights);

class Package {
 public:
  // Removes the temporary folders of an interrupted export of this package. Errors: those of
  // Folder.
  static Result<Package> create(const OutputPath& path);

  Package(Package&& other) noexcept
      : path_(std::move(other.path_)),
        parent_(std::move(other.parent_)),
        leaf_(std::exchange(other.leaf_, {})) {}
  Package& operator=(Package&&) = delete;
  // Removes the temporary folder unless it was published.
  ~Package();

  // Returns the temporary path of a file of the package.
  OutputPath operator/(const char* path) const;

  // Flushes the folder and renames it; its files must be complete. Errors: those of Folder.
  Status publish();

 private:
  Package(OutputPath path, Folder parent, std::string leaf)
      : path_(std::move(path)), parent_(std::move(parent)), leaf_(std::move(leaf)) {}
  std::string temporary() const { return leaf_ + ".part"; }
  std::string older() const { return leaf_ + ".old"; }
  Status replace() const;

  OutputPath path_;
  Folder parent_;     // the folder that contains the package
  std::string leaf_;  // its name there; empty after publish() or a move
};

// Checks Manifest.json and returns the path of the package's model,
// FOLDER/Data/com.apple.CoreML/model.mlmodel. `path` is the package's folder, the model in it, or a
// model outside a package. Errors: coreml.open, coreml.package (Manifest.json does not match the
// folder).
Result<std::string> find_model(const std::string& path);

}  // namespace moec
