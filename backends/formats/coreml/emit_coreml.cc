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

// Builds a package's model.mlmodel: the program's functions and their description, which Core ML
// exposes to apps.
namespace moec::mlmodel {
class Model;
}

using mlmodel::ArrayFeatureType;

// check_mil() accepts only ports of f16, f32 and i32, so i32 is the remaining type.
ArrayFeatureType::ArrayDataType array_dtype(DType dtype) {
  if (dtype == DType::f16) return ArrayFeatureType::FLOAT16;
  return dtype == DType::f32 ? ArrayFeatureType::FLOAT32 : ArrayFeatureType::INT32;
}

void fill_array(const Type& type, ArrayFeatureType& array) {
  array.set_datatype(array_dtype(type.dtype));
  for (int64_t size : type.dims) array.add_shape(size);
}

// A shape has either a range for every axis or none. Axes of fixed size have equal bounds.
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

// Describes the ports of one function. `Description` is ModelDescription for a model with a single
// function, otherwise FunctionDescription.
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
    // Only inputs can have size ranges. An output whose size depends on a range is described
    // without a shape.
    if (widest_type(function, output.value).dims != shard.type(output.value).dims)
      array.clear_shape();
  }
  for (const State& state : shard.states) {
    mlmodel::FeatureDescription& port = *description.add_state();
    port.set_name(state.name);
    fill_array(state.type, *port.mutable_type()->mutable_statetype()->mutable_arraytype());
  }
}

// Describes each port and state with element type and shape. As in files of coremltools, range
// sizes have bounds, and outputs of a range have no shape. A model with one function has its ports
// at the top level. With several functions, each is described separately and the first is the
// default. `family` is part of the short description; it may be empty.
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

// A package without its payload. All packages are prepared before any payload is read, so that
// errors in the shard are reported before the payload is written, which can take minutes.
struct Prepared {
  std::string name;  // relative to the folder
  std::vector<MilFunction> functions;
  DataLayout layout{kBlobFormat};
  mlmodel::Model model;
};

// Compares only the number of tokens. Callers that must keep the order of top-k variants sort
// stably.
bool by_tokens(const ShardWidth& a, const ShardWidth& b) { return a.tokens < b.tokens; }

Status check_range_widths(std::span<const ShardWidth> widths) {
  const ShardWidth& least = *std::min_element(widths.begin(), widths.end(), by_tokens);
  if (widths.size() < 2)
    return fail("coreml.range",
                fmt::format("a range requires at least two token widths, found only width {}",
                            least.tokens),
                "pass the smallest and the largest width with --tokens",
                {.shard = least.shard->name});
  // Every width is compared with the smallest one, because the program is written from that shard.
  for (const ShardWidth& width : widths) MOEC_TRY(check_range(*least.shard, *width.shard));
  return {};
}

// "t16"; in a package of several shards "router_t16", or "router" for the shard's only graph.
std::string function_name(const ShardWidth& width, std::span<const ShardWidth> widths) {
  if (width.part.empty()) return to_string(width.key(), '_');
  const auto graphs = std::count_if(widths.begin(), widths.end(), [&](const ShardWidth& other) {
    return other.part == width.part;
  });
  return graphs == 1 ? width.part : width.part + "_" + to_string(width.key(), '_');
}

// iPhones reject a package with states, several functions and
// more than one token (rule W19 of target ane). Top-k variants share weights only as functions.
WidthPackaging choose_packaging(std::span<const ShardWidth> widths, const CoremlOptions& coreml) {
  const Shard& shard = *widths.front().shard;
  if (!widths.front().top_k.empty()) return WidthPackaging::functions;
  const int version = std::max(coreml.spec_version, least_spec_version(widths));
  const bool functions =
      widths.size() > 1 && shard.states.empty() && version >= kFunctionsSpecVersion;
  return functions ? WidthPackaging::functions : WidthPackaging::separate;
}

// Checks the graphs and resolves WidthPackaging::automatic.
Result<CoremlOptions> settle(std::span<const ShardWidth> widths, const CoremlOptions& coreml) {
  for (const ShardWidth& width : widths) MOEC_TRY(check_mil(*width.shard));
  if (coreml.packaging == WidthPackaging::range) MOEC_TRY(check_range_widths(widths));
  CoremlOptions settled = coreml;
  if (coreml.packaging == WidthPackaging::automatic)
    settled.packaging = choose_packaging(widths, coreml);
  return settled;
}

// Returns the paths of the packages of these graphs, relative to the folder.
std::vector<std::string> package_names(const std::string& stem, std::span<const GraphKey> keys,
                                       WidthPackaging packaging) {
  if (packaging != WidthPackaging::separate) return {stem + ".mlpackage"};
  std::vector<std::string> names;
  for (const GraphKey& key : keys)
    names.push_back(fmt::format("{}.{}.mlpackage", stem, to_string(key, '.')));
  return names;
}

// Assigns functions to packages, the narrowest width first.
std::vector<Prepared> arrange(std::span<const ShardWidth> widths,
                              std::span<const std::string> names, WidthPackaging packaging) {
  std::vector<Prepared> packages(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    packages[i].name = names[i];
    packages[i].functions = {{"main", widths[i].shard, nullptr}};
  }
  // With a single width, every packaging has one package, and "main" is its only function.
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
    functions.push_back({function_name(width, widths), width.shard, nullptr});
  return packages;
}

void lay_out(Prepared& package, const ExpertLayout& experts) {
  for (const MilFunction& function : package.functions)
    collect_blobs(*function.shard, experts, package.layout);
}

