// Is a manifest consistent in itself, and are the files that it names the ones it was written for?
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// All findings:
//   manifest.version       written in another version of the schema
//   manifest.number        a size, count or number that cannot be
//   manifest.path          a path that is empty, absolute, leaves the folder or stands twice; a
//                          binary form that is not manifest.bin
//   manifest.digest        not 32 lower-case hex digits, a SHA-256 not 64
//   manifest.name          a shard, port, cache or golden result named twice, or naming nothing
//   manifest.width         a shard's widths are not those of the build
//   manifest.layer         a layer without attention, or without exactly one feed-forward part
//   manifest.experts       expert ranges of a layer leave a gap or overlap
//   manifest.routing       more experts chosen than there are, or groups of unequal size
//   manifest.placement     ops without a predicted unit
//   manifest.weights       the recorded weights are not those of the shard's experts
//   manifest.vocabulary    vocabulary slices leave a gap or overlap, or disagree with `logits`
//   manifest.table         a table's size is not what its rows and columns say
//   manifest.task          labels in a manifest that writes text, or none where tokens are labelled
//   manifest.schedule      a shard not run exactly once, a port not bound exactly once;
//                          an edge that is read before it is written, written twice or never read
//   manifest.devices       a device named twice, a shard on no device or twice on one
//   manifest.type          a binding whose port has another type than what is bound to it
Diagnostics check_manifest(const Manifest& manifest);

// Every file that the manifest names exists, is a regular file and has its size; with `digests` it
// also has its digest. All findings: "manifest.file_missing", "manifest.size_changed",
// "manifest.digest_changed", each naming the file.
Diagnostics verify_files(const Manifest& manifest, const std::string& folder, bool digests);

}  // namespace moec
