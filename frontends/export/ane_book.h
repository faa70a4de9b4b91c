// Compatibility with the Swift runtimes of videlalvaro/ane-book (`--compat ane-book`): the export
// uses their file names and has their manifest in addition to moec's own.
//
//   OUT/MODEL_ane/{attn,moe,lm_head}/…   the packages
//   OUT/MODEL_embed.bin                  embedding rows, f16
//   OUT/MODEL_runtime_meta.json          the keys that runtime/zaya_ane.swift decodes, and
//                                        `mlpackage` next to each `mlmodelc`
//
// The runtimes load compiled models: `xcrun coremlcompiler compile X.mlpackage FOLDER` writes the
// X.mlmodelc that the keys name. They need one package per shard, with the cache as states.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "backends/output/out_folder.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"
#include "models/plan/cut_options.h"

namespace moec {

// Returns the names above. MODEL is OutputOptions::book_model or, if that is empty, the last
// component of the source's path, with '_' for each character outside [A-Za-z0-9].
OutNames ane_book_names(const ExportOptions& options);

// Writes OUT/MODEL_runtime_meta.json. The runtimes sort its layers by number and expect `n_layers`
// of them; each package counts as a layer. `model_family` is OutputOptions::book_model or, if that
// is empty, the model's family; the runtimes only print it. The bos and eos token ids come from the
// source's config.json; -1 if absent. Errors: those of reading and writing.
Result<manifest::FileRef> write_runtime_meta(const Manifest& manifest, const ExportOptions& options,
                                             const OutNames& names, const Plan& plan);

}  // namespace moec
