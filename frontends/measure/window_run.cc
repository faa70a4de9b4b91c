#include "frontends/measure/window_run.h"

#include <algorithm>
#include <set>

#include "backends/runtime/session/step_inputs.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "models/shards/build_shard.h"

namespace moec {
namespace {

const InputBinding& binding_of(const Step& step, const std::string& port) {
  for (const InputBinding& binding : step.inputs)
    if (binding.port == port) return binding;
  MOEC_CHECK(false, "the plan binds no input {}", port);
}

Tensor zeros_of(const Type& type) {
  return {type, std::vector<float>(static_cast<size_t>(type.elements()))};
}

}  // namespace

WindowRun::WindowRun(const Plan& plan, const Text& text, const Products* products)
    : plan_(plan),
      text_(text),
      products_(products),
      ropes_(rope_tables(plan.model, plan.build.context)) {}

Status WindowRun::embed(const WeightReader& weights) {
  Rows rows{plan_.model.hidden, {}};
  std::map<int64_t, std::vector<float>> known;
  for (const int64_t token : text_.tokens) {
    auto found = known.find(token);
    if (found == known.end()) {
      MOEC_ASSIGN(std::vector<float> row,
                  weights.read_f32(then(plan_.embedding, SliceStep{0, token, 1}),
                                   static_cast<uint64_t>(rows.columns) * sizeof(float)));
      found = known.emplace(token, std::move(row)).first;
    }
    rows.data.insert(rows.data.end(), found->second.begin(), found->second.end());
  }
  edges_[std::string(kEmbedEdge)] = std::move(rows);
  return {};
}

// Returns the rotation or the query scale per position of a window.
Rows WindowRun::positions(const InputBinding& binding) const {
  // Every window begins at position 0, so the tables of one window serve all windows.
  if (binding.source != SourceKind::query_scale) {
    const RopeTable& rope = at(ropes_, binding.rotation);
    return {rope.width, binding.source == SourceKind::rope_cos ? rope.cos : rope.sin};
  }
  Rows rows{1, {}};
  for (int64_t position = 0; position < text_.window; ++position)
    rows.data.push_back(
        static_cast<float>(query_scale(*plan_.model.attention.temperature, position)));
  return rows;
}

// Cache inputs are zero, because windows have no earlier tokens.
Tensor WindowRun::input(const InputBinding& binding, const std::string& port, const Type& type,
                        int64_t window) const {
  switch (binding.source) {
    case SourceKind::edge: {
      const Rows& all = edges_.at(binding.edge);
      const auto begin = all.data.begin() + window * text_.window * all.columns;
      return pack_rows({port, type}, {all.columns, {begin, begin + text_.window * all.columns}});
    }
    case SourceKind::rope_cos:
    case SourceKind::rope_sin:
    case SourceKind::query_scale:
      return pack_rows({port, type}, positions(binding));
    case SourceKind::attn_mask:
      return attention_mask({port, type},
                            {plan_.build.cache, plan_.build.context, 0, text_.used(window)},
                            binding, masked_score(DType::f32));
    case SourceKind::token_mask:
      return token_mask({port, type}, text_.used(window));
    case SourceKind::kv_write_mask:
    case SourceKind::k_cache:
    case SourceKind::v_cache:
    case SourceKind::history:
    case SourceKind::recurrent_state:
      break;
  }
  return zeros_of(type);
}

void WindowRun::take_output(const OutputBinding& binding, const Tensor& tensor, int64_t window) {
  // Later steps read only edges. run_window() returns logits, and windows share no caches.
  if (binding.sink != SinkKind::edge) return;
  const Rows rows = unpack_rows(tensor, text_.window);
  Rows& all = edges_[binding.edge];
  // All steps of an edge write rows of the same width. The first window allocates the rows of all
  // windows.
  all.columns = rows.columns;
  all.data.resize(text_.tokens.size() * static_cast<size_t>(rows.columns));
  std::copy(rows.data.begin(), rows.data.end(),
            all.data.begin() + window * text_.window * rows.columns);
}

Result<std::vector<Tensor>> WindowRun::run_window(size_t index, Executor& executor, int64_t window,
                                                  const RunProbes& probes) {
  const Step& step = plan_.schedule[index];
  const Shard& body = executor.shard();
  std::vector<Tensor> inputs;
  for (const ValueId id : body.inputs) {
    const std::string& port = body.values[id].name;
    inputs.push_back(input(binding_of(step, port), port, body.type(id), window));
  }
  MOEC_ASSIGN(std::vector<Tensor> outputs, executor.run(inputs, probes));
  for (size_t i = 0; i < outputs.size(); ++i)
    for (const OutputBinding& binding : step.outputs)
      if (binding.port == body.outputs[i].name) take_output(binding, outputs[i], window);
  return outputs;
}

Status WindowRun::step(size_t index, Executor& executor, const Observer& observer) {
  const int64_t layer = plan_.shards[plan_.schedule[index].shard].layer;
  for (int64_t window = 0; window < text_.windows(); ++window) {
    const TextChunk chunk = chunk_of(text_, window);
    if (observer.begin) MOEC_TRY(observer.begin(chunk));
    RunProbes probes{.matrices = observer.matrices};
    if (observer.experts)
      probes.experts = [&](const ExpertRows& rows) { observer.experts(chunk, layer, rows); };
    MOEC_TRY(run_window(index, executor, window, probes));
    if (observer.end) MOEC_TRY(observer.end(chunk));
  }
  return {};
}

size_t WindowRun::layer_steps() const {
  size_t steps = 0;
  while (steps < plan_.schedule.size() && plan_.shards[plan_.schedule[steps].shard].layer >= 0)
    ++steps;
  return steps;
}

Status WindowRun::layers(const WeightReader& weights, const Observer& observer) {
  MOEC_TRY(embed(weights));
  // The outer loop is over steps, so the weights of each shard are loaded once for all windows.
  for (size_t index = 0; index < layer_steps(); ++index) {
    const size_t shard = plan_.schedule[index].shard;
    if (observer.shard) MOEC_TRY(observer.shard(plan_.shards[shard]));
    MOEC_ASSIGN(const Shard body, build_shard(plan_, shard, text_.window));
    MOEC_ASSIGN(Executor executor, this->executor(body, weights));
    MOEC_TRY(step(index, executor, observer));
    // Edges are kept for the whole text, so those that no later step reads are released.
    keep_edges(index + 1);
  }
  return {};
}

// Returns the edges that the step `next` or a later step reads, sorted by name.
std::vector<CalibrationEdge> WindowRun::edges(size_t next) const {
  std::set<std::string> names;
  for (size_t s = next; s < plan_.schedule.size(); ++s)
    for (const InputBinding& binding : plan_.schedule[s].inputs)
      if (edges_.contains(binding.edge)) names.insert(binding.edge);
  std::vector<CalibrationEdge> kept;
  for (const std::string& name : names) kept.push_back({name, edges_.at(name).columns});
  return kept;
}

void WindowRun::keep_edges(size_t next) {
  std::map<std::string, Rows> kept;
  for (const CalibrationEdge& edge : edges(next)) kept[edge.name] = std::move(edges_[edge.name]);
  edges_ = std::move(kept);
}

}  // namespace moec
