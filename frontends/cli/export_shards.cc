#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "frontends/cli/compile_shard.h"
#include "frontends/cli/describe_export.h"
#include "frontends/cli/emit_shard.h"
#include "frontends/cli/export_job.h"
#include "frontends/cli/weight_recorder.h"

namespace moec {
namespace {

void note_overflows(const ShardDecl& decl, const EmitReport& emitted, Diagnostics& notes) {
  for (const EmittedTensor& tensor : emitted.tensors) {
    if (tensor.overflows > 0)
      notes.push_back({Severity::warning,
                       "export.cast_overflow",
                       fmt::format("{} values became infinite in f16", tensor.overflows),
                       "export with --dtype f32 to keep them",
                       {.shard = decl.name, .tensor = tensor.name}});
    if (tensor.nans > 0)
      notes.push_back({Severity::warning,
                       "export.nan_weight",
                       fmt::format("{} values are NaN", tensor.nans),
                       "fetch the checkpoint again, if it should have none",
                       {.shard = decl.name, .tensor = tensor.name}});
  }
}

// The journal was made for the same options, so only one made by hand can differ here.
bool has_widths(const EmitReport& emitted, const std::vector<int64_t>& tokens) {
  return std::equal(emitted.graphs.begin(), emitted.graphs.end(), tokens.begin(), tokens.end(),
                    [](const EmittedGraph& graph, int64_t width) { return graph.tokens == width; });
}

Result<EmitReport> emit_new(const ExportJob& job, const ShardDecl& decl,
                            const CompiledShard& compiled) {
  std::vector<ShardWidth> widths;
  for (size_t i = 0; i < compiled.widths.size(); ++i)
    widths.push_back({job.plan.build.tokens[i], &compiled.widths[i]});
  EmitOptions emit;
  emit.folder = job.options.out;
  emit.stem = job.names.stem_prefix + decl.stem;
  emit.family = job.plan.model.family;
  emit.sha256 = job.options.sha256;
  emit.onnx_checksum = job.options.onnx_checksum;
  const ModelConfig& model = job.plan.model;
  WeightRecorder recorder(compiled.widths, model.moe.experts, moe_layers_of(model, decl).size());
  emit.on_weight = [&](const std::string& view, uint64_t offset, std::span<const std::byte> bytes) {
    recorder.take(view, offset, bytes);
  };
  emit.on_progress = [&](uint64_t bytes) {
    job.progress.advance(bytes, decl.name);
    return job.check_going_on();
  };
  MOEC_ASSIGN(EmitReport emitted, emit_shard(job.options.passes.target.format, widths, job.reader,
                                             emit, job.options.coreml));
  emitted.weights = recorder.records();
  MOEC_TRY(job.finish_part({decl.name, emitted}));
  return emitted;
}

Result<EmitReport> emit_or_keep(const ExportJob& job, const ShardDecl& decl,
                                const CompiledShard& compiled) {
  const EmitReport* kept = job.journal.find_whole(decl.name);
  if (!kept || !has_widths(*kept, job.plan.build.tokens)) return emit_new(job, decl, compiled);
  job.progress.advance(kept->weight_bytes, decl.name);
  return *kept;
}

Result<ExportedShard> export_shard(const ExportJob& job, size_t index) {
  MOEC_TRY(job.check_going_on());
  const ShardDecl& decl = job.plan.shards[index];
  const bool range = job.options.coreml.packaging == WidthPackaging::range;
  MOEC_ASSIGN(CompiledShard compiled, (range ? compile_for_range : compile_shard)(
                                          job.plan, index, job.options.passes, job.options.run));
  MOEC_ASSIGN(const EmitReport emitted, emit_or_keep(job, decl, compiled));
  ExportedShard done;
  done.shard = describe_shard(job.plan, index, compiled, emitted, job.options.passes.target);
  done.passes = std::move(compiled.passes);
  done.notes = std::move(compiled.notes);
  done.bytes_read = emitted.bytes_read;
  note_overflows(decl, emitted, done.notes);
  return done;
}

}  // namespace

Status ExportJob::check_going_on() const {
  if (options.stop && options.stop())
    return fail(kExportInterrupted, "the export was told to stop", {}, {.file = options.out});
  return journal.check_present();
}

Status ExportJob::finish_part(const JournalPart& part) const {
  MOEC_TRY(reader.check_unchanged());
  return journal.add(part);
}

// Workers take the next shard until there is none left or one has failed. Shards before a failing
// one are finished, so the error that is reported is the first in plan order for any number of
// workers.
Result<std::vector<ExportedShard>> export_shards(const ExportJob& job) {
  const size_t count = job.plan.shards.size();
  std::vector<std::optional<Result<ExportedShard>>> results(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    while (!failed) {
      const size_t i = next++;
      if (i >= count) return;
      results[i] = export_shard(job, i);
      if (!*results[i]) failed = true;
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < job.options.jobs; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  std::vector<ExportedShard> done;
  for (auto& result : results) {
    if (!result) continue;  // not started: a later result holds the error
    if (!*result) return fail(std::move(result->error()));
    done.push_back(std::move(**result));
  }
  return done;
}

}  // namespace moec
