// Which files hold a checkpoint's tensors: model.safetensors, or else the files that
// model.safetensors.index.json names. Other weight files in the folder (pytorch_model*.bin,
// consolidated*.safetensors) are ignored.
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

// Parses the text of an index.json. A file must be a bare name that ends in ".safetensors": names
// with folders are refused, so that an index cannot lead outside its folder. Errors: json.*,
// index.not_object, index.weight_map, index.empty, index.file_name.
Result<WeightIndex> parse_index(std::string_view text, const std::string& file);

struct FolderWeights {
  WeightTable table;
  // Tensors that no IR type represents (F64, more than five sizes, a size of 0, …), with the
  // reason.
  std::map<std::string, std::string, std::less<>> not_representable;
  Diagnostics warnings;
};

// Reads the headers of all files of a checkpoint. A tensor that occurs in two files is taken from
// the one that the index names, with the warning index.twice. Tensors that the index does not name
// are left out, with the warning index.not_listed; those that the index names and no file has are a
// warning index.absent_tensor. Errors: hf.no_weights, file.*, safetensors.*, those of parse_index,
// index.absent_file.
Result<FolderWeights> read_folder_weights(const std::string& folder);

}  // namespace moec
