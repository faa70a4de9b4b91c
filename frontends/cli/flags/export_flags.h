// The flags of `moec export`, and the options that they stand for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/flags/device_flags.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/shard_flags.h"
#include "frontends/export/export_options.h"

namespace moec {

// Flags that only Core ML packages have a use for.
struct CoremlFlags {
  std::string widths = "separate", compat, name;
  bool multi_function = false;
  int spec_version = 0;  // 0: the lowest that suffices
};

// Flags that add digests to what is written.
struct DigestFlags {
  std::string digest;
  bool onnx_checksum = false;
};

// Flags that only GGUF files have a use for.
struct GgufFlags {
  std::string max_file_size;  // empty: one file
  std::string tokenizer;      // empty: the checkpoint's
};

// Flags for trying out a model.
struct TrialFlags {
  int64_t layers = 0;  // 0: all
  std::optional<uint64_t> seed;
};

// What the export may take of the machine.
struct ResourceFlags {
  std::optional<int> jobs;
  std::string memory = "256";
};

// How many experts tokens take.
struct TopKFlags {
  std::string forms, policy;
  double capacity = 0;
};

// What becomes of weights that do not fit the element type, or are not finite.
struct ValueFlags {
  std::string calibration, expert_mask;
  TopKFlags top_k;
  int64_t calibration_inputs = 0;
  int accuracy_level = 0;
  bool fold_overflow = false, allow_overflow = false, allow_nonfinite = false;
};

struct ExportFlags {
  std::string source, out, family_file;
  bool force = false, quiet = false, json = false;
  ValueFlags values;
  CoremlFlags coreml;
  GgufFlags gguf;
  DigestFlags digests;
  TrialFlags trial;
  ResourceFlags resources;
  DeviceFlags devices;
  ShardFlags shards;
  PassFlags passes;
};

// --widths and --compat, which `moec plan` has, too.
void add_compat_flags(CLI::App& command, CoremlFlags& flags);
void add_export_flags(CLI::App& command, ExportFlags& flags);

// The options for each target that --target names, in that order. Errors: export.flags, and those
// of the other readers of flags.
Result<std::vector<ExportOptions>> export_options(const ExportFlags& flags);

}  // namespace moec
