// Compatibility with the ane-book's Swift runtimes (`--compat ane-book`): their names and their
// manifest, beside ours.
//
//   OUT/MODEL_ane/{attn,moe,lm_head}/…   the packages
//   OUT/MODEL_embed.bin                  embedding rows, f16
//   OUT/MODEL_runtime_meta.json          the keys that runtime/zaya_ane.swift of
//   videlalvaro/ane-book
//                                        decodes, and `mlpackage` beside each `mlmodelc`
//
// The runtimes load compiled models: `xcrun coremlcompiler compile X.mlpackage FOLDER` puts
// X.mlmodelc where the keys name it. They take one package a layer, with the cache as states.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "backends/output/out_folder.h"
#include "frontends/export/export_model.h"
#include "ir/plan/plan.h"

namespace moec {

// Names with MODEL as the source's last path component, with each character outside [A-Za-z0-9] as
// '_'.
OutNames ane_book_names(const std::string& source);

// What the runtimes cannot take is an error "compat.ane_book", which says what to choose instead:
// another format than coreml, other layouts than [1, C, T, 1], the cache as inputs, dense layers,
// host routing, several packages a shard.
Status check_ane_book(const Plan& plan, const manifest::Build& build, bool one_package_a_shard);

// Drops the target's own budgets for MoE layers: these runtimes take only whole ones, whatever
// their size. A budget that the user asked for stays, and leads to an error where it cuts a layer.
void keep_layers_whole(Budgets& budgets);

// The token ids that mark begin and end of a text are those of the source's config.json; -1 stands
// for one that it does not tell.
Result<manifest::FileRef> write_runtime_meta(const Manifest& manifest, const ExportOptions& options,
                                             const OutNames& names, const Plan& plan);

}  // namespace moec
