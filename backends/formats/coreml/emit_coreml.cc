#include "backends/formats/coreml/emit_coreml.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <set>

#include "backends/emit/message_bytes.h"
#include "backends/emit/metadata_keys.h"
#include "backends/emit/write_weights.h"
#include "backends/files/output_file.h"
#include "backends/formats/coreml/model_writer.h"
#include "backends/formats/coreml/package.h"
#include "backends/formats/coreml/spec_version.h"
#include "backends/formats/coreml/token_range.h"
#include "backends/formats/coreml/weight_blobs.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// A package that is ready but for its payload. All packages are prepared before a byte of payload
// is read, so that errors of the shard are reported at once and not after minutes of writing.
struct Prepared {
  std::string name;  // relative to the folder
  std::vector<MilFunction> functions;
  DataLayout layout{kBlobFormat};
  mlmodel::Model model;
};

bool by_tokens(const ShardWidth& a, const ShardWidth& b) { return a.tokens < b.tokens; }

Status check_widths(std::span<const ShardWidth> widths, WidthPackaging packaging) {
  for (const ShardWidth& width : widths) MOEC_TRY(check_mil(*width.shard));
  if (packaging != WidthPackaging::range) return {};
  const ShardWidth& least = *std::min_element(widths.begin(), widths.end(), by_tokens);
  if (widths.size() < 2)
    return fail("coreml.range",
                fmt::format("a single width, {} tokens, is not a range", least.tokens),
                "give the least and the largest width", {.shard = least.shard->name});
  for (const ShardWidth& width : widths) MOEC_TRY(check_range(*least.shard, *width.shard));
  return {};
}

std::string function_name(const GraphKey& key) { return to_string(key, '_'); }

// The packages with the functions that each holds, the narrowest first.
std::vector<Prepared> arrange(std::span<const ShardWidth> widths,
                              std::span<const std::string> names, WidthPackaging packaging) {
  std::vector<Prepared> packages(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    packages[i].name = names[i];
    packages[i].functions = {{"main", widths[i].shard, nullptr}};
  }
  if (names.size() == widths.size()) return packages;
  std::vector<ShardWidth> sorted(widths.begin(), widths.end());
  std::stable_sort(sorted.begin(), sorted.end(), by_tokens);
  auto& functions = packages.front().functions;
  if (packaging == WidthPackaging::range) {
    functions = {{"main", sorted.front().shard, sorted.back().shard}};
    return packages;
  }
  functions.clear();
  for (const ShardWidth& width : sorted)
    functions.push_back({function_name(width.key()), width.shard, nullptr});
  return packages;
}

void lay_out(Prepared& package, const ExpertLayout& experts) {
  for (const MilFunction& function : package.functions)
    collect_blobs(*function.shard, experts, package.layout);
}

// The keys of all entries, in their order. Layouts with equal keys have equal weight files.
std::vector<std::string> content_of(const DataLayout& layout) {
  std::vector<std::string> keys;
  for (const DataLayout::Entry& entry : layout.entries()) keys.push_back(entry.key);
  return keys;
}

Status check_blobs(const Prepared& package, const WeightReader& weights,
                   const EmitOptions& options) {
  const uint64_t limit = options.limits.weight_file_bytes;
  MOEC_TRY(check_layout(package.layout, weights, options.tile_bytes));
  if (package.layout.file_bytes() < limit) return {};
  return fail("coreml.blob_too_large",
              fmt::format("the weight file would take {} bytes, it must stay below {}",
                          package.layout.file_bytes(), limit),
              "split the shard: a smaller budget for its weights, or fewer experts in it",
              {.shard = package.functions.front().shard->name, .file = package.name});
}

Status check_size(const Prepared& package, uint64_t limit) {
  const uint64_t bytes = package.model.ByteSizeLong();
  if (bytes <= limit) return {};
  return fail("emit.graph_too_large",
              fmt::format("the model would take {} bytes, the limit is {}", bytes, limit),
              "split the shard", {.file = package.name});
}

Result<std::vector<Prepared>> prepare(std::span<const ShardWidth> widths,
                                      const WeightReader& weights, const EmitOptions& options,
                                      const CoremlOptions& coreml,
                                      std::span<const std::string> names) {
  MOEC_TRY(check_widths(widths, coreml.packaging));
  std::vector<Prepared> packages = arrange(widths, names, coreml.packaging);
  const bool several = packages.front().functions.size() > 1;
  MOEC_ASSIGN(const int version, choose_spec_version(widths, several, coreml.spec_version));
  for (Prepared& package : packages) {
    if (options.experts.layers)
      for (MilFunction& function : package.functions)
        function.moe_layers = &*options.experts.layers;
    lay_out(package, options.experts);
    MOEC_TRY(check_blobs(package, weights, options));
    write_model(package.functions, package.layout, version, options.family, package.model);
    if (coreml.packaging == WidthPackaging::range) {
      const auto [least, largest] = std::minmax_element(widths.begin(), widths.end(), by_tokens);
      auto& metadata = *package.model.mutable_description()->mutable_metadata();
      (*metadata.mutable_userdefined())[metadata_key(kRangeEntry)] =
          fmt::format("{} {}", least->tokens, largest->tokens);
    }
    MOEC_TRY(check_size(package, options.limits.graph_bytes));
  }
  return packages;
}

