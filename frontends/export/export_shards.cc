#include "frontends/export/export_shards.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>

#include "backends/coverage/weight_recorder.h"
#include "backends/formats/emit_shard.h"
#include "frontends/compile/calibrated_inputs.h"
#include "frontends/compile/describe_export.h"
#include "frontends/compile/export_compile.h"
#include "frontends/compile/weight_values.h"
#include "frontends/export/export_units.h"
#include "frontends/export/parallel_targets.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

// Adds warnings about emitted values that are not finite. The user allowed all of these values;
// otherwise, WrittenValues would have failed the export.
void note_values(const ExportJob& job, const ShardDecl& decl, const EmitReport& emitted,
                 Diagnostics& notes) {
  for (const EmittedTensor& tensor : emitted.tensors)
    for (Diagnostic& finding : judge_values(tensor, job.plan.build.dtype, job.options.values,
                                            {.shard = decl.name, .tensor = tensor.name}))
      notes.push_back(std::move(finding));
}

// True if a kept shard has exactly these graphs. The journal was made for the same options, so this
// is false only if someone edited the journal.
bool has_graphs(const EmitReport& emitted, const std::vector<GraphKey>& keys) {
  return std::equal(
      emitted.graphs.begin(), emitted.graphs.end(), keys.begin(), keys.end(),
      [](const EmittedGraph& graph, const GraphKey& key) { return graph.key() == key; });
}

ExpertLayout expert_layout(const ExportJob& job, size_t index) {
  const ModelConfig& model = job.plan.model;
  return {job.options.output.expert_alignment,
          MoeLayers{model.moe.experts, moe_layers_of(model, job.plan.shards[index])}};
}

Result<EmitReport> emit_new(const ExportJob& job, size_t index, const CompiledShard& compiled) {
  const ShardDecl& decl = job.plan.shards[index];
  const OutputOptions& output = job.options.output;
  const CompileOptions& compile = job.options.compile;
  EmitOptions emit;
  emit.folder = output.folder;
  emit.stem = job.names.stem_prefix + decl.stem;
  emit.family = job.plan.model.family;
  emit.sha256 = output.sha256;
  emit.experts = expert_layout(job, index);
  const MoeLayers& moe = *emit.experts.layers;
  // Must outlive the emission, because on_weight refers to it.
  WeightRecorder recorder(compiled.widths, moe.experts, moe.layers.size());
  emit.on_weight = [&](const std::string& weight, uint64_t offset,
                       std::span<const std::byte> bytes) { recorder.take(weight, offset, bytes); };
  // Called after each tile, so a stop or a removed folder ends the emission early.
  emit.on_progress = [&](uint64_t bytes) {
    job.advance(bytes, decl.name);
    return job.check_not_stopped();
  };
  if (job.calibration)
    emit.inputs_of = inputs_of_shard(*job.calibration, job.plan, index, compiled, job.encoder);
  WrittenValues values(job.options.values, decl.name);
  emit.on_written = [&](const WeightView& view, const EmittedTensor& written) {
    return values.take(view, written);
  };
  auto emission = emit_shard(compile.passes.target.format, widths_of(job.plan, compiled),
                             job.reader, emit, {output.onnx, compile.coreml, emit.experts});
  if (!emission) return fail(values.explain(std::move(emission.error()), job.reader));
  EmitReport& emitted = *emission;
  emitted.weights = recorder.records(emitted.ranges);
  // The files have their final names here, as the journal requires.
  MOEC_TRY(job.complete_part({decl.name, emitted}));
  return emission;
}

// A compiled shard, before its first byte is written.
struct PreparedShard {
  size_t index = 0;  // in the plan
  CompiledShard compiled;
  const EmitReport* kept = nullptr;  // from an earlier run; null: the shard must be written
  std::vector<WeightView> views;     // that will be read; none for a kept shard
};

// Compiles kept shards as well, because the manifest describes their graphs.
Result<PreparedShard> prepare_shard(const ExportJob& job, size_t index) {
  MOEC_TRY(job.check_not_stopped());
  const CompileOptions& compile = job.options.compile;
  PreparedShard shard;
  shard.index = index;
  MOEC_ASSIGN(shard.compiled, compile_for_export(job.plan, index, compile));
  const EmitReport* kept = job.journal.find_complete(job.plan.shards[index].name);
  // All three conditions are needed: intact files, the same graphs, and values that this run
  // allows.
  if (kept && has_graphs(*kept, graph_keys(job.plan, index)) &&
      !holds_refused_values(*kept, job.options.values))
    shard.kept = kept;
  if (shard.kept) return shard;
  MOEC_ASSIGN(shard.views,
              weight_views(compile.passes.target.format, widths_of(job.plan, shard.compiled),
                           {{}, compile.coreml, expert_layout(job, index)}));
  return shard;
}

