// Compares two versions of an export's folder, for servers that change from one to the other.
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Checks that texts can continue with the folder `after`: it differs from `before` in its experts
// only. Everything else is equal, including the digests of the trunk's files, so that caches, token
// ids and limits of requests keep their meaning. Error serve.reload.
Status check_reload(const Manifest& before, const Manifest& after);

// True if both compute the same results, with the same experts.
bool same_results(const Manifest& before, const Manifest& after);

}  // namespace moec
