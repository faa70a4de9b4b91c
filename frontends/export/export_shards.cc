#include "frontends/export/export_shards.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "backends/coverage/weight_recorder.h"
#include "backends/formats/emit_shard.h"
#include "frontends/compile/calibrated_inputs.h"
#include "frontends/compile/describe_export.h"
#include "frontends/compile/export_compile.h"
#include "frontends/compile/shard_packages.h"
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

// The shards of a package have the same MoE layers, or none.
ExpertLayout expert_layout(const ExportJob& job, const ShardPackage& package) {
  const ModelConfig& model = job.plan.model;
  const ShardDecl& first = job.plan.shards[package.shards.front()];
  return {job.options.output.expert_alignment,
          MoeLayers{model.moe.experts, moe_layers_of(model, first)}};
}

// A compiled shard, before its first byte is written.
struct PreparedShard {
  size_t index = 0;  // in the plan
  CompiledShard compiled;
  const EmitReport* kept = nullptr;  // from an earlier run; null: the shard must be written
};

// The shards of a package, which are either all kept or all written.
struct PreparedPackage {
  const ShardPackage* package = nullptr;
  std::vector<PreparedShard> shards;
  std::vector<WeightView> views;  // that will be read; none for kept shards

  bool is_kept() const { return shards.front().kept != nullptr; }
  bool has_parts() const { return shards.size() > 1; }
};

std::vector<ShardWidth> widths_of(const ExportJob& job, const PreparedPackage& prepared) {
  std::vector<ShardWidth> all;
  for (const PreparedShard& shard : prepared.shards)
    for (ShardWidth& width : widths_of(job.plan, shard.compiled)) {
      if (prepared.has_parts()) width.part = part_name(job.plan.shards[shard.index]);
      all.push_back(std::move(width));
    }
  return all;
}

// Emits a package and divides the report among its shards. A weight that several shards use is
// stored once, and each of their reports has it.
class PackageEmission {
 public:
  PackageEmission(const ExportJob& job, const PreparedPackage& prepared)
      : job_(job), prepared_(prepared), experts_(expert_layout(job, *prepared.package)) {
    for (const PreparedShard& shard : prepared.shards) {
      const ShardDecl& decl = job.plan.shards[shard.index];
      for (const Shard& width : shard.compiled.widths)
        for (const Op& op : width.ops)
          if (const auto* weight = std::get_if<Weight>(&op.data))
            users_[weight_key(*weight)].insert(parts_.size());
      parts_.push_back({shard,
                        {shard.compiled.widths, experts_.layers->experts,
                         moe_layers_of(job.plan.model, decl).size()},
                        {job.options.values, decl.name}});
    }
  }

  // Returns the reports of the shards, in order, and adds them to the journal.
  Result<std::vector<EmitReport>> run() {
    const OutputOptions& output = job_.options.output;
    const CompileOptions& compile = job_.options.compile;
    auto emission =
        emit_shard(compile.passes.target.format, widths_of(job_, prepared_), job_.reader,
                   emit_options(), {output.onnx, compile.coreml, experts_});
    if (!emission) return fail(explain(std::move(emission.error())));
    std::vector<EmitReport> reports = divide(std::move(*emission));
    for (size_t i = 0; i < parts_.size(); ++i) {
      reports[i].weights = parts_[i].recorder.records(reports[i].ranges);
      // The files have their final names here, as the journal requires.
      MOEC_TRY(job_.complete_part({decl_of(i).name, reports[i]}));
    }
    return reports;
  }

 private:
  struct Part {
    const PreparedShard& shard;
    WeightRecorder recorder;
    WrittenValues values;
  };

  const ShardDecl& decl_of(size_t part) const { return job_.plan.shards[parts_[part].shard.index]; }

  size_t first_user(const std::string& weight) const { return *users_.at(weight).begin(); }

  // The callbacks refer to this object.
  EmitOptions emit_options() {
    EmitOptions emit;
    emit.folder = job_.options.output.folder;
    emit.stem = job_.names.stem_prefix + prepared_.package->stem;
    emit.family = job_.plan.model.family;
    emit.sha256 = job_.options.output.sha256;
    emit.experts = experts_;
    emit.on_weight = [this](const std::string& weight, uint64_t offset,
                            std::span<const std::byte> bytes) {
      current_ = first_user(weight);
      for (const size_t part : users_.at(weight)) parts_[part].recorder.take(weight, offset, bytes);
    };
    // Called after each tile, so a stop or a removed folder ends the emission early.
    emit.on_progress = [this](uint64_t bytes) {
      job_.advance(bytes, decl_of(current_).name);
      return job_.check_not_stopped();
    };
    if (job_.calibration)
      emit.inputs_of = [this](const Weight& weight, const Type& type) {
        return inputs_of(first_user(weight_key(weight)))(weight, type);
      };
    emit.on_written = [this](const WeightView& view, const EmittedTensor& written) {
      return parts_[first_user(written.view)].values.take(view, written);
    };
    return emit;
  }

