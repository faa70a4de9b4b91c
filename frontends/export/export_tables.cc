#include "frontends/export/export_tables.h"

#include <cstring>
#include <functional>

#include "backends/files/output_file.h"
#include "frontends/compile/weight_values.h"
#include "frontends/export/parallel_targets.h"
#include "ir/base/at.h"
#include "ir/base/refusals.h"
#include "ir/graph/scalar.h"
#include "models/tensors/rope.h"
#include "models/tensors/seeded_weights.h"

namespace moec {

namespace {

// Writes a table to `file` and adds its source tensors to `emitted`.
using TableWriter = std::function<Status(OutputFile& file, EmitReport& emitted)>;

// Reuses a table that an earlier run completed, or writes it with `write`. A table is a part with
// a single file.
Result<manifest::FileRef> export_table(const ExportJob& job, const std::string& name,
                                       uint64_t expected_bytes, const TableWriter& write,
                                       Diagnostics& notes) {
  MOEC_TRY(job.check_not_stopped());
  const ValueOptions& allowed = job.options.values;
  const EmitReport* kept = job.journal.find_complete(name);
  // The earlier run may have allowed values that this one refuses.
  if (kept && holds_refused_values(*kept, allowed)) kept = nullptr;
  EmitReport emitted = kept ? *kept : EmitReport();
  // A default-constructed report has no file. A table has exactly one.
  if (emitted.data.size() != 1) {
    const OutputOptions& output = job.options.output;
    MOEC_ASSIGN(OutputFile file,
                OutputFile::create({output.folder, name}, expected_bytes, output.sha256));
    MOEC_TRY(write(file, emitted));
    // Synced before publish() gives the file its final name, so a crash cannot leave an incomplete
    // file under that name.
    MOEC_TRY(file.sync());
    MOEC_TRY(file.publish());
    emitted.data = {{name, file.bytes(), file.digest(), file.sha256()}};
    MOEC_TRY(job.complete_part({name, emitted}));
  }
  for (const EmittedTensor& tensor : emitted.tensors)
    for (Diagnostic& finding :
         judge_values(tensor, job.plan.build.dtype, allowed, {.tensor = tensor.name}))
      notes.push_back(std::move(finding));
  const EmittedFile& file = emitted.data.front();
  return manifest::FileRef{name, static_cast<int64_t>(file.bytes), file.digest, file.sha256};
}

void append(std::vector<std::byte>& bytes, float value, DType dtype) {
  auto put = [&](auto bits) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof bits);
    std::memcpy(bytes.data() + at, &bits, sizeof bits);
  };
  // Graphs are in f16 or f32; the row of --dtype refuses bf16 for them.
  if (dtype == DType::f16)
    put(f16_from_f32(value));
  else
    put(value);
}

WeightView embedding_view(const Plan& plan) {
  return plan.weight_seed ? seeded_weights(plan.embedding, *plan.weight_seed) : plan.embedding;
}

Result<manifest::TableFile> export_embedding(const ExportJob& job, ExportedTables& tables) {
  const Plan& plan = job.plan;
  MOEC_ASSIGN(const Type type, view_type(plan.embedding));
  // The table belongs to no shard, so findings name only the tensor.
  WrittenValues values(job.options.values, "");
  // Not called if the table is kept, so bytes_read counts only bytes of this run.
  auto write = [&](OutputFile& file, EmitReport& emitted) -> Status {
    StreamReport report;
    MOEC_TRY(job.reader.stream(
        embedding_view(plan), kDefaultTileBytes,
        [&](std::span<const std::byte> tile) -> Status {
          MOEC_TRY(file.write(tile));
          return job.check_not_stopped();
        },
        report));
    tables.bytes_read += report.bytes_read;
    const WeightView view = embedding_view(plan);
    emitted.tensors = {
        {first_tensor(view), to_string(view), 0, file.bytes(), report.overflows, report.nonfinite}};
    return values.take(view, emitted.tensors.front());
  };
  MOEC_ASSIGN(manifest::FileRef ref,
              export_table(job, job.names.embedding, static_cast<uint64_t>(type.bytes()), write,
                           tables.notes));
  return manifest::TableFile{std::move(ref), type.dtype, type.dims[0], type.dims[1]};
}

