// Opens the sources that commands accept: a folder, a GGUF file, a config file or the name of a
// published model. A user's family descriptor or ignored keys can apply.
#pragma once

#include <string>
#include <vector>

#include "backends/output/carried_files.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/sources/family_options.h"
#include "frontends/sources/hf/checkpoint.h"

namespace moec {

// If `source` is a folder without config.json that contains a single GGUF model, returns the
// model's file or its first part (NAME-00001-of-N.gguf). Returns any other source unchanged.
std::string source_in_folder(const std::string& source);

// Fails with gguf.family_file if the source is a GGUF file, because family descriptors do not apply
// to the keys of GGUF files.
Status refuse_gguf(const std::string& source);

// Returns the descriptor that the options request; absent if the built-in descriptor is used
// unchanged. `config` is the text of `file`. Errors: those of read_family_file(), model_type_of()
// and find_family().
Result<std::optional<Family>> family_of(const FamilyOptions& options, std::string_view config,
                                        const std::string& file);

// Opens the checkpoint in a folder, or the model in a GGUF file. If `options` are set, a GGUF file
// fails with the error of refuse_gguf(). `same` is passed to open_checkpoint().
Result<Checkpoint> open_source(const std::string& source, const FamilyOptions& options,
                               TensorsEqual& same);

// Opens only the config of a folder, a GGUF file or a config file, for plans without a checkpoint.
// The weight table lists the tensors that the model needs (declared_weights() in bf16).
Result<Checkpoint> open_config_only(const std::string& source, const FamilyOptions& options);

// Opens the source of `moec plan`: a checkpoint, as open_source() does; a folder without weights or
// a .json file, as open_config_only() does; or the name of a published model
// (models/published/published.h). Error for any other source: published.unknown.
Result<Checkpoint> open_for_plan(const std::string& source, const FamilyOptions& options,
                                 TensorsEqual& same);

// Returns the text of a source's config.json; for a GGUF file, the text of the config that the keys
// describe.
Result<std::string> source_config_text(const std::string& source);

// Returns the tokenizer of a source: from the keys of a GGUF file if it contains a tokenizer,
// otherwise from the folder's tokenizer.json, if present.
ModelTokenizer source_tokenizer(const std::string& source, int64_t vocab);

// Returns the text files to copy to an export (carried_files.h): those of the source's folder, or,
// for a GGUF file with a tokenizer, files generated from the keys. Errors: those of read_gguf().
Result<CarriedSource> carried_source(const std::string& source);

// Returns the tokens that end a text: those of read_eos_tokens(), or, for a GGUF file, those of the
// keys.
Result<std::vector<int64_t>> source_eos_tokens(const std::string& source, int64_t vocab,
                                               Diagnostics& warnings);

}  // namespace moec
