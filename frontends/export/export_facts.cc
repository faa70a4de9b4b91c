#include "frontends/export/export_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "backends/files/digest.h"
#include "backends/runtime/calibration.h"
#include "frontends/hf/checkpoint.h"
#include "frontends/hf/index.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr size_t kLengthBytes = 8;  // before the header of a safetensors file

std::string_view kv_name(CacheForm cache) {
  if (cache == CacheForm::none) return "none";
  return cache == CacheForm::blend ? "state" : "io";
}

void add_build(const BuildOptions& build, ExportFacts& facts) {
  facts["option --dtype"] = dtype_name(build.dtype);
  facts["option --layout"] = layout_name(build.layout);
  facts["option --tokens"] = fmt::format("{}", fmt::join(build.tokens, ","));
  facts["option --context"] = std::to_string(build.context);
  facts["option --kv"] = kv_name(build.cache);
  facts["option --mla"] = enum_name(build.mla);
  facts["option --experts-per-shard"] = std::to_string(build.experts_per_shard);
  facts["option --head-slices"] = std::to_string(build.head_slices);
  facts["option --layers-per-shard"] = std::to_string(build.layers_per_shard);
}

void add_passes(const PassOptions& passes, const RunOptions& run, ExportFacts& facts) {
  facts["option --target"] = passes.target.name;
  facts["option --routing"] = enum_name(passes.routing);
  facts["option --experts"] = enum_name(passes.experts);
  facts["option --attention"] = enum_name(passes.attention);
  facts["option --form"] = enum_name(passes.target.projection);
  facts["option --sum"] = enum_name(passes.target.sum);
  facts["option --bank-channel-limit"] = std::to_string(passes.bank_channel_limit);
  facts["option --skip-pass"] = fmt::format("[{}]", fmt::join(run.skip, ","));
  facts["option --bisect"] = run.bisect ? std::to_string(*run.bisect) : "all";
}

Result<std::string> digest_or_none(const std::optional<std::string>& path) {
  return path ? digest_file(*path) : Result<std::string>("none");
}

Status add_outputs(const ExportOptions& options, ExportFacts& facts) {
  facts["option --chip"] = options.chip.empty() ? "all" : options.chip;
  facts["option --widths"] = enum_name(options.coreml.packaging);
  facts["option --spec-version"] = std::to_string(options.coreml.spec_version);
  facts["option --compat"] = options.ane_book ? "ane-book" : "none";
  facts["option --digest"] = options.sha256 ? "sha256" : "none";
  facts["option --onnx-checksum"] = options.onnx_checksum ? "sha1" : "none";
  facts["option --layers"] = options.layers > 0 ? std::to_string(options.layers) : "all";
  facts["option --seeded-weights"] =
      options.weight_seed ? std::to_string(*options.weight_seed) : "none";
  const DeviceOptions& devices = options.devices;
  std::string named;
  for (const Device& device : devices.devices)
    named += fmt::format("{}{}={}", named.empty() ? "" : " ", device.name, device.bytes);
  facts["option --device"] = named.empty() ? "none" : named;
  facts["option --trunk"] = enum_name(devices.trunk);
  facts["option --replicas"] = std::to_string(devices.replicas);
  const bool loaded = !devices.loads.empty();
  MOEC_ASSIGN(facts["file of --loads"],
              digest_or_none(loaded ? std::optional(devices.loads) : std::nullopt));
  MOEC_ASSIGN(facts["file of --family-file"], digest_or_none(options.family_file));
  MOEC_ASSIGN(facts["file of --target"], digest_or_none(options.target_file));
  return {};
}

Result<std::string> header_digest(const std::string& path) {
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  MOEC_ASSIGN(const std::string start, file.read(0, kLengthBytes));
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  MOEC_ASSIGN(const std::string header, file.read(kLengthBytes, length));
  Digest digest;
  digest.update(std::as_bytes(std::span(start)));
  digest.update(std::as_bytes(std::span(header)));
  return digest.hex();
}

// The payload is not read for this: who changes it and puts back the time of change is not caught.
Result<std::string> describe_safetensors(const std::string& path) {
  MOEC_ASSIGN(const std::string header, header_digest(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return fail("file.open", fmt::format("cannot examine the file: {}", std::strerror(errno)),
                "Check the path and its permissions.", {.file = path});
  return fmt::format("{} bytes changed at {}.{:09} with header {}", info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec, header);
}

Status add_files(const ExportOptions& options, const Plan& plan, ExportFacts& facts) {
  MOEC_ASSIGN(facts["file config.json"], digest_file(config_path(options.source)));
  if (plan.model.task == Task::token_classification) {
    const std::string calibration = calibration_path(source_folder(options.source));
    MOEC_ASSIGN(
        facts[fmt::format("file {}", kCalibrationFile)],
        digest_or_none(file_exists(calibration) ? std::optional(calibration) : std::nullopt));
  }
  if (options.weight_seed) return {};
  const std::string index = options.source + "/" + kIndexFile;
  if (file_exists(index)) {
    MOEC_ASSIGN(facts[fmt::format("file {}", kIndexFile)], digest_file(index));
  }
  for (const WeightFile& file : plan.weights.files) {
    const std::string name = std::filesystem::path(file.path).filename().string();
    MOEC_ASSIGN(facts["file " + name], describe_safetensors(file.path));
  }
  return {};
}

}  // namespace

Result<ExportFacts> export_facts(const ExportOptions& options, const Plan& plan) {
  ExportFacts facts = {{"moec", MOEC_VERSION}};
  add_build(plan.build, facts);
  add_passes(options.passes, options.run, facts);
  MOEC_TRY(add_outputs(options, facts));
  MOEC_TRY(add_files(options, plan, facts));
  return facts;
}

}  // namespace moec
