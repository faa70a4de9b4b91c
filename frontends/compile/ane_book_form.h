// The form of a plan that the Swift runtimes of videlalvaro/ane-book support (`--compat ane-book`).
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/model/plan.h"
#include "models/plan/cut_options.h"

namespace moec {

// Cuts as the runtimes need them: an MoE layer is one shard, and the head has at least the two
// slices of their own exports.
void cut_for_ane_book(CutOptions& cuts);

// Error compat.ane_book, which says what to choose instead, for what the runtimes do not support:
// other formats than Core ML, f32 tables, other layouts than [1, C, T, 1], the cache as inputs,
// dense layers, host routing, several packages a shard, several layers a shard, a cache of more
// rows than they use.
Status check_ane_book(const Plan& plan, const manifest::Build& build, bool one_package_a_shard);

// Notes export.book_rotation where the rotation is not the one that the runtimes compute: 32
// frequencies of base 5,000,000.
void note_fixed_in_book(const Plan& plan, Diagnostics& notes);

}  // namespace moec
