// A file of experts in slot order. A warm start reads it sequentially, with direct I/O if the file
// system supports it.
//
//   page 0      "MOECPACK", u32 version 1, u32 bytes per page (65,536), zeros; little-endian
//   from page 1 the experts, each aligned to a page: the blocks of 4,096 bytes that contain
//               its extents (slot_bytes()); block bytes outside the extents are zero
//   last page   the table, JSON:
//     {"format": "moec.prepacked_experts", "version": 1, "model": "qwen3_moe", "digest": "…",
//      "capacity": 8, "layers": [
//        {"layer": 0, "slot_of": [-1, 0, …],
//         "slots": [{"expert": 1, "pinned": true, "offset": 65536, "bytes": 98304,
//                    "digest": "…"}, …]}, …]}
//   64 bytes    "MOECPEND", u64 offset and u64 bytes of the table, digest (32 hex digits), zeros
//
// The top-level `digest` is that of the export's experts (ExpertPlaces::digest()). The digests of
// experts and of the table are xxh3-128. Slot 0 contains the most wanted expert of the layer;
// pinned experts come first. `slot_of` maps each expert of the layer to its slot, or -1.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/residency/expert_policy.h"
#include "backends/weights/views/payload_file.h"

namespace moec {

inline constexpr uint64_t kPrepackedPage = 65536;

struct PrepackedExpert {
  ExpertId key;
  bool pinned = false;
  uint64_t offset = 0, bytes = 0;
  std::string digest;  // of the bytes in this file
  bool operator==(const PrepackedExpert&) const = default;
};

struct PrepackedTable {
  std::string model;  // model family
  std::string digest;
  int64_t capacity = 0;                   // slots per layer for which the file was made
  int64_t experts = 0;                    // per layer
  std::vector<PrepackedExpert> resident;  // in file order: by layer, then slot
  bool operator==(const PrepackedTable&) const = default;
};

// Return the first page and the last part of a file. The last part, from `offset` to the end,
// contains the table.
std::string prepacked_head();
std::string prepacked_tail(const PrepackedTable& table, uint64_t offset);

class PrepackedFile {
 public:
  // Reads the table. Errors: prepacked.file (unreadable, or not a file of prepacked experts),
  // prepacked.version, prepacked.truncated, prepacked.damaged (the table does not match its
  // digest), and the JSON errors with the prefix "prepacked.".
  static Result<PrepackedFile> open(const std::string& path);

  const PrepackedTable& table() const { return table_; }
  const PayloadFile& file() const { return file_; }
  // Returns null if the file does not contain the expert.
  const PrepackedExpert* find(ExpertId key) const;
  // Succeeds if `bytes`, the expert's bytes as read, match its digest. Error: prepacked.damaged.
  Status check(const PrepackedExpert& expert, const std::byte* bytes) const;

 private:
  PrepackedFile(PayloadFile file, PrepackedTable table);

  PayloadFile file_;
  PrepackedTable table_;
  std::map<ExpertId, size_t> index_;  // into table_.resident
};

}  // namespace moec
