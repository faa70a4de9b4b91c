// Opens checkpoints as commands name them: by folder, GGUF file, config file or published name,
// with a family descriptor of the user, or keys to ignore.
#pragma once

#include <string>
#include <vector>

#include "backends/output/carried_files.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/sources/family_options.h"
#include "frontends/sources/hf/checkpoint.h"

namespace moec {

// The GGUF file in a folder that has no config.json and one model: the only GGUF file, or the first
// of its parts (NAME-00001-of-N.gguf). Any other source as it is.
std::string source_in_folder(const std::string& source);

// Error gguf.family_file if the source is a GGUF file, whose keys no family descriptor describes.
Status refuse_gguf(const std::string& source);

// The descriptor that the options ask for; none: the built-in one as it is. `config` is the text of
// `file`. Errors: those of read_family_file(), model_type_of() and find_family().
Result<std::optional<Family>> family_of(const FamilyOptions& options, std::string_view config,
                                        const std::string& file);

// The checkpoint in a folder, or the model in a GGUF file; with options a GGUF file is the error of
// refuse_gguf(). `same` is that of open_checkpoint().
Result<Checkpoint> open_source(const std::string& source, const FamilyOptions& options,
                               TensorsEqual& same);

// Only the config of a folder, a GGUF file or a config file, with a table of the tensors that the
// model would need (declared_weights, bf16). For plans without a checkpoint.
Result<Checkpoint> open_config_only(const std::string& source, const FamilyOptions& options);

// The sources of `moec plan`: a checkpoint folder, whose weights are located and checked; a folder
// without weights or a .json file, as in open_config_only; or the name of a published model
// (models/published/published.h). Error published.unknown for anything else.
Result<Checkpoint> open_for_plan(const std::string& source, const FamilyOptions& options,
                                 TensorsEqual& same);

// The text of a source's config.json; for a GGUF file, of the config that its keys stand for.
Result<std::string> source_config_text(const std::string& source);

// The tokenizer of a source: that of the keys of a GGUF file, if it has one, else the
// tokenizer.json of the folder, if there is one.
ModelTokenizer source_tokenizer(const std::string& source, int64_t vocab);

// The text files that go with a source's model (carried_files.h): those of its folder, or of a GGUF
// file with a tokenizer, those that its keys stand for. Errors: those of read_gguf().
Result<CarriedSource> carried_source(const std::string& source);

// The tokens that end a text: those of read_eos_tokens(), or of a GGUF file's keys.
Result<std::vector<int64_t>> source_eos_tokens(const std::string& source, int64_t vocab,
                                               Diagnostics& warnings);

}  // namespace moec
