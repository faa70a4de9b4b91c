// Checks that a manifest is consistent, and that its files are unchanged.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Returns all findings:
//   manifest.version       an unsupported schema version
//   manifest.number        a size, count or number out of range
//   manifest.path          a path that is empty, absolute, outside the folder or listed twice; a
//                          binary form that is not manifest.bin
//   manifest.digest        a digest without 32 lower-case hex digits, a SHA-256 without 64
//   manifest.name          a duplicate shard, port, cache or label; a golden result of an
//                          unknown shard
//   manifest.width         the widths of a shard differ from those of the build
//   manifest.node          a node without a name, with layers or a stage outside the model, or with
//                          invalid expert sets
//   manifest.layer         a layer without attention, or without exactly one feed-forward part; a
//                          layer outside the node
//   manifest.experts       an expert of a layer, or of a node's layer, is missing or repeated
//   manifest.routing       more experts selected than exist, or groups of unequal size
//   manifest.top_k         top-k variants without a number for each layer, rules for unknown
//                          variants, or shards without the graphs of each variant
//   manifest.placement     ops without a predicted unit
//   manifest.weights       the recorded weights do not match the shard's experts
//   manifest.vocabulary    vocabulary slices leave a gap or overlap, or disagree with `logits`
//   manifest.table         a table's file size differs from its rows and columns
//   manifest.task          labels with a task other than token_classification, or missing labels
//   manifest.schedule      a shard that does not run exactly once; a port that is not bound exactly
//                          once; an edge read before it is written, written twice or never read
//   manifest.devices       a duplicate device, a shard on no device or twice on one
//   manifest.type          a port whose type differs from that of its source or sink
//   manifest.format        shards or tables in a format without graphs
Diagnostics check_manifest(const Manifest& manifest);

// Error: format.weights_only (the format has no graphs); the error names the export's first file.
Status require_graphs(const Manifest& manifest, const std::string& folder);

// Checks that every file of the manifest is a regular file of the recorded size and, with
// `digests`, with the recorded digest. Returns all findings, which name the file:
// manifest.file_missing, manifest.size_changed, manifest.digest_changed. Calls `on_read`, if not
// empty, with the bytes of each piece that is read for the digests, and the file's path in
// `folder`.
using ReadCallback = std::function<void(uint64_t bytes, const std::string& file)>;
Diagnostics verify_files(const Manifest& manifest, const std::string& folder, bool digests,
                         const ReadCallback& on_read = {});

// Finds files below the folder that are not part of the export: neither in the manifest nor in
// `known` (paths relative to the folder), and not compiled graphs (file_names.h). Returns at most
// one warning, manifest.extra_files, with their number and the first names.
Diagnostics find_extra_files(const Manifest& manifest, const std::string& folder,
                             std::set<std::string> known);

}  // namespace moec
