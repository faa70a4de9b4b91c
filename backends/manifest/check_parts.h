// The parts of check_manifest(), by file.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec::manifest {

// Collects the findings of the checks in this folder.
class Findings {
 public:
  // `shard` may be empty. `code` is the full code, such as "manifest.name".
  template <class... Args>
  void add(const char* code, const std::string& shard, fmt::format_string<Args...> cause,
           Args&&... args) {
    list_.push_back({.code = code,
                     .cause = fmt::format(cause, std::forward<Args>(args)...),
                     .next_step = "export the model again",
                     .place = {.shard = shard}});
  }
  // Adds the finding if `holds` is false. Returns `holds`.
  template <class... Args>
  bool require(bool holds, const char* code, const std::string& shard,
               fmt::format_string<Args...> cause, Args&&... args) {
    if (!holds) add(code, shard, cause, std::forward<Args>(args)...);
    return holds;
  }
  bool empty() const { return list_.empty(); }
  Diagnostics take() { return std::move(list_); }

 private:
  Diagnostics list_;
};

// check_layers.cc: manifest.layer, manifest.experts, manifest.vocabulary
void check_layers(const Manifest& manifest, Findings& findings);
void check_vocabulary(const Manifest& manifest, Findings& findings);
// check_node.cc: manifest.node. Other checks rely on the layers of the node.
void check_node(const Manifest& manifest, Findings& findings);
// check_schedule.cc: manifest.schedule, manifest.type
void check_schedule(const Manifest& manifest, Findings& findings);
// check_top_k.cc: manifest.top_k, manifest.number
void check_top_k(const Manifest& manifest, Findings& findings);
// Returns true if the graphs of the default variant select and weight experts exactly as the model
// does.
bool routes_exactly(const Manifest& manifest);
// check_weight_records.cc: manifest.weights, manifest.ranges, manifest.digest
void check_weights(const Manifest& manifest, Findings& findings);

using ShardIndex = std::map<std::string_view, const Shard*>;

inline ShardIndex index_shards(const Manifest& manifest) {
  ShardIndex index;
  for (const Shard& shard : manifest.shards) index.emplace(shard.name, &shard);
  return index;
}

// Returns null if no shard has that name.
inline const Shard* find_shard(const ShardIndex& index, std::string_view name) {
  auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

// Returns true if the width shares its file with the previous one: a package with several functions
// or a range of widths.
inline bool shares_file(const Shard& shard, size_t width) {
  return width > 0 && shard.widths[width].file == shard.widths[width - 1].file;
}

// Returns true if the data file is also the file of the shard's graphs, as in format tflite.
inline bool holds_graphs(const Shard& shard, const FileRef& data) {
  return !shard.widths.empty() && shard.widths.front().file == data;
}

// Calls visit(FileRef) once for each file of the shard.
template <class Visit>
void for_each_file(const Shard& shard, Visit&& visit) {
  for (size_t i = 0; i < shard.widths.size(); ++i)
    if (!shares_file(shard, i)) visit(shard.widths[i].file);
  for (const FileRef& file : shard.data)
    if (!holds_graphs(shard, file)) visit(file);
}

// Returns true if the graphs of a shard are functions of a package, which may also contain other
// shards of the layer.
inline bool has_functions(const Shard& shard) {
  return !shard.widths.empty() && !shard.widths.front().function.empty();
}

// Calls visit(FileRef, shard name) for each file of the manifest; for the first shard of a package
// only. The name is empty for files that belong to no shard.
template <class Visit>
void for_each_file(const Manifest& manifest, Visit&& visit) {
  for (const FileRef& file : manifest.carried) visit(file, std::string());
  for (const FileRef& file : manifest.side_files) visit(file, std::string());
  if (manifest.binary) visit(*manifest.binary, std::string());
  if (manifest.has_embedding()) visit(manifest.embedding.file, std::string());
  if (manifest.rope) visit(manifest.rope->table.file, std::string());
  std::map<std::string_view, const FileRef*> packaged;
  for (const Shard& shard : manifest.shards)
    for_each_file(shard, [&](const FileRef& file) {
      // A file with the same path but other properties is a mistake, which a check must see.
      if (!has_functions(shard) || packaged.emplace(file.path, &file).second ||
          *packaged.at(file.path) != file)
        visit(file, shard.name);
    });
}

}  // namespace moec::manifest
