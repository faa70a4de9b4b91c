// Copies a checkpoint's tokenizer, chat template and sampling parameters into its export, so that a
// program that runs the shards can convert text to token ids and back.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The names of these files on the Hugging Face hub, among them SentencePiece and tiktoken models.
inline constexpr std::array kCarriedFiles = {"tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "vocab.txt",
                                             "tokenizer.model",
                                             "spiece.model",
                                             "tiktoken.model",
                                             "chat_template.jinja",
                                             "chat_template.json",
                                             "generation_config.json"};

// A file that no folder has, such as one that stands for the keys of a GGUF file.
struct MadeFile {
  std::string name;
  std::function<Result<std::string>()> text;
};

// Where the files come from.
struct CarriedSource {
  std::string folder;          // the checkpoint's
  std::vector<MadeFile> made;  // if there are any, they take the place of the folder's
};

// Whether one of the files is enough to encode text.
bool has_tokenizer(const CarriedSource& source);

// The names of those that there are, in the order above; dangling links are among them.
std::vector<std::string> carried_names(const CarriedSource& source);

// Whether each of them can be copied or made, as carry_files() would.
Status check_carried_files(const CarriedSource& source);

// Copies them to the folder `out`, byte for byte. A file may be a link
// inside the folder, or into the store of blobs that the folder of a downloaded model links into:
// a folder `blobs` beside it, or beside the folder `snapshots` that holds it. Errors:
// export.carried_link for a link to anywhere else, whose contents may be private; those of
// RegularFile for a source (a dangling link included), those of MadeFile::text, those of OutputFile
// for a copy.
Result<std::vector<manifest::FileRef>> carry_files(const CarriedSource& source,
                                                   const std::string& out, bool sha256);

}  // namespace moec
