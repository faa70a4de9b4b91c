// Where the experts of an export lie in its files, by its manifest alone: what a runtime reads to
// have one expert.
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

// Bytes [begin, end) of a file: weights of an expert and the gaps between them.
struct ByteExtent {
  size_t file = 0;  // index into ExpertPlaces::files()
  uint64_t begin = 0, end = 0;
  uint64_t alignment = 1;  // of `begin`
};

struct PlacedExpert {
  ExpertId id;
  std::vector<ByteExtent> stretches;  // by file and offset
};

// What a slot takes that holds the blocks (PayloadFile::kBlockBytes) of these bytes, as they lie in
// the file, one stretch after the other.
uint64_t slot_bytes(const ByteExtent& stretch);
uint64_t slot_bytes(const PlacedExpert& expert);

class ExpertPlaces {
 public:
  // Errors: session.no_experts (the model has none), session.routers (a router is no shard of its
  // own, so that it is not known in time what tokens choose), session.bank (experts share weights
  // or bytes).
  static Result<ExpertPlaces> find(const Manifest& manifest, const std::string& folder);

  // Files with experts. Copies of one file in a shard, which packages of several widths have, are
  // one; equal files of two shards hold two experts with the same weights.
  const std::vector<WeightFile>& files() const { return files_; }
  // By layer, in the order in which a step asks for them.
  const std::vector<PlacedExpert>& experts() const { return experts_; }
  // What tells the experts of one export from those of another: where they lie, and the digests of
  // the files that hold them.
  std::string digest() const;
  // The file with this path; nothing if it has no experts.
  std::optional<size_t> find_file(const std::string& path) const;

 private:
  size_t add_file(const std::string& shard, const manifest::FileRef& file,
                  const std::string& folder);
  void add_ranges(const manifest::Shard& shard, const WeightRecord& weight,
                  const std::vector<size_t>& files);

  std::vector<WeightFile> files_;
  std::vector<std::string> file_digests_;
  std::map<std::string, size_t> by_path_;
  std::map<std::pair<std::string, std::string>, size_t> by_digest_;  // of (shard, digest)
  std::map<ExpertId, PlacedExpert> found_;
  std::vector<PlacedExpert> experts_;
};

}  // namespace moec
