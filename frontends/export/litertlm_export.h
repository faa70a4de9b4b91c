// The file of a target with a decoder graph in the format tflite (ir/target/target.h): LiteRT-LM
// loads and runs it.
//
//   OUT/model.litertlm   the whole model with its tokenizer (backends/formats/litertlm)
//
// Its weights are those of the shards, stored once more: LiteRT-LM reads one file.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "frontends/export/export_job.h"
#include "ir/model/plan.h"

namespace moec {

inline constexpr const char* kLitertlmFile = "model.litertlm";

bool packs_litertlm(const Target& target);

// Finds errors before a file is written, from the first shard of each kind and mixer:
// litertlm.family (the model keeps no cache or is not a text generator), litertlm.form (options or
// shards that the file cannot express), and those of compile_shard() and check_tflite().
Status check_litertlm(const Plan& plan, const Manifest& manifest, const CompileOptions& compile);

// Writes the file. The manifest must be complete except for its side files, and the tokenizer's
// files must be in the output folder. Errors: those of check_litertlm(), emit_litertlm() and
// job.check_not_stopped(), and of reading the tokenizer's files.
Result<manifest::FileRef> write_litertlm(const Manifest& manifest, const ExportJob& job);

}  // namespace moec
