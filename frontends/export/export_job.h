// What all parts of one target's export share while they are written. A part is a table or a shard:
// either an earlier run completed it, as the journal says, or it is made and entered there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backends/output/journal.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// Reports that `bytes` more of the payload are written, those of `part`. Called by several threads.
using PayloadCallback = std::function<void(uint64_t bytes, const std::string& part)>;

// May be used by several threads at once.
struct ExportJob {
  const ExportOptions& options;
  const Plan& plan;
  const OutNames& names;
  const WeightReader& reader;
  const CalibrationStats* calibration;  // may be null
  const EncoderLimit& encoder;          // of weights that it is used for
  Journal& journal;
  const PayloadCallback& advance;
  int workers = 1;  // shards of all targets at the same time

  // Polled between tiles: fails when the user wants the export to stop, or the output folder is
  // gone. Errors: export.interrupted, emit.folder_gone.
  Status check_not_stopped() const;

  // Enters a part whose files are in place into the journal, unless the checkpoint has changed
  // since it was opened: then the part may be made of bytes of two versions. Errors:
  // weights.file_changed, those of Journal::add().
  Status complete_part(const JournalPart& part) const;
};

}  // namespace moec
