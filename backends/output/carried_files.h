// Copies a checkpoint's tokenizer, chat template and sampling parameters into the export, so that
// runtimes can convert between text and token ids.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The file names on the Hugging Face hub, including SentencePiece and tiktoken models.
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

// A generated file, such as a tokenizer made from the keys of a GGUF file.
struct MadeFile {
  std::string name;
  std::function<Result<std::string>()> text;
};

// The source of the files.
struct CarriedSource {
  std::string folder;          // the checkpoint's
  std::vector<MadeFile> made;  // if not empty, used instead of the folder's files
  // Names of other files of the folder to copy.
  // NOLINTNEXTLINE(readability-redundant-member-init): lists of initializers may omit it
  std::vector<std::string> further = {};
};

// True if one of the files can encode text.
bool has_tokenizer(const CarriedSource& source);

// The names of the existing files, in the order above and including dangling links, and then the
// further ones.
std::vector<std::string> carried_names(const CarriedSource& source);

// Succeeds if carry_files() could copy or generate each file.
Status check_carried_files(const CarriedSource& source);

// Copies or generates the files in the folder `out`. A source may be a link within its folder, or
// into the blob store of a downloaded model: a folder `blobs` next to the source folder, or next to
// the folder `snapshots` that contains it. Errors: export.carried_link for any other link, because
// its target may be private; those of RegularFile for a source, including a dangling link; those of
// MadeFile::text; those of OutputFile for a copy.
Result<std::vector<manifest::FileRef>> carry_files(const CarriedSource& source,
                                                   const std::string& out, bool sha256);

}  // namespace moec
