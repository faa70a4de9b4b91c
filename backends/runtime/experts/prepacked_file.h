// Experts in the order in which a runtime puts them into its slots, in one file: a start with full
// slots reads it from front to back, past the page cache where the file system can.
//
//   page 0      "MOECPACK", u32 version 1, u32 bytes of a page (65,536), zeros; little-endian
//   from page 1 the experts, each from the beginning of a page: the blocks of 4,096 bytes that hold
//               its bytes, as they lie in the files of the export (slot_bytes()), zeros between
//   last page   the table, JSON:
//     {"format": "moec.prepacked_experts", "version": 1, "model": "qwen3_moe", "digest": "…",
//      "capacity": 8, "layers": [
//        {"layer": 0, "slot_of": [-1, 0, …],
//         "slots": [{"expert": 1, "pinned": true, "offset": 65536, "bytes": 98304,
//                    "digest": "…"}, …]}, …]}
//   64 bytes    "MOECPEND", u64 offset of the table, u64 its bytes, 32 digits of its digest, zeros
//
// `digest` of the whole is that of the export's experts (ExpertPlaces::digest()), those of experts
// and table are xxh3-128. Of a layer the most wanted expert is in slot 0; pinned ones come first.
// `slot_of` has the slot of each expert of the layer, -1 for those that are not there.
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
  std::string digest;  // of its bytes in the file
  bool operator==(const PrepackedExpert&) const = default;
};

struct PrepackedTable {
  std::string model;  // its family
  std::string digest;
  int64_t capacity = 0;                   // slots of a layer that it was made for
  int64_t experts = 0;                    // of a layer
  std::vector<PrepackedExpert> resident;  // as they lie in the file: by layer and slot
  bool operator==(const PrepackedTable&) const = default;
};

// First and last part of a file with this table, which lies at `offset`.
std::string prepacked_head();
std::string prepacked_tail(const PrepackedTable& table, uint64_t offset);

class PrepackedFile {
 public:
  // Reads the table. Errors: prepacked.file (cannot be read, or is no such file),
  // prepacked.version, prepacked.truncated, prepacked.damaged (the table has another digest),
  // and prepacked.… as a JSON file has them.
  static Result<PrepackedFile> open(const std::string& path);

  const PrepackedTable& table() const { return table_; }
  const PayloadFile& file() const { return file_; }
  // Null if the expert is not there.
  const PrepackedExpert* find(ExpertId key) const;
  // Checks the bytes of an expert that were read. Error prepacked.damaged.
  Status check(const PrepackedExpert& expert, const std::byte* bytes) const;

 private:
  PrepackedFile(PayloadFile file, PrepackedTable table);

  PayloadFile file_;
  PrepackedTable table_;
  std::map<ExpertId, size_t> index_;  // into the table
};

}  // namespace moec
