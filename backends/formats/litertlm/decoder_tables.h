// The tables of a decoder: the embedding, and values that follow from the positions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/manifest/manifest.h"

namespace moec {

// The cosines and sines of one rotation, [S, width] each, as bytes of the graphs' element type.
struct DecoderRotation {
  int64_t width = 0;
  std::string cos, sin;
};

struct DecoderTables {
  Weight embedding;  // [V, C]
  Type embedding_type;
  std::vector<DecoderRotation> rotations;
  std::string query_scale;  // [S, 1]; empty: none
};

// Facts about a decoder that all of its graphs share.
struct DecoderFacts {
  const Manifest& manifest;  // its schedule joins the shards
  int64_t rows = 0;          // S, of the caches
  DecoderTables tables;
};

// Adds the tables, and the first visible key of each position per kind of mask.
void add_decoder_tables(const DecoderFacts& facts, DataLayout& layout);

}  // namespace moec
