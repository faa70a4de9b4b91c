#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "backends/coverage/weight_recorder.h"
#include "frontends/export/describe_export.h"
#include "frontends/export/export_compile.h"
#include "frontends/export/export_job.h"
#include "frontends/export/export_units.h"
#include "frontends/export/side_by_side.h"
#include "frontends/formats/emit_shard.h"

namespace moec {
namespace {

void note_odd_values(const ShardDecl& decl, const EmitReport& emitted, Diagnostics& notes) {
  for (const EmittedTensor& tensor : emitted.tensors) {
    const auto warn = [&](uint64_t values, const char* code, const char* what, const char* next) {
      if (values > 0)
        notes.push_back({Severity::warning,
                         code,
                         fmt::format("{} values {}", values, what),
                         next,
                         {.shard = decl.name, .tensor = tensor.name}});
    };
    warn(tensor.overflows, "export.cast_overflow", "became infinite in f16",
         "export with --dtype f32 to keep them");
    warn(tensor.nans, "export.nan_weight", "are NaN",
         "fetch the checkpoint again, if it should have none");
  }
}

// The journal was made for the same options, so only one made by hand can differ here.
bool has_widths(const EmitReport& emitted, const std::vector<int64_t>& tokens) {
  return std::equal(emitted.graphs.begin(), emitted.graphs.end(), tokens.begin(), tokens.end(),
                    [](const EmittedGraph& graph, int64_t width) { return graph.tokens == width; });
}

Result<EmitReport> emit_new(const ExportJob& job, const ShardDecl& decl,
                            const CompiledShard& compiled) {
  EmitOptions emit;
  emit.folder = job.options.out;
  emit.stem = job.names.stem_prefix + decl.stem;
  emit.family = job.plan.model.family;
  emit.sha256 = job.options.sha256;
  const ModelConfig& model = job.plan.model;
  emit.moe_layers = {model.moe.experts, moe_layers_of(model, decl)};
  WeightRecorder recorder(compiled.widths, model.moe.experts, emit.moe_layers->layers.size());
  emit.on_weight = [&](const std::string& view, uint64_t offset, std::span<const std::byte> bytes) {
    recorder.take(view, offset, bytes);
  };
  emit.on_progress = [&](uint64_t bytes) {
    job.advance(bytes, decl.name);
    return job.check_going_on();
  };
  MOEC_ASSIGN(EmitReport emitted,
              emit_shard(job.options.passes.target.format, widths_of(job.plan, compiled),
                         job.reader, emit, {{job.options.onnx_checksum}, job.options.coreml}));
  emitted.weights = recorder.records();
  MOEC_TRY(job.finish_part({decl.name, emitted}));
  return emitted;
}

// A shard before its first byte is written.
struct PreparedShard {
  size_t index = 0;  // in the plan
  CompiledShard compiled;
  const EmitReport* kept = nullptr;  // as an earlier run finished it
  std::vector<WeightView> views;     // that are to be read
};

Result<PreparedShard> prepare_shard(const ExportJob& job, size_t index) {
  MOEC_TRY(job.check_going_on());
  const ExportOptions& options = job.options;
  PreparedShard shard;
  shard.index = index;
  MOEC_ASSIGN(shard.compiled, compile_for_export(job.plan, index, options));
  const EmitReport* kept = job.journal.find_whole(job.plan.shards[index].name);
  if (kept && has_widths(*kept, job.plan.build.tokens)) shard.kept = kept;
  if (shard.kept) return shard;
  MOEC_ASSIGN(shard.views, weight_views(options.passes.target.format,
                                        widths_of(job.plan, shard.compiled), {{}, options.coreml}));
  return shard;
}

Result<EmitReport> emit_or_keep(const ExportJob& job, const PreparedShard& shard) {
  const ShardDecl& decl = job.plan.shards[shard.index];
  if (!shard.kept) return emit_new(job, decl, shard.compiled);
  job.advance(shard.kept->weight_bytes, decl.name);
  return *shard.kept;
}

Result<ExportedShard> export_shard(const ExportJob& job, PreparedShard& shard) {
  MOEC_ASSIGN(const EmitReport emitted, emit_or_keep(job, shard));
  ExportedShard done;
  done.shard =
      describe_shard(job.plan, shard.index, shard.compiled, emitted, job.options.passes.target);
  done.passes = std::move(shard.compiled.passes);
  done.notes = std::move(shard.compiled.notes);
  done.bytes_read = emitted.bytes_read;
  note_odd_values(job.plan.shards[shard.index], emitted, done.notes);
  return done;
}

// By target and by index in its plan; none: not started.
using ShardResults = std::vector<std::vector<std::optional<Result<ExportedShard>>>>;

// Units are worked at by several threads, each result by one.
class UnitExport {
 public:
  UnitExport(std::span<const ExportJob> jobs, const ExportUnit& unit, ShardResults& results)
      : jobs_(jobs), unit_(unit), results_(results), prepared_(jobs.size()) {}