Result<EmittedFile> write_text(const Package& package, const std::string& name, const char* path,
                               std::string_view bytes, bool sha256) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create(package / path, bytes.size(), sha256));
  MOEC_TRY(file.write(std::as_bytes(std::span(bytes))));
  MOEC_TRY(file.close());
  MOEC_TRY(file.publish());
  return EmittedFile{name + "/" + path, file.bytes(), file.digest(), file.sha256()};
}

// Writes the weight files of a shard's packages. Files of the same content become hard links of one
// file where the file system has them, so that the payload is read and written once.
class WeightFiles {
 public:
  WeightFiles(const WeightReader& weights, const EmitOptions& options, EmitReport& report)
      : weights_(weights), options_(options), report_(report) {}

  Result<EmittedFile> write(const DataLayout& layout, const OutputPath& path) {
    std::vector<std::string> content = content_of(layout);
    for (const Written& earlier : written_)
      if (earlier.content == content && has_link(earlier.path, path)) return earlier.file;
    MOEC_ASSIGN(EmittedFile file, write_blobs(layout, weights_, options_, path, report_));
    written_.push_back({std::move(content), path, file});
    return file;
  }

 private:
  struct Written {
    std::vector<std::string> content;
    OutputPath path;
    EmittedFile file;
  };

  // Any failure is met again when the file is written as one of its own.
  static bool has_link(const OutputPath& earlier, const OutputPath& path) {
    return link_files(earlier, path).value_or(false);
  }

  const WeightReader& weights_;
  const EmitOptions& options_;
  EmitReport& report_;
  std::vector<Written> written_;
};

// Returns the model's file; the others are added to the report.
Result<EmittedFile> write_package(const Prepared& prepared, const Package& package,
                                  const EmitOptions& options, WeightFiles& files,
                                  EmitReport& report) {
  const bool has_weights = !prepared.layout.empty();
  if (has_weights) {
    MOEC_ASSIGN(EmittedFile blobs, files.write(prepared.layout, package / kWeightPath));
    blobs.path = prepared.name + "/" + kWeightPath;
    report.data.push_back(std::move(blobs));
  }
  MOEC_ASSIGN(EmittedFile manifest, write_text(package, prepared.name, kManifestPath,
                                               package_manifest(has_weights), options.sha256));
  report.data.push_back(std::move(manifest));
  return write_text(package, prepared.name, kModelPath, message_bytes(prepared.model),
                    options.sha256);
}

}  // namespace

std::vector<std::string> coreml_package_names(const std::string& stem,
                                              std::span<const GraphKey> keys,
                                              WidthPackaging packaging) {
  if (packaging != WidthPackaging::separate) return {stem + ".mlpackage"};
  std::vector<std::string> names;
  for (const GraphKey& key : keys)
    names.push_back(fmt::format("{}.{}.mlpackage", stem, to_string(key, '.')));
  return names;
}

std::vector<std::string> coreml_file_names(const std::string& stem, std::span<const GraphKey> keys,
                                           WidthPackaging packaging) {
  std::vector<std::string> files;
  for (const std::string& package : coreml_package_names(stem, keys, packaging))
    for (const char* path : {kManifestPath, kModelPath, kWeightPath})
      files.push_back(fmt::format("{}/{}", package, path));
  return files;
}

Result<std::vector<WeightView>> coreml_weight_views(std::span<const ShardWidth> widths,
                                                    const CoremlOptions& coreml,
                                                    const ExpertLayout& experts) {
  MOEC_TRY(check_widths(widths, coreml.packaging));
  const auto names = coreml_package_names("", keys_of(widths), coreml.packaging);
  std::vector<Prepared> packages = arrange(widths, names, coreml.packaging);
  MOEC_TRY(choose_spec_version(widths, packages.front().functions.size() > 1, coreml.spec_version));
  std::set<std::vector<std::string>> written;
  std::vector<WeightView> views;
  for (Prepared& package : packages) {
    lay_out(package, experts);
    if (!written.insert(content_of(package.layout)).second) continue;
    const std::vector<WeightView> more = package.layout.views();
    views.insert(views.end(), more.begin(), more.end());
  }
  return views;
}

Result<EmitReport> emit_coreml(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options, const CoremlOptions& coreml) {
  MOEC_CHECK(!widths.empty(), "{} is emitted for no token width", options.stem);
  const std::vector<GraphKey> keys = keys_of(widths);
  const auto names = coreml_package_names(options.stem, keys, coreml.packaging);
  MOEC_ASSIGN(const std::vector<Prepared> prepared,
              prepare(widths, weights, options, coreml, names));

  EmitReport report;
  WeightFiles files(weights, options, report);
  std::vector<Package> packages;
  std::vector<EmittedFile> models;
  for (const Prepared& package : prepared) {
    MOEC_ASSIGN(Package folder, Package::create({options.folder, package.name}));
    packages.push_back(std::move(folder));
    MOEC_ASSIGN(EmittedFile model, write_package(package, packages.back(), options, files, report));
    models.push_back(std::move(model));
  }
  for (Package& package : packages) MOEC_TRY(package.publish());
  const bool several = prepared.front().functions.size() > 1;
  for (size_t i = 0; i < widths.size(); ++i)
    report.graphs.push_back({keys[i].tokens, models[models.size() > 1 ? i : 0],
                             several ? function_name(keys[i]) : "", keys[i].top_k});
  return report;
}

}  // namespace moec