// Returns the keys of all entries, in order. Layouts with equal keys have identical weight files,
// because the keys and their order determine the offsets.
std::vector<std::string> content_of(const DataLayout& layout) {
  std::vector<std::string> keys;
  for (const DataLayout::Entry& entry : layout.entries()) keys.push_back(entry.key);
  return keys;
}

// Core ML rejects weight files of 2 GiB or more (kCoremlLimits). Checks the limit before any
// payload is read.
Status check_blobs(const Prepared& package, const WeightReader& weights,
                   const EmitOptions& options) {
  const uint64_t limit = options.limits.weight_file_bytes;
  MOEC_TRY(check_layout(package.layout, weights, options.tile_bytes));
  if (package.layout.file_bytes() < limit) return {};
  const bool of_layer =
      package.functions.front().shard->name != package.functions.back().shard->name;
  return fail("coreml.blob_too_large",
              fmt::format("the weight file would have {} bytes, expected fewer than {}",
                          package.layout.file_bytes(), limit),
              of_layer ? "pass --widths separate, so that each expert has a package"
                       : "split the shard with a smaller weight budget or fewer experts per shard",
              {.shard = package.functions.front().shard->name, .file = package.name});
}

Status check_size(const Prepared& package, uint64_t limit) {
  const uint64_t bytes = package.model.ByteSizeLong();
  if (bytes <= limit) return {};
  return fail("emit.graph_too_large",
              fmt::format("the model would have {} bytes, the limit is {}", bytes, limit),
              "split the shard", {.file = package.name});
}

// All packages of a shard get one specification version, which must suffice for all widths.
Result<std::vector<Prepared>> prepare(std::span<const ShardWidth> widths,
                                      const WeightReader& weights, const EmitOptions& options,
                                      const CoremlOptions& coreml,
                                      std::span<const std::string> names) {
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

// Writes a file of the package without a flush, because Package::publish() flushes the whole
// package.
Result<EmittedFile> write_text(const Package& package, const std::string& name, const char* path,
                               std::string_view bytes, bool sha256) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create(package / path, bytes.size(), sha256));
  MOEC_TRY(file.write(std::as_bytes(std::span(bytes))));
  MOEC_TRY(file.close());
  MOEC_TRY(file.publish());
  return EmittedFile{name + "/" + path, file.bytes(), file.digest(), file.sha256()};
}

// Writes the weight files of a shard's packages. If the file system supports hard links, identical
// files are linked, so that the payload is read and written only once.
class WeightFiles {
 public:
  WeightFiles(const WeightReader& weights, const EmitOptions& options, EmitReport& report)
      : weights_(weights), options_(options), report_(report) {}

  // Links the weight file of an earlier package with the same content, or writes a new file.
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

  // Ignores errors: the caller then writes a separate file, which reports any real failure.
  static bool has_link(const OutputPath& earlier, const OutputPath& path) {
    return link_files(earlier, path).value_or(false);
  }

  const WeightReader& weights_;
  const EmitOptions& options_;
  EmitReport& report_;
  std::vector<Written> written_;
};

// Returns the model file; adds all other files to the report.
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

std::vector<std::string> coreml_file_names(const std::string& stem, std::span<const GraphKey> keys,
                                           WidthPackaging packaging) {
  std::vector<std::string> packages = package_names(stem, keys, packaging);
  if (packaging == WidthPackaging::automatic)
    for (std::string& name : package_names(stem, keys, WidthPackaging::separate))
      packages.push_back(std::move(name));
  std::vector<std::string> files;
  for (const std::string& package : packages)
    for (const char* path : {kManifestPath, kModelPath, kWeightPath})
      files.push_back(fmt::format("{}/{}", package, path));
  return files;
}

Result<std::vector<WeightView>> coreml_weight_views(std::span<const ShardWidth> widths,
                                                    const CoremlOptions& coreml,
                                                    const ExpertLayout& experts) {
  MOEC_ASSIGN(const CoremlOptions settled, settle(widths, coreml));
  const auto names = package_names("", keys_of(widths), settled.packaging);
  std::vector<Prepared> packages = arrange(widths, names, settled.packaging);
  MOEC_TRY(choose_spec_version(widths, packages.front().functions.size() > 1, coreml.spec_version));
  std::set<std::vector<std::string>> written;
  std::vector<WeightView> views;
  for (Prepared& package : packages) {
    lay_out(package, experts);
    // emit_coreml() links files that it has already written and does not read their views again.
    if (!written.insert(content_of(package.layout)).second) continue;
    const std::vector<WeightView> more = package.layout.views();
    views.insert(views.end(), more.begin(), more.end());
  }
  return views;
}

Result<EmitReport> emit_coreml(std::span<const ShardWidth> widths, const WeightReader& weights,
                               const EmitOptions& options, const CoremlOptions& coreml) {
  MOEC_CHECK(!widths.empty(), "{} has no token width", options.stem);
  const std::vector<GraphKey> keys = keys_of(widths);
  MOEC_ASSIGN(const CoremlOptions settled, settle(widths, coreml));
  const auto names = package_names(options.stem, keys, settled.packaging);
  MOEC_ASSIGN(const std::vector<Prepared> prepared,
              prepare(widths, weights, options, settled, names));

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
  // No package gets its final name before all packages of the shard are complete.
  for (Package& package : packages) MOEC_TRY(package.publish());
  const bool several = prepared.front().functions.size() > 1;
  for (size_t i = 0; i < widths.size(); ++i)
    // One model per width, or one model for all widths.
    report.graphs.push_back({keys[i].tokens, models[models.size() > 1 ? i : 0],
                             several ? function_name(widths[i], widths) : "", keys[i].top_k});
  return report;
}

}  // namespace moec
