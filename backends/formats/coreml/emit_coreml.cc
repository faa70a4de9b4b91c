#include "backends/formats/coreml/emit_coreml.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "backends/emit/message_bytes.h"
#include "backends/emit/metadata_keys.h"
#include "backends/emit/shard_facts.h"
#include "backends/emit/write_weights.h"
#include "backends/files/output_file.h"
#include "backends/formats/coreml/mil_names.h"
#include "backends/formats/coreml/mil_writer.h"
#include "backends/formats/coreml/package.h"
#include "backends/formats/coreml/spec_version.h"
#include "backends/formats/coreml/token_range.h"
#include "backends/formats/coreml/weight_blobs.h"
#include "ir/base/invariant.h"

namespace moec {

namespace {

// A package's model.mlmodel: the program's functions and the description of them that Core ML shows
// to an app.
namespace moec::mlmodel {
class Model;
}

using mlmodel::ArrayFeatureType;

ArrayFeatureType::ArrayDataType array_dtype(DType dtype) {
  if (dtype == DType::f16) return ArrayFeatureType::FLOAT16;
  return dtype == DType::f32 ? ArrayFeatureType::FLOAT32 : ArrayFeatureType::INT32;
}

void fill_array(const Type& type, ArrayFeatureType& array) {
  array.set_datatype(array_dtype(type.dtype));
  for (int64_t size : type.dims) array.add_shape(size);
}

void add_ranges(const Dims& least, const Dims& largest, ArrayFeatureType& array) {
  for (size_t i = 0; i < least.size(); ++i) {
    mlmodel::SizeRange& range = *array.mutable_shaperange()->add_sizeranges();
    range.set_lowerbound(static_cast<uint64_t>(least[i]));
    range.set_upperbound(largest[i]);
  }
}

const Type& widest_type(const MilFunction& function, ValueId value) {
  return (function.widest ? function.widest : function.shard)->type(value);
}

// Describes the ports of one function. `Description` is ModelDescription, which has the ports of a
// model with a single function, or FunctionDescription.
template <class Description>
void describe_ports(const MilFunction& function, Description& description) {
  const Shard& shard = *function.shard;
  for (ValueId input : shard.inputs) {
    mlmodel::FeatureDescription& port = *description.add_input();
    port.set_name(shard.values[input].name);
    ArrayFeatureType& array = *port.mutable_type()->mutable_multiarraytype();
    fill_array(shard.type(input), array);
    const Dims& largest = widest_type(function, input).dims;
    if (largest != shard.type(input).dims) add_ranges(shard.type(input).dims, largest, array);
  }
  for (const Output& output : shard.outputs) {
    mlmodel::FeatureDescription& port = *description.add_output();
    port.set_name(output.name);
    ArrayFeatureType& array = *port.mutable_type()->mutable_multiarraytype();
    fill_array(shard.type(output.value), array);
    // Only inputs have ranges of sizes. An output whose size depends on them is described without
    // a shape.
    if (widest_type(function, output.value).dims != shard.type(output.value).dims)
      array.clear_shape();
  }
  for (const State& state : shard.states) {
    mlmodel::FeatureDescription& port = *description.add_state();
    port.set_name(state.name);
    fill_array(state.type, *port.mutable_type()->mutable_statetype()->mutable_arraytype());
  }
}

// The description names each port and state with its element type and shape. As in files of
// coremltools, sizes of a range have bounds and the outputs of a range have no shape. A model of
// one function describes its ports at the top; one of several describes each function, and the
// first is the default. `family` is the model family for the summary; it may be empty.
void write_model(std::span<const MilFunction> functions, const DataLayout& layout, int spec_version,
                 const std::string& family, mlmodel::Model& model) {
  const bool several = functions.size() > 1;
  model.set_specificationversion(spec_version);
  model.mutable_mlprogram()->set_version(1);
  mlmodel::ModelDescription& description = *model.mutable_description();
  mlmodel::Metadata& metadata = *description.mutable_metadata();
  metadata.set_shortdescription(describe_file(*functions.front().shard, family));
  metadata.set_versionstring(MOEC_VERSION);
  metadata.set_author("moec");
  if (several) description.set_defaultfunctionname(functions.front().name);
  for (const MilFunction& function : functions) {
    std::map<std::string, std::string> entries;
    write_function(function, layout, spec_version,
                   (*model.mutable_mlprogram()->mutable_functions())[function.name], entries);
    for (const auto& [name, lines] : entries)
      (*metadata.mutable_userdefined())[metadata_key(name, several ? function.name : "")] = lines;
    if (!several) {
      describe_ports(function, description);
      continue;
    }
    mlmodel::FunctionDescription& ports = *description.add_functions();
    ports.set_name(function.name);
    describe_ports(function, ports);
  }
}

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
