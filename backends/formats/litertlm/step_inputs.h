// Makes the inputs of a decoder's shards from tokens, positions and caches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/formats/litertlm/decoder_tables.h"
#include "backends/formats/tflite/subgraph.h"

namespace moec {

class StepInputs {
 public:
  // Declares the inputs of a graph for `tokens` tokens. The layout contains add_decoder_tables().
  StepInputs(const DecoderFacts& facts, int64_t tokens, const DataLayout& layout,
             Subgraph& subgraph);

  // Return the tensor of the embedding's rows, [T, C], and of a rotation, scale or mask.
  int32_t embedding();
  int32_t value(const InputBinding& binding);
  // Writes the rows at the first position, and returns the tensor of the whole cache.
  int32_t update_cache(const InputBinding& cache, int32_t rows);
  // Declares the caches as outputs.
  void add_outputs();

 private:
  struct Slot {
    std::string name;
    Type type;
    int32_t tensor = 0;  // the cache, and after update_cache() the updated one
  };

  Slot& slot(const InputBinding& binding);
  void add_slot(const std::string& name, SourceKind kind, const manifest::Cache& cache);
  int32_t positions_column();
  int32_t cache_start();
  int32_t table(const std::string& name, const std::string& bytes, const Type& type);
  int32_t gather(int32_t table, int32_t ids, const std::string& name, const Type& type);
  int32_t mask(const InputBinding& binding, const std::string& name);
  int32_t make(const InputBinding& binding, const std::string& name);

  const DecoderFacts& facts_;
  const int64_t tokens_;
  const DataLayout& layout_;
  Subgraph& subgraph_;
  const DType dtype_;
  int32_t ids_ = 0, positions_ = 0;
  int32_t column_ = kNoTensor, start_ = kNoTensor;
  std::vector<std::pair<std::pair<SourceKind, int64_t>, Slot>> slots_;  // by kind and layer
  std::map<std::string, int32_t> values_;
};

}  // namespace moec
