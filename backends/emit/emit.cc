#include "backends/emit/emit.h"

#include <fmt/format.h>

#include "backends/files/bulk_writer.h"

namespace moec {

// The export's memory plan counts kWriterBytes per open file.
static_assert(BulkWriter::kHeldBytes == kWriterBytes);

std::string to_string(const GraphKey& key, char between) {
  return key.top_k.empty() ? fmt::format("t{}", key.tokens)
                           : fmt::format("t{}{}{}", key.tokens, between, key.top_k);
}

std::vector<GraphKey> keys_of(std::span<const ShardWidth> widths) {
  std::vector<GraphKey> keys;
  for (const ShardWidth& width : widths) keys.push_back(width.key());
  return keys;
}

// Sums over tensors, not over files: a weight that several files contain is listed once.
uint64_t EmitReport::overflows() const {
  uint64_t total = 0;
  for (const EmittedTensor& tensor : tensors) total += tensor.overflows;
  return total;
}

}  // namespace moec
