// Runs a plan's schedule on the reference executor, shard by shard, with the plan as the only
// input. For tests only: the runner is slow and keeps everything in memory.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backends/reference/reference.h"
#include "ir/model/plan.h"
#include "models/shards/build_shard.h"
#include "models/tensors/rope.h"

namespace moec {

class ScheduleRunner {
 public:
  ScheduleRunner(const Plan& plan, const WeightReader& weights)
      : plan_(plan), weights_(weights), ropes_(rope_tables(plan.model, plan.build.context)) {
    const auto zeros = [&](int64_t heads, int64_t dims) {
      Type cache{plan.build.dtype, {1, heads, plan.build.context, dims}};
      return Tensor{cache, std::vector<float>(static_cast<size_t>(cache.elements()), 0)};
    };
    for (const LayerConfig& config : plan.model.layers) {
      const AttentionConfig& attention = plan.model.attention_of(config);
      k_.push_back(zeros(attention.kv_heads, attention.head_dim));
      v_.push_back(zeros(attention.kv_heads, attention.value_dim));
      const ModelConfig::Memory memory = plan.model.memory_of(config);
      history_.emplace_back(static_cast<size_t>(memory.history_tokens * memory.history_channels));
      Tensor state{{plan.build.dtype, memory.state}, {}};
      if (!memory.state.empty()) state.data.resize(static_cast<size_t>(state.type.elements()));
      states_.push_back(std::move(state));
    }
  }

  // Runs one step on embedding rows [T, hidden] for the positions that start at `position`. Returns
  // every edge, and "logits", as rows [T, C] in row-major order.
  std::map<std::string, std::vector<float>> run(const std::vector<float>& embedded, int64_t tokens,
                                                int64_t position) {
    tokens_ = tokens;
    position_ = position;
    edges_ = {{std::string(kEmbedEdge), embedded}};
    logits_.assign(static_cast<size_t>(tokens * plan_.model.logits()), 0);
    for (const Step& step : plan_.schedule) run_step(step);
    edges_["logits"] = logits_;
    return edges_;
  }

 private:
  void run_step(const Step& step) {
    const ShardDecl& decl = plan_.shards[step.shard];
    auto shard = build_shard(plan_, step.shard, tokens_);
    ASSERT_TRUE(shard.has_value()) << render(shard.error());
    auto executor = Executor::create(*shard, weights_);
    ASSERT_TRUE(executor.has_value()) << render(executor.error());
    bool stateful = !shard->states.empty();
    if (stateful) {
      ASSERT_TRUE(executor->set_state("k_state", k_[layer(decl)]).has_value());
      ASSERT_TRUE(executor->set_state("v_state", v_[layer(decl)]).has_value());
    }
    std::vector<Tensor> inputs;
    for (ValueId id : shard->inputs)
      inputs.push_back(input(binding(step, shard->values[id].name), shard->type(id)));
    auto results = executor->run(inputs);
    ASSERT_TRUE(results.has_value()) << decl.name << ": " << render(results.error());
    for (size_t i = 0; i < results->size(); ++i)
      store(binding_of(step, shard->outputs[i].name), (*results)[i], decl);
    if (stateful) {
      k_[layer(decl)] = *executor->state("k_state");
      v_[layer(decl)] = *executor->state("v_state");
    }
  }

  static size_t layer(const ShardDecl& decl) { return static_cast<size_t>(decl.layer); }
  static const InputBinding& binding(const Step& step, const std::string& port) {
    for (const InputBinding& in : step.inputs)
      if (in.port == port) return in;
    ADD_FAILURE() << "no binding for " << port;
    return step.inputs.front();
  }
  static const OutputBinding& binding_of(const Step& step, const std::string& port) {
    for (const OutputBinding& out : step.outputs)
      if (out.port == port) return out;
    ADD_FAILURE() << "no binding for " << port;
    return step.outputs.front();
  }

  Tensor input(const InputBinding& in, const Type& type) const {
    switch (in.source) {
      case SourceKind::edge:
        return from_rows(edges_.at(in.edge), type);
      case SourceKind::rope_cos:
        return rope_rows(at(ropes_, in.rotation).cos, type);
      case SourceKind::rope_sin:
        return rope_rows(at(ropes_, in.rotation).sin, type);
      case SourceKind::attn_mask:
        return attention_mask(type, in);
      case SourceKind::kv_write_mask:
        return write_mask(type);
      case SourceKind::k_cache:
        return k_[static_cast<size_t>(in.layer)];
      case SourceKind::v_cache:
        return v_[static_cast<size_t>(in.layer)];
      case SourceKind::query_scale:
        return query_scales(type);
      case SourceKind::history:
        return from_rows(history_[static_cast<size_t>(in.layer)], type);
      case SourceKind::recurrent_state:
        return states_[static_cast<size_t>(in.layer)];
      case SourceKind::token_mask:
        return {type, std::vector<float>(static_cast<size_t>(type.elements()), 1)};
    }
    return {};
  }

