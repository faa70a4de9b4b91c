#include "backends/manifest/manifest_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "backends/files/digest.h"
#include "backends/files/sha.h"
#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/file_names.h"

namespace moec {
namespace manifest {
namespace {

// Returns true if the path is relative, has no empty, "." or ".." component, and no control
// characters, backslashes or colons.
bool stays_inside(std::string_view path) {
  // Windows treats a backslash as a separator and a colon as the end of a drive name.
  for (char c : path)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == ':' || c == 0x7f) return false;
  while (true) {
    // An absolute path has an empty first component.
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

void check_files(const Manifest& manifest, Findings& findings) {
  std::set<std::string_view> seen;
  for_each_file(manifest, [&](const FileRef& file, const std::string& shard) {
    findings.require(stays_inside(file.path), "manifest.path", shard,
                     "the path \"{}\" is not inside the folder", file.path);
    findings.require(seen.insert(file.path).second, "manifest.path", shard,
                     "the path \"{}\" appears twice", file.path);
    findings.require(is_digest(file.digest), "manifest.digest", shard,
                     "the digest \"{}\" of {} is not 32 hex digits", file.digest, file.path);
    findings.require(file.sha256.empty() || is_sha256(file.sha256), "manifest.digest", shard,
                     "the SHA-256 \"{}\" of {} is not 64 hex digits", file.sha256, file.path);
    findings.require(file.bytes >= 0, "manifest.number", shard,
                     "{} has the invalid size of {} bytes", file.path, file.bytes);
  });
  // read_manifest() looks for the binary form under this name only.
  findings.require(!manifest.binary || manifest.binary->path == kManifestBin, "manifest.path", {},
                   "the binary form is {}, expected manifest.bin",
                   manifest.binary ? manifest.binary->path : "");
}

// Checks that no two graphs are the same function of a file.
void check_functions(const Manifest& manifest, Findings& findings) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const Shard& shard : manifest.shards)
    for (const Width& width : shard.widths)
      findings.require(
          width.function.empty() || seen.emplace(width.file.path, width.function).second,
          "manifest.path", shard.name, "function {} of {} appears twice", width.function,
          width.file.path);
}

void check_table(const TableFile& table, std::string_view name, Findings& findings) {
  std::optional<int64_t> elements = checked_elements({table.rows, table.columns});
  if (!findings.require(elements.has_value(), "manifest.table", {},
                        "{} has an invalid size: {} rows by {} columns", name, table.rows,
                        table.columns))
    return;
  // checked_elements() limits `elements` to 2^48, so the product cannot overflow.
  int64_t bytes = *elements * dtype_bytes(table.dtype);
  findings.require(bytes == table.file.bytes, "manifest.table", {},
                   "{} needs {} bytes for {} rows by {} columns of {}, its file has {}", name,
                   bytes, table.rows, table.columns, dtype_name(table.dtype), table.file.bytes);
}

void check_tables(const Manifest& manifest, Findings& findings) {
  const TableFile& embedding = manifest.embedding;
  if (manifest.has_embedding())
    check_table(embedding, "embedding", findings);
  else
    findings.require(embedding == TableFile{}, "manifest.table", {},
                     "a node of a later stage must not have an embedding");
  findings.require(
      !manifest.has_embedding() ||
          (embedding.rows == manifest.model.vocab && embedding.columns == manifest.model.hidden),
      "manifest.table", {}, "embedding is {} by {}, expected vocab by hidden, {} by {}",
      embedding.rows, embedding.columns, manifest.model.vocab, manifest.model.hidden);
  if (!manifest.rope) return;
  const TableFile& rope = manifest.rope->table;
  check_table(rope, "rope", findings);
  const std::vector<int64_t>& widths = manifest.rope->widths;
  const int64_t scales = manifest.rope->query_scale ? 1 : 0;
  int64_t left = rope.columns - scales;
  // -1 persists, because every later width exceeds left / 2. The division avoids overflow with
  // hostile widths.
  for (const int64_t width : widths) left = width < 1 || width > left / 2 ? -1 : left - 2 * width;
  findings.require(
      left == 0 && !widths.empty(), "manifest.table", {},
      "rope has {} columns, which do not match the cosines and sines of {} rotations{}",
      rope.columns, widths.size(), scales == 1 ? " and the query scale" : "");
  // A session reads one row of the table per position of the context.
  findings.require(rope.rows >= manifest.build.context, "manifest.table", {},
                   "rope has {} positions for a context of {}", rope.rows, manifest.build.context);
}

void check_budgets(const Build& build, Findings& findings) {
  std::set<ShardKind> kinds;
  for (const Budget& budget : build.budgets)
    // A kind without a budget has no entry, so 0 bytes are invalid.
    findings.require(kinds.insert(budget.kind).second && budget.bytes > 0, "manifest.number", {},
                     "build.budgets: {} bytes for kind {}, expected one budget above 0 per kind",
                     budget.bytes, enum_name(budget.kind));
}

// Checks that the mask is in the form of to_string() and leaves enough experts.
void check_mask(const Manifest& manifest, Findings& findings) {
  const auto mask = expert_mask_of(manifest);
  // Comparing with to_string() excludes other spellings of the same mask.
  const bool fine = mask && to_string(*mask) == manifest.build.expert_mask &&
                    check_enough(*mask, expert_grid(manifest), "build.expert_mask").has_value();
  findings.require(fine, "manifest.experts", {},
                   "build.expert_mask is not a valid mask of the experts: {}",
                   manifest.build.expert_mask);
}

void check_eos_tokens(const Model& model, Findings& findings) {
  const std::vector<int64_t>& ids = model.eos_tokens;
  for (const int64_t id : ids)
    if (!findings.require(id >= 0 && id < model.vocab, "manifest.number", {},
                          "the end-of-text id {} is outside the vocabulary of {}", id, model.vocab))
      return;
  findings.require(std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end(),
                   "manifest.number", {}, "the end-of-text ids are not ascending");
}

void check_numbers(const Manifest& manifest, Findings& findings) {
  auto positive = [&](int64_t number, std::string_view name) {
    findings.require(number > 0 && number <= kMaxElements, "manifest.number", {},
                     "{} is {}, which is out of range", name, number);
  };
  positive(manifest.model.hidden, "model.hidden");
  positive(manifest.model.vocab, "model.vocab");
  positive(manifest.model.layers, "model.layers");
  findings.require(manifest.model.left_out_layers >= 0, "manifest.number", {},
                   "model.left_out_layers is {}, expected 0 or more",
                   manifest.model.left_out_layers);
  positive(manifest.model.max_positions, "model.max_positions");
  check_eos_tokens(manifest.model, findings);
  positive(manifest.build.context, "build.context");
  const int64_t pages = manifest.build.cache_pages;
  findings.require(pages > 0 && manifest.build.context % pages == 0 &&
                       (pages == 1 || updates_cache(manifest.build.cache)),
                   "manifest.number", {}, "build.cache_pages is {} for {} rows with cache form {}",
                   pages, manifest.build.context, enum_name(manifest.build.cache));
  findings.require(manifest.masked_value < -1000, "manifest.number", {},
                   "masked_value is {}, expected less than -1000", manifest.masked_value);
  findings.require(manifest.masked_value >= -largest_finite(manifest.build.dtype),
                   "manifest.number", {}, "masked_value {} is not finite in {}",
                   manifest.masked_value, dtype_name(manifest.build.dtype));
  const std::vector<int64_t>& tokens = manifest.build.tokens;
  bool ascending =
      std::adjacent_find(tokens.begin(), tokens.end(), std::greater_equal<>()) == tokens.end();
  findings.require(
      !tokens.empty() && ascending && tokens.front() > 0 && tokens.back() <= kMaxElements,
      "manifest.number", {}, "build.tokens [{}] must be ascending widths", fmt::join(tokens, ", "));
  findings.require(manifest.build.exact == routes_exactly(manifest), "manifest.number", {},
                   "routing {} is wrongly marked {}", manifest.build.routing,
                   manifest.build.exact ? "exact" : "inexact");
  check_budgets(manifest.build, findings);
  check_mask(manifest, findings);
  check_node(manifest, findings);
}

void check_ports(const std::vector<Port>& ports, const std::string& shard, Findings& findings) {
  std::set<std::string_view> names;
  for (const Port& port : ports) {
    findings.require(names.insert(port.name).second, "manifest.name", shard,
                     "the port {} appears twice", port.name);
    bool sized = port.dims.size() <= kMaxRank && checked_elements(port.dims).has_value();
    findings.require(sized, "manifest.number", shard, "the port {} has the invalid shape {}",
                     port.name, to_string(port.dims));
  }
}

// Checks that the predicted placement counts each op of the shard once.
void check_placement(const Shard& shard, Findings& findings) {
  constexpr int64_t kMaxOps = int64_t{1} << 30;  // avoids overflow with hostile counts
  int64_t ops = 0, placed = 0;
  for (const OpCount& count : shard.ops) ops += std::clamp<int64_t>(count.count, 0, kMaxOps);
  for (const Placement& unit : shard.placement) placed += std::clamp<int64_t>(unit.ops, 0, kMaxOps);
  findings.require(ops == placed, "manifest.placement", shard.name,
                   "the placement counts {} of {} ops", placed, ops);
}

void check_shard(const Manifest& manifest, const Shard& shard, Findings& findings) {
  const std::vector<int64_t>& tokens = manifest.build.tokens;
  std::vector<int64_t> widths;
  // `tokens` is not empty: check_manifest() returns earlier if check_numbers() fails.
  bool fine = !shard.widths.empty() && shard.widths.size() % tokens.size() == 0;
  for (const Width& width : shard.widths) {
    fine = fine && width.tokens == tokens[widths.size() % tokens.size()];
    widths.push_back(width.tokens);
    check_ports(width.inputs, shard.name, findings);
    check_ports(width.outputs, shard.name, findings);
  }
  check_ports(shard.states, shard.name, findings);
  findings.require(fine, "manifest.width", shard.name,
                   "the shard has widths [{}], the build has [{}]", fmt::join(widths, ", "),
                   fmt::join(tokens, ", "));
  const Cost& cost = shard.cost;
  for (int64_t number : {shard.weight_bytes, shard.cast_overflows, cost.bytes_dense,
                         cost.bytes_active, cost.macs_dense, cost.macs_active})
    findings.require(number >= 0, "manifest.number", shard.name, "a size or cost is negative: {}",
                     number);
  check_placement(shard, findings);
}

void check_task(const Manifest& manifest, Findings& findings) {
  const bool tags = manifest.model.task == Task::token_classification;
  // Labels and task must agree, because the runtime recognizes a tagging model by its labels.
  findings.require(tags == manifest.tagging.has_value(), "manifest.task", {},
                   "a model for task {} has {}", enum_name(manifest.model.task),
                   tags ? "no labels" : "labels");
  if (!manifest.tagging) return;
  std::set<std::string_view> names;
  for (const Label& label : manifest.tagging->labels)
    findings.require(!label.name.empty() && names.insert(label.name).second, "manifest.name", {},
                     "the label \"{}\" appears twice or is empty", label.name);
}

// Checks that models that attend to later tokens have no caches: only causal models keep keys
// between steps.
void check_spans(const Manifest& manifest, Findings& findings) {
  const bool none = !has_cache(manifest.build.cache);
  findings.require(!none || manifest.caches.empty(), "manifest.number", {},
                   "cache form none must have no caches, found {}", manifest.caches.size());
  for (const Step& step : manifest.schedule)
    for (const InputBinding& binding : step.inputs)
      findings.require(binding.ahead == 0 || (none && binding.ahead > 0), "manifest.number",
                       step.shard, "the port {} sees {} keys ahead with cache form {}",
                       binding.port, binding.ahead, enum_name(manifest.build.cache));
}

void check_names(const Manifest& manifest, Findings& findings) {
  std::set<std::string_view> shards;
  for (const Shard& shard : manifest.shards)
    findings.require(shards.insert(shard.name).second, "manifest.name", shard.name,
                     "two shards have this name");
  for (const Golden& golden : manifest.golden)
    findings.require(shards.count(golden.shard) == 1, "manifest.name", golden.shard,
                     "a golden result names an unknown shard");
  std::set<int64_t> layers;
  for (const Cache& cache : manifest.caches) {
    findings.require(layers.insert(cache.layer).second, "manifest.name", {},
                     "layer {} has two caches", cache.layer);
    // A layer without a history has two zeros, which checked_elements() refuses.
    const std::array<int64_t, 2> history = {cache.history_tokens, cache.history_channels};
    const bool sized = checked_elements({history.begin(), history.end()}).has_value();
    findings.require(sized || history == std::array<int64_t, 2>{}, "manifest.number", {},
                     "the history of layer {} has invalid sizes: {} tokens of {} channels",
                     cache.layer, history[0], history[1]);
    findings.require(cache.state.empty() || checked_elements(cache.state).has_value(),
                     "manifest.number", {}, "the state of layer {} has invalid sizes: {}",
                     cache.layer, to_string(cache.state));
  }
}

// Checks that each shard is on at least one device; several devices may have replicas of it.
void check_devices(const Manifest& manifest, Findings& findings) {
  if (manifest.devices.empty()) return;
  const ShardIndex shards = index_shards(manifest);
  std::set<std::string_view> devices, placed;
  for (const Device& device : manifest.devices) {
    findings.require(devices.insert(device.name).second, "manifest.devices", {},
                     "the device {} appears twice", device.name);
    findings.require(device.bytes > 0, "manifest.number", {},
                     "device {} has {} bytes, expected more than 0", device.name, device.bytes);
    std::set<std::string_view> held;
    for (const HeldShard& shard : device.shards) {
      findings.require(find_shard(shards, shard.shard) != nullptr, "manifest.devices", shard.shard,
                       "device {} holds an unknown shard", device.name);
      findings.require(held.insert(shard.shard).second, "manifest.devices", shard.shard,
                       "device {} lists the shard twice", device.name);
    }
    placed.insert(held.begin(), held.end());
  }
  for (const Shard& shard : manifest.shards)
    findings.require(placed.contains(shard.name), "manifest.devices", shard.name,
                     "no device holds the shard");
}

void check_no_graphs(const Manifest& manifest, Findings& findings) {
  const bool none = manifest.shards.empty() && manifest.schedule.empty() &&
                    manifest.caches.empty() && manifest.devices.empty() && !manifest.rope;
  findings.require(none, "manifest.format", {},
                   "files of format {} have no graphs, but the manifest describes some",
                   enum_name(manifest.build.format));
}

}  // namespace
}  // namespace manifest

