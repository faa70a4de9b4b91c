// Shared state of one target's export while its parts are written. A part is a table or a shard. A
// part is reused if the journal of an earlier run lists it; otherwise, it is written and added to
// the journal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/output/journal.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/compile/shard_packages.h"
#include "frontends/export/decoder_export.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// Reports that `bytes` more bytes of the payload were written to `part`. Called by several threads.
using PayloadCallback = std::function<void(uint64_t bytes, const std::string& part)>;

// Safe to use from several threads.
struct ExportJob {
  const ExportOptions& options;
  const Plan& plan;
  const OutNames& names;
  const WeightReader& reader;
  const CalibrationStats* calibration;  // may be null
  const EncoderLimit& encoder;          // limits encoding with `calibration`
  Journal& journal;
  const PayloadCallback& advance;
  const std::vector<ShardPackage>& packages;  // to export
  int workers = 1;                            // threads that each export a unit (export_units.h)
  const DecoderExport* decoder = nullptr;     // null: the target has no decoder graph

  // Polled between tiles. Errors: export.interrupted if the user stopped the export,
  // emit.folder_gone if the output folder vanished.
  Status check_not_stopped() const;

  // Adds a part whose files are in place to the journal. Fails if the checkpoint changed since it
  // was opened, because the part may then mix bytes of two versions. Errors: weights.file_changed,
  // those of Journal::add().
  Status complete_part(const JournalPart& part) const;
};

}  // namespace moec