  void store(const OutputBinding& out, const Tensor& value, const ShardDecl& decl) {
    if (out.sink == SinkKind::edge) edges_[out.edge] = to_rows(value);
    if (out.sink == SinkKind::k_rows) store_rows(k_[static_cast<size_t>(out.layer)], value);
    if (out.sink == SinkKind::v_rows) store_rows(v_[static_cast<size_t>(out.layer)], value);
    if (out.sink == SinkKind::recurrent_state) states_[static_cast<size_t>(out.layer)] = value;
    if (out.sink == SinkKind::history_rows) {
      std::vector<float>& history = history_[static_cast<size_t>(out.layer)];
      const std::vector<float> rows = to_rows(value);
      history.insert(history.end(), rows.begin(), rows.end());
      history.erase(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(rows.size()));
    }
    if (out.sink != SinkKind::logits) return;
    std::vector<float> rows = to_rows(value);
    for (int64_t t = 0; t < tokens_; ++t)
      for (int64_t c = 0; c < decl.vocab_size; ++c)
        logits_[static_cast<size_t>(t * plan_.model.logits() + decl.vocab_begin + c)] =
            rows[static_cast<size_t>(t * decl.vocab_size + c)];
  }

  // Token tensors in layout channels, [1, C, T, 1], are transposed rows [T, C].
  static std::vector<float> transposed(const std::vector<float>& from, int64_t rows,
                                       int64_t columns) {
    std::vector<float> to(from.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
    return to;
  }
  static Tensor from_rows(const std::vector<float>& rows, const Type& type) {
    if (type.layout == Layout::rows) return {type, rows};
    return {type, transposed(rows, tokens_of(type), channels_of(type))};
  }
  std::vector<float> to_rows(const Tensor& value) const {
    if (value.type.layout == Layout::rows) return value.data;
    return transposed(value.data, channels_of(value.type), tokens_);
  }

  Tensor rope_rows(const std::vector<float>& table, const Type& type) const {
    auto begin = table.begin() + position_ * type.dims[1];
    return {type, {begin, begin + tokens_ * type.dims[1]}};
  }

  Tensor query_scales(const Type& type) const {
    Tensor scales{type, {}};
    for (int64_t t = 0; t < tokens_; ++t)
      scales.data.push_back(
          static_cast<float>(query_scale(*plan_.model.attention.temperature, position_ + t)));
    return scales;
  }

  bool visible(int64_t query, int64_t key, const InputBinding& in) const {
    return key >= 0 && key <= query + in.ahead && (in.window == 0 || key > query - in.window) &&
           (in.chunk == 0 || key / in.chunk == query / in.chunk);
  }
  Tensor attention_mask(const Type& type, const InputBinding& in) const {
    const int64_t keys = type.dims[3], context = plan_.build.context;
    Tensor mask{type, {}};
    for (int64_t t = 0; t < tokens_; ++t)
      for (int64_t j = 0; j < keys; ++j) {
        // In the append form, the cache rows are the earlier positions, and the new rows follow.
        bool append = plan_.build.cache == CacheForm::append;
        bool filled = !append || j >= context || j < position_;
        int64_t key = append && j >= context ? position_ + j - context : j;
        if (plan_.build.cache == CacheForm::none) key = position_ + j;
        bool see = filled && visible(position_ + t, key, in);
        mask.data.push_back(see ? 0 : static_cast<float>(masked_score(type.dtype)));
      }
    return mask;
  }
  Tensor write_mask(const Type& type) const {
    Tensor mask{type, std::vector<float>(static_cast<size_t>(type.elements()), 0)};
    for (int64_t t = 0; t < tokens_; ++t)
      mask.data[static_cast<size_t>((position_ + t) * tokens_ + t)] = 1;
    return mask;
  }
  void store_rows(Tensor& cache, const Tensor& rows) const {
    const int64_t heads = cache.type.dims[1], rows_held = cache.type.dims[2],
                  h = cache.type.dims[3];
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < tokens_ * h; ++i)
        cache.data[static_cast<size_t>((head * rows_held + position_) * h + i)] =
            rows.data[static_cast<size_t>(head * tokens_ * h + i)];
  }

  const Plan& plan_;
  const WeightReader& weights_;
  std::vector<RopeTable> ropes_;             // per rotation
  std::vector<Tensor> k_, v_, states_;       // per layer
  std::vector<std::vector<float>> history_;  // per layer, the newest row last
  std::map<std::string, std::vector<float>> edges_;
  std::vector<float> logits_;
  int64_t tokens_ = 0, position_ = 0;
};

}  // namespace moec