Status require_graphs(const Manifest& manifest, const std::string& folder) {
  if (manifest.has_graphs()) return {};
  const std::string file =
      manifest.side_files.empty() ? folder : folder + "/" + manifest.side_files.front().path;
  return fail(
      "format.weights_only",
      fmt::format("files of format {} hold weights but no graph", enum_name(manifest.build.format)),
      "run the file with llama.cpp, or pass it to moec export with a target whose format has "
      "graphs",
      {.file = file});
}

Diagnostics check_manifest(const Manifest& manifest) {
  manifest::Findings findings;
  // Checks the version first, because fields of another version can have another meaning.
  const bool known = manifest.schema_version >= manifest::kOldestSchema &&
                     manifest.schema_version <= manifest::kSchemaVersion;
  if (!findings.require(known, "manifest.version", {},
                        "the manifest has schema version {}, expected {} to {}",
                        manifest.schema_version, manifest::kOldestSchema, manifest::kSchemaVersion))
    return findings.take();
  manifest::check_numbers(manifest, findings);
  // The other checks compute with these numbers and would overflow.
  if (!findings.empty()) return findings.take();
  manifest::check_files(manifest, findings);
  // Files without graphs have no shards, so the checks of shards do not apply.
  if (!manifest.has_graphs()) {
    manifest::check_no_graphs(manifest, findings);
    return findings.take();
  }
  manifest::check_functions(manifest, findings);
  manifest::check_tables(manifest, findings);
  manifest::check_names(manifest, findings);
  manifest::check_task(manifest, findings);
  manifest::check_spans(manifest, findings);
  manifest::check_devices(manifest, findings);
  for (const manifest::Shard& shard : manifest.shards)
    manifest::check_shard(manifest, shard, findings);
  manifest::check_layers(manifest, findings);
  manifest::check_vocabulary(manifest, findings);
  manifest::check_top_k(manifest, findings);
  manifest::check_schedule(manifest, findings);
  manifest::check_weights(manifest, findings);
  return findings.take();
}

}  // namespace moec