  // Ends with the first failure of each target, which is among the results. False: there is one.
  bool run() {
    for (size_t target = 0; target < jobs_.size(); ++target)
      if (!prepare(target)) return false;
    std::vector<std::vector<WeightView>> views(jobs_.size());
    for (size_t target = 0; target < jobs_.size(); ++target)
      for (PreparedShard& shard : prepared_[target])
        std::move(shard.views.begin(), shard.views.end(), std::back_inserter(views[target]));
    work_side_by_side(jobs_, std::move(views), [&](size_t target, const ExportJob& job) {
      for (PreparedShard& shard : prepared_[target])
        if (!(results_[target][shard.index] = export_shard(job, shard))->has_value()) return;
    });
    return all_done();
  }

 private:
  bool prepare(size_t target) {
    for (const size_t index : unit_.shards[target]) {
      auto shard = prepare_shard(jobs_[target], index);
      if (!shard) {
        results_[target][index] = fail(std::move(shard.error()));
        return false;
      }
      prepared_[target].push_back(std::move(*shard));
    }
    return true;
  }

  bool all_done() const {
    for (size_t target = 0; target < jobs_.size(); ++target)
      for (const size_t index : unit_.shards[target]) {
        const auto& result = results_[target][index];
        if (!result || !*result) return false;
      }
    return true;
  }

  std::span<const ExportJob> jobs_;
  const ExportUnit& unit_;
  ShardResults& results_;
  std::vector<std::vector<PreparedShard>> prepared_;  // by target
};

// What is there when all is done, else the first error in the order of the units.
Result<std::vector<std::vector<ExportedShard>>> collect(const std::vector<ExportUnit>& units,
                                                        ShardResults results) {
  for (const ExportUnit& unit : units)
    for (size_t target = 0; target < results.size(); ++target)
      for (const size_t index : unit.shards[target])
        if (auto& result = results[target][index]; result && !*result)
          return fail(std::move(result->error()));
  std::vector<std::vector<ExportedShard>> done(results.size());
  for (size_t target = 0; target < results.size(); ++target)
    for (auto& result : results[target]) done[target].push_back(std::move(**result));
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

// Workers take the next unit until there is none left or one has failed. Units before a failing one
// are finished, so the error that is reported is the first in their order for any number of
// workers.
Result<std::vector<std::vector<ExportedShard>>> export_shards(std::span<const ExportJob> jobs) {
  std::vector<const Plan*> plans;
  ShardResults results;
  for (const ExportJob& job : jobs) {
    plans.push_back(&job.plan);
    results.emplace_back(job.plan.shards.size());
  }
  const std::vector<ExportUnit> units = export_units(plans);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    while (!failed) {
      const size_t i = next++;
      if (i >= units.size()) return;
      if (!UnitExport(jobs, units[i], results).run()) failed = true;
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < jobs.front().options.jobs; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  return collect(units, std::move(results));
}

}  // namespace moec
