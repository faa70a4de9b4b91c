// The flags of `moec export`, and what they ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/flags/device_flags.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/shard_flags.h"
#include "frontends/export/export_model.h"

namespace moec {

struct ExportFlags {
  std::string source, out, family_file, compat, digest, widths = "separate";
  int64_t layers = 0;
  std::optional<int> jobs;
  int spec_version = 0;
  std::optional<uint64_t> seed;
  bool multi_function = false, onnx_checksum = false;
  bool force = false, quiet = false, json = false;
  std::string memory = "256";
  DeviceFlags devices;
  ShardFlags shards;
  PassFlags passes;
};

void add_export_flags(CLI::App& command, ExportFlags& flags);

// For each target that --target names. Errors: export.flags, those of all readers of flags.
Result<std::vector<ExportOptions>> export_options(const ExportFlags& flags);

}  // namespace moec