Result<EmitReport> emit_or_keep(const ExportJob& job, const PreparedShard& shard) {
  const ShardDecl& decl = job.plan.shards[shard.index];
  if (!shard.kept) return emit_new(job, shard.index, shard.compiled);
  // Kept bytes count as progress, because the total includes them.
  job.advance(shard.kept->weight_bytes, decl.name);
  return *shard.kept;
}

Result<ExportedShard> export_shard(const ExportJob& job, PreparedShard& shard) {
  MOEC_ASSIGN(const EmitReport emitted, emit_or_keep(job, shard));
  ExportedShard exported;
  exported.shard = describe_shard(job.plan, shard.index, shard.compiled, emitted,
                                  job.options.compile.passes.target);
  if (job.decoder) {
    MOEC_ASSIGN(exported.decoder, job.decoder->part(shard.index, shard.compiled, job.options,
                                                    expert_layout(job, shard.index)));
  }
  exported.costs = std::move(shard.compiled.costs);
  exported.passes = std::move(shard.compiled.passes);
  exported.notes = std::move(shard.compiled.notes);
  exported.bytes_read = emitted.bytes_read;
  note_values(job, job.plan.shards[shard.index], emitted, exported.notes);
  return exported;
}

// Results by target, then by index in its plan; empty: the shard was not started. Threads write to
// it without locks, each only to the elements of the unit that it exports.
using ShardResults = std::vector<std::vector<std::optional<Result<ExportedShard>>>>;

// Exports one unit: the shards of all targets for the same part of the model.
class UnitExport {
 public:
  UnitExport(std::span<const ExportJob> jobs, const ExportUnit& unit, ShardResults& results)
      : jobs_(jobs), unit_(unit), results_(results), prepared_(jobs.size()) {}

  // Stores the result of every shard, up to the first failure of each target. Returns true if all
  // shards of the unit were exported.
  bool run() {
    for (size_t target = 0; target < jobs_.size(); ++target)
      // All targets are prepared before one is written, because SharedViews needs the views of
      // every target in advance.
      if (!prepare(target)) return false;
    std::vector<std::vector<WeightView>> views(jobs_.size());
    for (size_t target = 0; target < jobs_.size(); ++target)
      for (PreparedShard& shard : prepared_[target])
        std::move(shard.views.begin(), shard.views.end(), std::back_inserter(views[target]));
    run_targets_in_parallel(jobs_, std::move(views), [&](size_t target, const ExportJob& job) {
      for (PreparedShard& shard : prepared_[target])
        // After a failure, the target stops reading. The other targets continue without it.
        if (!set(target, shard.index, [&] { return export_shard(job, shard); })) return;
    });
    return all_exported();
  }

 private:
  bool prepare(size_t target) {
    for (const size_t index : unit_.shards[target]) {
      auto shard = catch_refusals([&] { return prepare_shard(jobs_[target], index); });
      if (!shard) {
        results_[target][index] = fail(std::move(shard.error()));
        return false;
      }
      prepared_[target].push_back(std::move(*shard));
    }
    return true;
  }

  template <class Export>
  bool set(size_t target, size_t index, Export export_one) {
    auto& result = results_[target][index];
    result = catch_refusals(export_one);
    return result->has_value();
  }

  bool all_exported() const {
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

// Returns all shards, or the first error in unit order.
Result<std::vector<std::vector<ExportedShard>>> collect(const std::vector<ExportUnit>& units,
                                                        ShardResults results) {
  for (const ExportUnit& unit : units)
    for (size_t target = 0; target < results.size(); ++target)
      for (const size_t index : unit.shards[target])
        if (auto& result = results[target][index]; result && !*result)
          return fail(std::move(result->error()));
  std::vector<std::vector<ExportedShard>> exported(results.size());
  for (size_t target = 0; target < results.size(); ++target)
    // Without an error, every unit ran to its end, so each result has a value.
    for (auto& result : results[target]) exported[target].push_back(std::move(**result));
  return exported;
}

// Exports the units on `workers` threads, which fetch units in order until none is left or one has
// failed. A fetched unit always runs to its end, so every unit before a failing one has a result.
// collect() therefore finds the same first error for any number of workers.
void run_units(std::span<const ExportJob> jobs, const std::vector<ExportUnit>& units, int workers,
               ShardResults& results) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    while (!failed) {
      const size_t i = next++;
      if (i >= units.size()) return;
      if (!UnitExport(jobs, units[i], results).run()) failed = true;
    }
  };
  ThreadGroup threads;
  for (int i = 1; i < workers; ++i)
    // With fewer threads, the units take longer but the bytes are the same.
    if (!threads.start(work)) break;
  work();
}

}  // namespace

Result<std::vector<std::vector<ExportedShard>>> export_shards(std::span<const ExportJob> jobs) {
  std::vector<const Plan*> plans;
  ShardResults results;
  for (const ExportJob& job : jobs) {
    plans.push_back(&job.plan);
    results.emplace_back(job.plan.shards.size());
  }
  const std::vector<ExportUnit> units = export_units(plans);
  run_units(jobs, units, jobs.front().workers, results);
  return collect(units, std::move(results));
}

}  // namespace moec
