#include "frontends/export/export_inputs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "backends/files/digest.h"
#include "backends/runtime/text/tagger_biases.h"
#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/calibration/sensitivity.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/hf/index.h"
#include "frontends/sources/open_source.h"
#include "ir/base/regular_file.h"
#include "ir/experts/expert_groups.h"

namespace moec {
namespace {

// Headers of files of weights are shorter.
constexpr uint64_t kMaxHeader = uint64_t{128} << 20;

std::string_view kv_name(CacheForm cache) {
  if (!has_cache(cache)) return "none";
  return updates_cache(cache) ? "state" : "io";
}

void add_build(const BuildOptions& build, ExportInputs& inputs) {
  inputs["option --dtype"] = dtype_name(build.dtype);
  inputs["option --layout"] = layout_name(build.layout);
  inputs["option --tokens"] = fmt::format("{}", fmt::join(build.tokens, ","));
  inputs["option --context"] = std::to_string(build.context);
  inputs["option --kv"] = kv_name(build.cache);
  inputs["option --mla"] = enum_name(build.mla);
  inputs["option --experts-per-shard"] = std::to_string(build.experts_per_shard);
  inputs["option --head-slices"] = std::to_string(build.head_slices);
  inputs["option --layers-per-shard"] = std::to_string(build.layers_per_shard);
  inputs["option --weights"] = to_string(build.weights);
  inputs["option --expert-mask"] =
      build.experts.mask.layers.empty() ? "none" : to_string(build.experts.mask);
  std::vector<std::string> forms;
  for (const TopKForm& form : build.experts.top_k) forms.push_back(form.name);
  inputs["option --top-k"] = forms.empty() ? "own" : fmt::format("{}", fmt::join(forms, ","));
  inputs["option --expert-groups"] =
      build.experts.parts.empty() ? "none" : digest_text(to_string(build.experts.parts));
}

// The manifest names the budgets, also those that cut nothing.
void add_budgets(const Budgets& budgets, ExportInputs& inputs) {
  std::string text;
  for (size_t kind = 0; kind < budgets.size(); ++kind)
    if (const int64_t bytes = budgets[kind].bytes; bytes > 0)
      text += fmt::format("{}{}={}", text.empty() ? "" : " ",
                          enum_name(static_cast<ShardKind>(kind)), bytes);
  inputs["option --max-shard-mb"] = text.empty() ? "none" : text;
}

void add_passes(const PassOptions& passes, const RunOptions& run, ExportInputs& inputs) {
  inputs["option --target"] = passes.target.name;
  inputs["option --routing"] = enum_name(passes.routing);
  inputs["option --experts"] = enum_name(passes.experts);
  inputs["option --capacity"] =
      passes.capacity > 0 ? fmt::format("{}", passes.capacity) : std::string("none");
  inputs["option --attention"] = enum_name(passes.attention);
  inputs["option --form"] = enum_name(passes.target.projection);
  inputs["option --sum"] = enum_name(passes.target.sum);
  inputs["option --bank-channel-limit"] = std::to_string(passes.bank_channel_limit);
  inputs["option --skip-pass"] = fmt::format("[{}]", fmt::join(run.skip, ","));
  inputs["option --bisect"] = run.bisect ? std::to_string(*run.bisect) : "all";
}

Result<std::string> digest_or_none(const std::optional<std::string>& path) {
  return path ? digest_file(*path) : Result<std::string>("none");
}

void add_outputs(const ExportOptions& options, ExportInputs& inputs) {
  const CompileOptions& compile = options.compile;
  const OutputOptions& output = options.output;
  const SourceOptions& source = options.source;
  inputs["option --fold-overflow"] = compile.fold_overflow ? "yes" : "no";
  inputs["option --chip"] = compile.chip.empty() ? "all" : compile.chip;
  inputs["option --widths"] = enum_name(compile.coreml.packaging);
  inputs["option --spec-version"] = std::to_string(compile.coreml.spec_version);
  inputs["option --compat"] = output.ane_book ? "ane-book" : "none";
  if (!output.book_model.empty()) inputs["option --name"] = output.book_model;
  inputs["option --expert-align"] = std::to_string(output.expert_alignment);
  inputs["option --digest"] = output.sha256 ? "sha256" : "none";
  inputs["option --onnx-checksum"] = output.onnx.checksum ? "sha1" : "none";
  inputs["option --accuracy-level"] = std::to_string(output.onnx.accuracy_level);
  inputs["option --layers"] = source.layers > 0 ? std::to_string(source.layers) : "all";
  inputs["option --seeded-weights"] =
      source.weight_seed ? std::to_string(*source.weight_seed) : "none";
}

void add_devices(const DeviceOptions& devices, ExportInputs& inputs) {
  std::string named;
  for (const Device& device : devices.devices)
    named += fmt::format("{}{}={}", named.empty() ? "" : " ", device.name, device.bytes);
  inputs["option --device"] = named.empty() ? "none" : named;
  inputs["option --trunk"] = enum_name(devices.trunk);
  inputs["option --replicas"] = std::to_string(devices.replicas);
}

// The files that options name.
Status add_option_files(const ExportOptions& options, ExportInputs& inputs) {
  const std::string& loads = options.compile.devices.loads;
  MOEC_ASSIGN(inputs["file of --loads"],
              digest_or_none(loads.empty() ? std::nullopt : std::optional(loads)));
  const std::string& policy = options.compile.choice.policy;
  MOEC_ASSIGN(inputs["file of --top-k-policy"],
              digest_or_none(policy.empty() ? std::nullopt : std::optional(policy)));
  const std::string& calibration = options.compile.calibration;
  MOEC_ASSIGN(
      inputs["file of --calibration"],
      digest_or_none(calibration.empty() ? std::nullopt
                                         : std::optional(calibration + "/" + kCalibrationIndex)));
  MOEC_ASSIGN(inputs["file of sensitivities"],
              digest_or_none(options.compile.build.weights.chooses_bits()
                                 ? std::optional(calibration + "/" + kSensitivityFile)
                                 : std::nullopt));
  MOEC_ASSIGN(inputs["file of --family-file"], digest_or_none(options.source.family_file));
  MOEC_ASSIGN(inputs["file of --target"], digest_or_none(options.compile.target_file));
  return {};
}

// Where the payload of a file of weights begins, as far as the plan has its tensors.
uint64_t payload_of(const WeightTable& weights, size_t file) {
  uint64_t begin = weights.files[file].bytes;
  for (const auto& [name, range] : weights.tensors)
    if (range.file == file) begin = std::min(begin, range.offset);
  return begin;
}

// The digest of what lies before the payload.
Result<std::string> header_digest(const std::string& path, uint64_t payload) {
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  MOEC_ASSIGN(const std::string header, file.read(0, std::min(payload, kMaxHeader)));
  return digest_text(header);
}

// Does not read the payload, which would take as long as the export itself. Programs can set the
// time of the last write (mtime), but not that of the last change (ctime).
Result<std::string> describe_weights(const std::string& path, uint64_t payload) {
  MOEC_ASSIGN(const std::string header, header_digest(path, payload));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return fail("file.open", fmt::format("cannot examine the file: {}", std::strerror(errno)),
                "check the path and its permissions", {.file = path});
  return fmt::format("{} bytes written at {}.{:09}, changed at {}.{:09}, inode {}, header {}",
                     info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                     info.st_ctim.tv_nsec, info.st_ino, header);
}

}  // namespace

Status add_source_files(const SourceOptions& source, const ModelConfig& model,
                        const WeightTable& weights, ExportInputs& inputs) {
  MOEC_ASSIGN(const std::string config, source_config_text(source.path));
  inputs["file config.json"] = digest_text(config);
  if (model.head.task == Task::token_classification) {
    const std::string calibration = calibration_path(source_folder(source.path));
    MOEC_ASSIGN(
        inputs[fmt::format("file {}", kCalibrationFile)],
        digest_or_none(file_exists(calibration) ? std::optional(calibration) : std::nullopt));
  }
  if (source.weight_seed) return {};
  const std::string index = source.path + "/" + kIndexFile;
  if (file_exists(index)) {
    MOEC_ASSIGN(inputs[fmt::format("file {}", kIndexFile)], digest_file(index));
  }
  for (size_t i = 0; i < weights.files.size(); ++i) {
    const std::string& path = weights.files[i].path;
    const std::string name = std::filesystem::path(path).filename().string();
    MOEC_ASSIGN(inputs["file " + name], describe_weights(path, payload_of(weights, i)));
  }
  return {};
}

Result<ExportInputs> export_inputs(const ExportOptions& options, const Plan& plan) {
  ExportInputs inputs = {{"moec", MOEC_VERSION}};
  add_build(plan.build, inputs);
  add_budgets(options.compile.cuts.budgets, inputs);
  add_passes(options.compile.passes, options.compile.run, inputs);
  add_outputs(options, inputs);
  add_devices(options.compile.devices, inputs);
  MOEC_TRY(add_option_files(options, inputs));
  MOEC_TRY(add_source_files(options.source, plan.model, plan.weights, inputs));
  return inputs;
}

}  // namespace moec