// Streams the embeddings of all targets, one thread per target; the threads share what they read.
Status export_embeddings(std::span<const ExportJob> jobs, std::vector<ExportedTables>& tables) {
  std::vector<std::vector<WeightView>> views;
  for (const ExportJob& job : jobs) views.push_back({embedding_view(job.plan)});
  std::vector<Status> written(jobs.size());
  run_targets_in_parallel(jobs, std::move(views), [&](size_t target, const ExportJob& job) {
    auto table = catch_refusals([&] { return export_embedding(job, tables[target]); });
    if (table)
      tables[target].embedding = std::move(*table);
    else
      written[target] = fail(std::move(table.error()));
  });
  // In target order, so that the reported error does not depend on the threads.
  for (Status& status : written) MOEC_TRY(std::move(status));
  return {};
}

// Writes one row per position 0 … context-1: for each rotation of width r, r/2 cosines and r/2
// sines; with a query temperature, also the factor of the queries at that position.
Result<manifest::RopeTable> export_rope(const ExportJob& job, Diagnostics& notes) {
  const std::optional<QueryTemperature>& temperature = job.plan.model.attention.temperature;
  const DType dtype = job.plan.build.dtype;
  const int64_t context = job.plan.build.context;
  const std::vector<RopeTable> tables = rope_tables(job.plan.model, context);
  auto write = [&](OutputFile& file, EmitReport&) -> Status {
    for (int64_t position = 0; position < context; ++position) {
      // Written row by row: the bytes of one position are contiguous, as runtimes read them.
      std::vector<std::byte> row;
      for (const RopeTable& table : tables)
        for (const std::vector<float>* half : {&table.cos, &table.sin})
          for (int64_t i = 0; i < table.width; ++i)
            append(row, at((*half), position * table.width + i), dtype);
      if (temperature) append(row, static_cast<float>(query_scale(*temperature, position)), dtype);
      MOEC_TRY(file.write(row));
    }
    return {};
  };
  MOEC_ASSIGN(manifest::FileRef ref, export_table(job, job.names.rope, 0, write, notes));
  int64_t columns = temperature ? 1 : 0;
  std::vector<int64_t> widths;
  for (const RopeTable& table : tables) {
    columns += 2 * table.width;
    widths.push_back(table.width);
  }
  return manifest::RopeTable{{std::move(ref), dtype, context, columns},
                             job.plan.model.attention.rope.style,
                             temperature.has_value(),
                             std::move(widths)};
}

}  // namespace

Result<std::vector<ExportedTables>> export_tables(std::span<const ExportJob> jobs) {
  std::vector<ExportedTables> tables(jobs.size());
  // Rotary tables are computed, not read, so only the embeddings run in parallel.
  MOEC_TRY(export_embeddings(jobs, tables));
  for (size_t target = 0; target < jobs.size(); ++target)
    if (jobs[target].plan.model.attention.rope.style != RopeStyle::none) {
      MOEC_ASSIGN(tables[target].rope, export_rope(jobs[target], tables[target].notes));
    }
  return tables;
}

Result<std::vector<ExportedParts>> export_parts(std::span<const ExportJob> jobs) {
  std::vector<ExportedTables> tables(jobs.size());
  if (jobs.front().options.output.has_tables()) {
    MOEC_ASSIGN(tables, export_tables(jobs));
  }
  MOEC_ASSIGN(std::vector<std::vector<ExportedShard>> shards, export_shards(jobs));
  std::vector<ExportedParts> parts;
  for (size_t target = 0; target < jobs.size(); ++target)
    parts.push_back({std::move(tables[target]), std::move(shards[target])});
  return parts;
}

}  // namespace moec
