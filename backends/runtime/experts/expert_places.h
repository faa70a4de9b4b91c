// Locates the experts of an export in its files, from the manifest alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_id.h"

namespace moec {

// Bytes [begin, end) of a file: weights of one expert, including padding between them.
struct ByteExtent {
  size_t file = 0;  // index into ExpertPlaces::files()
  uint64_t begin = 0, end = 0;
  uint64_t alignment = 1;  // of `begin`
};

struct PlacedExpert {
  ExpertId id;
  std::vector<ByteExtent> extents;  // ordered by file and offset
};

// Bytes of a slot for one extent or for all extents of an expert. Extents are stored consecutively,
// each rounded outward to whole blocks of PayloadFile::kBlockBytes.
uint64_t slot_bytes(const ByteExtent& extent);
uint64_t slot_bytes(const PlacedExpert& expert);

class ExpertPlaces {
 public:
  // Errors: session.no_experts (the model has none), session.routers (routers and experts share a
  // shard, so misses are not known in time), session.bank (experts share weights or bytes).
  static Result<ExpertPlaces> find(const Manifest& manifest, const std::string& folder);

  // Files that contain experts. Identical files of one shard are listed once: packages of several
  // widths contain copies. Identical files of different shards stay separate.
  const std::vector<WeightFile>& files() const { return files_; }
  // Ordered by layer, then in the order in which a step uses them.
  const std::vector<PlacedExpert>& experts() const { return experts_; }
  // Returns the identity of an export's experts: a digest of their extents and of the files that
  // contain them.
  std::string digest() const;
  // Returns the index of the file with this path; absent if it contains no experts.
  std::optional<size_t> find_file(const std::string& path) const;

 private:
  size_t add_file(const std::string& shard, const manifest::FileRef& file,
                  const std::string& folder);
  void add_ranges(const manifest::Shard& shard, const WeightRecord& weight,
                  const std::vector<size_t>& files);

  std::vector<WeightFile> files_;
  std::vector<std::string> file_digests_;
  std::map<std::string, size_t> by_path_;
  std::map<std::pair<std::string, std::string>, size_t> by_digest_;  // key: (shard, digest)
  std::map<ExpertId, PlacedExpert> found_;
  std::vector<PlacedExpert> experts_;
};

}  // namespace moec
