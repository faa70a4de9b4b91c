// Checks that a manifest is consistent, and that the files it names are those it was written for.
#pragma once

#include <set>
#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Returns all findings:
//   manifest.version       written with another version of the schema
//   manifest.number        a size, count or number out of its range
//   manifest.path          a path that is empty, absolute, outside the folder or listed twice; a
//                          binary form that is not manifest.bin
//   manifest.digest        a digest without 32 lower-case hex digits, a SHA-256 without 64
//   manifest.name          a duplicate shard, port, cache or label; a golden result of no shard
//   manifest.width         the widths of a shard differ from those of the build
//   manifest.node          a node without a name, of layers or a stage that the model does not
//   have,
//                          or with sets of experts that are none
//   manifest.layer         a layer without attention, or without exactly one feed-forward part; a
//                          layer that the node does not hold
//   manifest.experts       the experts of a layer, or of a node's layer, are not held once each
//   manifest.routing       more experts selected than exist, or groups of unequal size
//   manifest.top_k         forms of top-k without a number for each layer, rules for other
//                          forms, or shards without the graphs of each form
//   manifest.placement     ops without a predicted unit
//   manifest.weights       the recorded weights do not make up the shard's experts
//   manifest.vocabulary    vocabulary slices leave a gap or overlap, or disagree with `logits`
//   manifest.table         a table's file size differs from its rows and columns
//   manifest.task          labels with a task other than token_classification, or none with it
//   manifest.schedule      a shard that does not run exactly once, a port that is not bound exactly
//                          once; an edge read before it is written, written twice or never read
//   manifest.devices       a duplicate device, a shard on no device or twice on one
//   manifest.type          a port whose type differs from that of its source or sink
//   manifest.format        shards or tables of a format without graphs
Diagnostics check_manifest(const Manifest& manifest);

// Error format.weights_only for an export of a format without graphs, with its first file.
Status require_graphs(const Manifest& manifest, const std::string& folder);

// Checks that every file that the manifest names is a regular file of the recorded size and, with
// `digests`, of the recorded digest. Returns all findings, which name the file:
// manifest.file_missing, manifest.size_changed, manifest.digest_changed.
Diagnostics verify_files(const Manifest& manifest, const std::string& folder, bool digests);

// Looks for files below the folder that belong to no export: neither the manifest nor `known`
// (paths relative to the folder) names them, and they are no compiled graphs (file_names.h). One
// warning, manifest.extra_files, has their number and the first names.
Diagnostics find_extra_files(const Manifest& manifest, const std::string& folder,
                             std::set<std::string> known);

}  // namespace moec
