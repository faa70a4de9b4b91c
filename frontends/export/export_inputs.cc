#include "frontends/export/export_inputs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "backends/files/digest.h"
#include "backends/runtime/text/tagger_biases.h"
#include "backends/weights/calibration/sensitivity.h"
#include "frontends/export/options/option_row.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/hf/index.h"
#include "frontends/sources/open_source.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// Upper bound for the header of a weight file.
constexpr uint64_t kMaxHeader = uint64_t{128} << 20;

void add_options(const ExportOptions& options, const Plan& plan, ExportInputs& inputs) {
  for (const OptionRow* row : option_rows()) {
    // Rows without `recorded` do not affect the bytes, or another entry records their effect.
    const std::string value = row->recorded ? row->recorded({options, plan.build}) : "";
    if (!value.empty()) inputs[fmt::format("option {}", row->long_name())] = value;
  }
}

Result<std::string> digest_or_none(const std::string& path) {
  return path.empty() ? Result<std::string>("none") : digest_file(path);
}

// Adds the digests of the files that options name.
Status add_option_files(const ExportOptions& options, ExportInputs& inputs) {
  for (const OptionRow* row : option_rows())
    if (row->file) {
      MOEC_ASSIGN(inputs[fmt::format("file of {}", row->long_name())],
                  digest_or_none(row->file(options)));
    }
  // No option names kSensitivityFile. It lies in the folder of --calibration and is read only for
  // auto:BITS.
  const bool chooses_bits = options.compile.build.weights.chooses_bits();
  MOEC_ASSIGN(
      inputs["file of sensitivities"],
      digest_or_none(chooses_bits ? options.compile.calibration + "/" + kSensitivityFile : ""));
  return {};
}

// Offset of the first tensor of the plan in a weight file. The header of the file lies before it.
uint64_t payload_of(const WeightTable& weights, size_t file) {
  // A file without tensors of the plan is described by at most its first kMaxHeader bytes.
  uint64_t begin = weights.files[file].bytes;
  for (const auto& [name, range] : weights.tensors)
    if (range.file == file) begin = std::min(begin, range.offset);
  return begin;
}

// Digest of the bytes before the payload.
Result<std::string> header_digest(const std::string& path, uint64_t payload) {
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  MOEC_ASSIGN(const std::string header, file.read(0, std::min(payload, kMaxHeader)));
  return digest_text(header);
}

// Does not read the payload, which would take as long as the export itself. Includes ctime because
// programs can set mtime, but not ctime.
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
  // The manifest of a token classifier contains the biases in kCalibrationFile.
  if (model.head.task == Task::token_classification) {
    const std::string calibration = calibration_path(source_folder(source.path));
    MOEC_ASSIGN(inputs[fmt::format("file {}", kCalibrationFile)],
                digest_or_none(file_exists(calibration) ? calibration : ""));
  }
  // Seeded weights depend on the seed, names and shapes, so weight files may change or be absent.
  if (source.weight_seed) return {};
  // A checkpoint with a single weight file has no index.
  const std::string index = source.path + "/" + kIndexFile;
  if (file_exists(index)) {
    MOEC_ASSIGN(inputs[fmt::format("file {}", kIndexFile)], digest_file(index));
  }
  // The key has no folder, because the inode and the times in the value identify the file.
  for (size_t i = 0; i < weights.files.size(); ++i) {
    const std::string& path = weights.files[i].path;
    const std::string name = std::filesystem::path(path).filename().string();
    MOEC_ASSIGN(inputs["file " + name], describe_weights(path, payload_of(weights, i)));
  }
  return {};
}

Result<ExportInputs> export_inputs(const ExportOptions& options, const Plan& plan) {
  ExportInputs inputs = {{"moec", MOEC_VERSION}};
  add_options(options, plan, inputs);
  MOEC_TRY(add_option_files(options, inputs));
  MOEC_TRY(add_source_files(options.source, plan.model, plan.weights, inputs));
  return inputs;
}

}  // namespace moec
