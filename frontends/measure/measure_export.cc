#include "frontends/measure/measure_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/runtime/session/step_inputs.h"
#include "frontends/measure/run_text.h"
#include "frontends/measure/value_labels.h"
#include "ir/base/at.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// Observations of one layer during a run.
struct WatchedLayer {
  explicit WatchedLayer(LayerCounter made) : counter(std::move(made)) {}

  LayerCounter counter;
  Rows routing;                               // of the current tokens
  bool routed = false;                        // routing weights were observed
  int64_t expected = 0, out = 0, hidden = 0;  // rows of experts: chosen; observed
  bool partial = false;  // labelled outputs lack biases, or already include routing weights
};

class ExportRun {
 public:
  ExportRun(const AnalyzeOptions& options, Session& session, Measurement& measured)
      : options_(options), session_(session), measured_(measured) {}

  Status run(const ExpertGrid& grid, bool pairs) {
    for (const int64_t layer : grid.layers)
      layers_.try_emplace(layer,
                          LayerCounter(layer, grid.experts, measured_.text, {.pairs = pairs}));
    Observer observer = follow_run(options_, measured_.text);
    observer.value = [this](const TextChunk& chunk, const manifest::Shard& shard,
                            std::string_view label, const Tensor& value) {
      const auto inside = layer_label(shard, label);
      const auto found = inside ? layers_.find(inside->layer) : layers_.end();
      if (found != layers_.end()) see({chunk, shard, inside->name, value}, found->second);
    };
    MOEC_TRY(run_text(session_, measured_.text, observer));
    return finish();
  }

 private:
  // A labelled value of a layer; `name` is the label without the layer.
  struct Seen {
    const TextChunk& chunk;
    const manifest::Shard& shard;
    std::string_view name;
    const Tensor& value;
  };

  static void see(const Seen& seen, WatchedLayer& layer) {
    // `layer.routing` belongs to the same tokens, because a layer's router runs before its experts.
    if (seen.name == kRoutingWeights && seen.shard.routing) return see_routing(seen, layer);
    if (seen.name == "experts.biases") layer.partial = true;
    const auto inside = expert_label(seen.name);
    if (!inside) return;
    if (inside->name == "gate.routed") layer.partial = true;
    if (inside->name == "out") see_output(seen, inside->expert, layer);
    if (inside->name == "hidden") see_hidden(seen, inside->expert, layer);
  }

  static void see_routing(const Seen& seen, WatchedLayer& layer) {
    layer.routing = unpack_rows(seen.value, seen.chunk.count());
    layer.routed = true;
    for_chosen(layer, [&](int64_t t, int64_t expert, double weight) {
      layer.counter.choose(seen.chunk.first + t, expert, weight);
      ++layer.expected;
    });
  }

  // The input of the down matrix already includes the routing weight, so its output does too.
  static void see_output(const Seen& seen, int64_t expert, WatchedLayer& layer) {
    const Rows rows = unpack_rows(seen.value, seen.chunk.count());
    // Experts of an unrolled graph process all tokens, so rows with routing weight 0 are skipped.
    for (int64_t t = 0; t < layer.routing.count(); ++t) {
      const double weight = at(layer.routing.row(t), expert);
      if (weight == 0) continue;
      const double norm = euclidean_norm(rows.row(t));
      layer.counter.add_output(expert, norm / std::fabs(weight), norm);
      ++layer.out;
    }
  }

  static void see_hidden(const Seen& seen, int64_t expert, WatchedLayer& layer) {
    const Rows rows = unpack_rows(seen.value, seen.chunk.count());
    for (int64_t t = 0; t < layer.routing.count(); ++t) {
      if (at(layer.routing.row(t), expert) == 0) continue;
      layer.counter.add_activations(expert, rows.row(t));
      ++layer.hidden;
    }
  }

  template <class Visit>
  static void for_chosen(const WatchedLayer& layer, Visit visit) {
    for (int64_t t = 0; t < layer.routing.count(); ++t)
      for (int64_t e = 0; e < layer.routing.columns; ++e)
        if (const double weight = at(layer.routing.row(t), e); weight != 0) visit(t, e, weight);
  }

  // Omits the outputs of a layer unless both values were observed for every chosen expert of every
  // token.
  Status finish() {
    bool dropped = false;
    for (auto& [number, layer] : layers_) {
      if (!layer.routed)
        return fail("analyze.no_router", "the graph does not label the routing weights",
                    "export again without --skip-pass, or analyze the checkpoint",
                    {.shard = fmt::format("L{:02}", number), .file = options_.source});
      // A fused graph labels none or only some of the experts' values. Partial sums would make the
      // means too small.
      const bool told = layer.out == layer.expected && layer.hidden == layer.expected;
      if (!told || layer.partial) layer.counter.drop_outputs();
      dropped = dropped || !told || layer.partial;
      measured_.layers.push_back(std::move(layer.counter).finish());
    }
    if (dropped)
      measured_.notes.push_back({Severity::note,
                                 "analyze.no_outputs",
                                 "the results lack norms, saliency and activations, because the "
                                 "graphs do not label the outputs of single experts",
                                 "analyze the checkpoint, or an export with --experts unrolled and "
                                 "a --routing other than op",
                                 {.file = options_.source}});
    return {};
  }

  const AnalyzeOptions& options_;
  Session& session_;
  Measurement& measured_;
  std::map<int64_t, WatchedLayer> layers_;
};

}  // namespace

Result<Measurement> measure_export(const AnalyzeOptions& options) {
  MOEC_ASSIGN(Session session, Session::open(options.source, read_shard, options.session));
  const Manifest& manifest = session.manifest();
  const ExpertGrid grid = expert_grid(manifest);
  MOEC_TRY(check_has_experts(std::ssize(grid.layers), options.source));
  Measurement measured{manifest.model.family,
                       {},
                       "export",
                       grid.experts,
                       grid.top_k,
                       {},
                       {},
                       note_precision(manifest, options.session.precision)};
  // The results are valid for the masked model only, and a placement by them would be biased.
  if (!manifest.build.expert_mask.empty())
    measured.notes.push_back(
        {Severity::note,
         "analyze.masked",
         fmt::format("tokens could only choose the experts of the export's mask {}",
                     manifest.build.expert_mask),
         "analyze the checkpoint or an export without --expert-mask before placing experts",
         {.file = options.source}});
  MOEC_ASSIGN(measured.text, read_analysis_text(options, manifest));
  const bool pairs = counts_pairs(std::ssize(grid.layers), grid.experts, measured.notes);
  MOEC_TRY(ExportRun(options, session, measured).run(grid, pairs));
  return measured;
}

}  // namespace moec
