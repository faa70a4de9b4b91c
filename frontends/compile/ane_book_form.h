// Restricts a plan to what the Swift runtimes of videlalvaro/ane-book support
// (`--compat ane-book`).
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/model/plan.h"
#include "models/plan/cut_options.h"

namespace moec {

// Sets the cuts that the runtimes require, which are those of the ane-book's own exports: one shard
// per MoE layer, and at least two head slices.
void cut_for_ane_book(CutOptions& cuts);

// Succeeds if the runtimes support the plan. Error: compat.ane_book, with the option to use
// instead, for the first unsupported property. Options: formats other than Core ML, f32 tables,
// layouts other than [1, C, T, 1], no cache, the cache as inputs, a cache of more than 8,192 rows.
// Shards: host routing, several packages or layers per shard. Models: dense layers, and attention,
// norms or routers that the ane-book's model does not have.
Status check_ane_book(const Plan& plan, const manifest::Build& build, bool one_package_a_shard);

// Adds the warning export.book_rotation if the model's rotary embedding differs from the one that
// the runtimes hard-code, which has 32 frequencies of base 5,000,000.
void note_fixed_in_book(const Plan& plan, Diagnostics& notes);

}  // namespace moec
