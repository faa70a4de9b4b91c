// Locates a checkpoint's tensors: in model.safetensors, or in the files that
// model.safetensors.index.json names. Ignores other weight files in the folder
// (pytorch_model*.bin, consolidated*.safetensors).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "frontends/sources/hf/absent_files.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

struct WeightIndex {
  std::map<std::string, std::string, std::less<>> file_of;  // tensor → file name
};

// Parses the text of an index.json. Each file must be a bare name that ends in ".safetensors".
// Names with a path are refused, so that an index cannot refer to files outside its folder. Errors:
// json.*, index.not_object, index.weight_map, index.empty, index.file_name.
Result<WeightIndex> parse_index(std::string_view text, const std::string& file);

struct FolderWeights {
  WeightTable table;
  // Tensors that no IR type can represent (F64, more than five dimensions, a size of 0, …) →
  // reason.
  std::map<std::string, std::string, std::less<>> not_representable;
  // The tensors in I8, which are also in `not_representable`, as bytes. read_quant_states() moves
  // them to the table if the storage has signed integers.
  std::map<std::string, TensorRange, std::less<>> signed_bytes;
  Diagnostics warnings;
};

// Reads the headers of all files of a checkpoint. Warnings:
//   index.twice            a tensor is in two files; the copy in the indexed file is used
//   index.not_listed       a tensor is not in the index; the tensor is omitted
//   index.absent_tensor    the index lists tensors that the files lack
// Errors: hf.no_weights, file.*, safetensors.*, those of parse_index(), index.absent_file.
Result<FolderWeights> read_folder_weights(const std::string& folder);

}  // namespace moec