  // Keeps the inputs of one shard, because they hold the moments of its last weight.
  const decltype(EmitOptions::inputs_of)& inputs_of(size_t part) {
    if (!inputs_ || calibrated_ != part) {
      inputs_ = nullptr;
      const PreparedShard& shard = parts_[part].shard;
      inputs_ =
          inputs_of_shard(*job_.calibration, job_.plan, shard.index, shard.compiled, job_.encoder);
      calibrated_ = part;
    }
    return inputs_;
  }

  Diagnostics explain(Diagnostics failure) const {
    for (const Part& part : parts_) failure = part.values.explain(std::move(failure), job_.reader);
    return failure;
  }

  std::vector<EmitReport> divide(EmitReport whole) const {
    if (parts_.size() == 1) return {std::move(whole)};
    std::vector<EmitReport> reports(parts_.size());
    // The bytes are read once for the package.
    reports.front().bytes_read = whole.bytes_read;
    auto graph = whole.graphs.begin();
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto end = graph + std::ssize(parts_[i].shard.compiled.widths);
      reports[i].graphs.assign(graph, end);
      graph = end;
      reports[i].data = whole.data;
    }
    for (const EmittedTensor& tensor : whole.tensors)
      for (const size_t part : users_.at(tensor.view)) reports[part].tensors.push_back(tensor);
    for (const EmittedRange& range : whole.ranges)
      for (const size_t part : users_.at(range.weight)) {
        reports[part].ranges.push_back(range);
        reports[part].weight_bytes += static_cast<uint64_t>(range.range.bytes);
      }
    return reports;
  }

  const ExportJob& job_;
  const PreparedPackage& prepared_;
  const ExpertLayout experts_;
  std::vector<Part> parts_;
  std::map<std::string, std::set<size_t>> users_;  // weight_key() → parts that have the weight
  size_t current_ = 0;                             // part whose weight is being written
  decltype(EmitOptions::inputs_of) inputs_;
  size_t calibrated_ = 0;  // part of `inputs_`
};

// Compiles kept shards as well, because the manifest describes their graphs.
Result<PreparedPackage> prepare_package(const ExportJob& job, const ShardPackage& package) {
  const CompileOptions& compile = job.options.compile;
  PreparedPackage prepared{&package, {}, {}};
  std::vector<std::string> names;
  for (const size_t index : package.shards) {
    MOEC_TRY(job.check_not_stopped());
    PreparedShard& shard = prepared.shards.emplace_back();
    shard.index = index;
    MOEC_ASSIGN(shard.compiled, compile_for_export(job.plan, index, compile));
    names.push_back(job.plan.shards[index].name);
  }
  const std::vector<const EmitReport*> kept = job.journal.find_complete(names);
  // All three conditions are needed: intact files, the same graphs, and values that this run
  // allows.
  bool fine = !kept.empty();
  for (size_t i = 0; i < kept.size(); ++i)
    fine = fine && has_graphs(*kept[i], graph_keys(job.plan, package.shards[i])) &&
           !holds_refused_values(*kept[i], job.options.values);
  for (size_t i = 0; fine && i < kept.size(); ++i) prepared.shards[i].kept = kept[i];
  if (fine) return prepared;
  MOEC_ASSIGN(prepared.views, weight_views(compile.passes.target.format, widths_of(job, prepared),
                                           {{}, compile.coreml, expert_layout(job, package)}));
  return prepared;
}

Result<std::vector<EmitReport>> emit_or_keep(const ExportJob& job,
                                             const PreparedPackage& prepared) {
  if (!prepared.is_kept()) return PackageEmission(job, prepared).run();
  std::vector<EmitReport> reports;
  for (const PreparedShard& shard : prepared.shards) {
    // Kept bytes count as progress, because the total includes them.
    job.advance(shard.kept->weight_bytes, job.plan.shards[shard.index].name);
    reports.push_back(*shard.kept);
  }
  return reports;
}

Result<std::vector<ExportedShard>> export_package(const ExportJob& job, PreparedPackage& prepared) {
  MOEC_ASSIGN(const std::vector<EmitReport> emitted, emit_or_keep(job, prepared));
  std::vector<ExportedShard> all;
  for (size_t i = 0; i < emitted.size(); ++i) {
    PreparedShard& shard = prepared.shards[i];
    ExportedShard& exported = all.emplace_back();
    exported.shard = describe_shard(job.plan, shard.index, shard.compiled, emitted[i],
                                    job.options.compile.passes.target);
    if (job.decoder) {
      MOEC_ASSIGN(exported.decoder, job.decoder->part(shard.index, shard.compiled, job.options,
                                                      expert_layout(job, *prepared.package)));
    }
    exported.costs = std::move(shard.compiled.costs);
    exported.passes = std::move(shard.compiled.passes);
    exported.notes = std::move(shard.compiled.notes);
    exported.bytes_read = emitted[i].bytes_read;
    note_values(job, job.plan.shards[shard.index], emitted[i], exported.notes);
  }
  return all;
}

// Results by target, then by index in its plan; empty: the shard was not started. Threads write to
// it without locks, each only to the elements of the unit that it exports.
using ShardResults = std::vector<std::vector<std::optional<Result<ExportedShard>>>>;

// Exports one unit: the packages of all targets for the same part of the model.
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
      for (PreparedPackage& package : prepared_[target])
        std::move(package.views.begin(), package.views.end(), std::back_inserter(views[target]));
    run_targets_in_parallel(jobs_, std::move(views), [&](size_t target, const ExportJob& job) {
      for (PreparedPackage& package : prepared_[target])
        // After a failure, the target stops reading. The other targets continue without it.
        if (!run_package(target, job, package)) return;
    });
    return all_exported();
  }

 private:
  bool prepare(size_t target) {
    for (const ShardPackage& package : unit_.packages[target]) {
      auto prepared = catch_refusals([&] { return prepare_package(jobs_[target], package); });
      if (!prepared) {
        results_[target][package.shards.front()] = fail(std::move(prepared.error()));
        return false;
      }
      prepared_[target].push_back(std::move(*prepared));
    }
    return true;
  }

  bool run_package(size_t target, const ExportJob& job, PreparedPackage& prepared) {
    auto exported = catch_refusals([&] { return export_package(job, prepared); });
    const std::vector<size_t>& shards = prepared.package->shards;
    if (!exported) {
      results_[target][shards.front()] = fail(std::move(exported.error()));
      return false;
    }
    for (size_t i = 0; i < shards.size(); ++i)
      results_[target][shards[i]] = std::move((*exported)[i]);
    return true;
  }

  bool all_exported() const {
    for (size_t target = 0; target < jobs_.size(); ++target)
      for (const ShardPackage& package : unit_.packages[target])
        for (const size_t index : package.shards) {
          const auto& result = results_[target][index];
          if (!result || !*result) return false;
        }
    return true;
  }

  std::span<const ExportJob> jobs_;
  const ExportUnit& unit_;
  ShardResults& results_;
  std::vector<std::vector<PreparedPackage>> prepared_;  // by target
};

// Returns all shards, or the first error in unit order.
Result<std::vector<std::vector<ExportedShard>>> collect(const std::vector<ExportUnit>& units,
                                                        ShardResults results) {
  for (const ExportUnit& unit : units)
    for (size_t target = 0; target < results.size(); ++target)
      for (const ShardPackage& package : unit.packages[target])
        for (const size_t index : package.shards)
          if (auto& result = results[target][index]; result && !*result)
            return fail(std::move(result->error()));
  std::vector<std::vector<ExportedShard>> exported(results.size());
  for (size_t target = 0; target < results.size(); ++target)
    // Without an error, every unit ran to its end. Only shards of other processes have no result.
    for (auto& result : results[target])
      if (result) exported[target].push_back(std::move(**result));
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
  std::vector<PackagedPlan> targets;
  ShardResults results;
  for (const ExportJob& job : jobs) {
    targets.push_back({&job.plan, job.packages});
    results.emplace_back(job.plan.shards.size());
  }
  const std::vector<ExportUnit> units = export_units(std::move(targets));
  run_units(jobs, units, jobs.front().workers, results);
  return collect(units, std::move(results));
}

}  // namespace moec
