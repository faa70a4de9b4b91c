#include "frontends/jobs/compare/shards_alone.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/runtime/session/step_inputs.h"
#include "frontends/measure/value_labels.h"

namespace moec {
namespace {

// Returns the expert whose output the label names, if any.
std::optional<ExpertId> expert_of(const manifest::Shard& shard, std::string_view label) {
  const auto inside = layer_label(shard, label);
  const auto expert = inside ? expert_label(inside->name) : std::nullopt;
  if (!expert || expert->name != "out") return std::nullopt;
  return ExpertId{inside->layer, expert->expert};
}

bool all_zero(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float v) { return v == 0; });
}

// True if both shards have the same layers, experts and slice of the vocabulary.
bool same_part(const manifest::Shard& a, const manifest::Shard& b) {
  return a.kind == b.kind && a.layer == b.layer && a.layers == b.layers && a.slice == b.slice &&
         a.slices == b.slices && a.first_expert == b.first_expert && a.experts == b.experts &&
         a.expert_ids == b.expert_ids && a.vocab_begin == b.vocab_begin &&
         a.vocab_size == b.vocab_size;
}

bool same_steps(const Manifest& a, const Manifest& b) {
  if (a.schedule != b.schedule || a.caches.size() != b.caches.size()) return false;
  for (const manifest::Step& step : a.schedule)
    if (!same_part(*a.find_shard(step.shard), *b.find_shard(step.shard))) return false;
  // A layer's state must have the same sizes in both sessions; element types may differ.
  for (const manifest::Cache& cache : a.caches) {
    const manifest::Cache* other = b.find_cache(cache.layer);
    if (!other) return false;
    manifest::Cache same = *other;
    same.dtype = cache.dtype;
    if (same != cache) return false;
  }
  return true;
}

StepProbe both(StepProbe first, StepProbe second) {
  return [first = std::move(first), second = std::move(second)](
             const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    if (first) first(shard, label, value);
    second(shard, label, value);
  };
}

StepProbe record_into(std::map<std::string, Tensor, std::less<>>& values) {
  return [&values](const manifest::Shard&, std::string_view label, const Tensor& value) {
    values.insert_or_assign(std::string(label), value);
  };
}

// True if the label is a number or ends with one, as those of values without a name: "12" in ONNX
// files, "add_12" in TFLite files. Equal numbers do not mean equal values.
bool is_numbered(std::string_view label) {
  const size_t last = label.find_last_not_of("0123456789");
  if (last == std::string_view::npos) return true;
  return last + 1 < label.size() && label[last] == '_' && label.find('.') == std::string_view::npos;
}

// Returns the value as a row per token, if its shape is that of a token layout.
std::optional<std::vector<float>> by_token(const Tensor& value, int64_t tokens) {
  for (const Layout layout : {Layout::rows, Layout::channels, Layout::bc1s}) {
    const Type type{value.type.dtype, value.type.dims, layout};
    if (fits_layout(type.dims, layout) && tokens_of(type) == tokens)
      return unpack_rows({type, value.data, {}}, tokens).data;
  }
  return std::nullopt;
}

}  // namespace

StepProbe ExpertOutputs::probe(int64_t count) {
  return [this, count](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    // unpack_rows() drops the padding after `count` tokens.
    if (const auto key = expert_of(shard, label)) outputs_[*key] = unpack_rows(value, count);
  };
}

void ExpertErrors::add(const ExpertOutputs& compared, const ExpertOutputs& reference) {
  for (const auto& [key, wanted] : reference.outputs()) {
    const auto found = compared.outputs().find(key);
    if (found == compared.outputs().end()) continue;
    Sum& sum = experts_[key];
    for (int64_t t = 0; t < wanted.count(); ++t) {
      if (all_zero(wanted.row(t))) continue;
      sum.values.add(found->second.row(t), wanted.row(t));
      ++sum.tokens;
    }
  }
}

std::vector<ComparedExpert> ExpertErrors::result() const {
  std::vector<ComparedExpert> experts;
  for (const auto& [key, sum] : experts_) experts.push_back({key, sum.tokens, sum.values.result()});
  return experts;
}

ShardsAlone::ShardsAlone(Session& reference, Session& compared, bool inside)
    : reference_(reference), compared_(compared), inside_(inside) {
  possible_ = same_steps(reference.manifest(), compared.manifest());
  if (!possible_) return;
  // `watched_` follows the schedule, so that run_step() can index it by step.
  for (const manifest::Step& step : reference.manifest().schedule)
    watched_.push_back({reference.manifest().find_shard(step.shard), {}, {}});
}

Result<Rows> ShardsAlone::pass(std::span<const int64_t> tokens, int64_t position,
                               const StepProbe& probe) {
  MOEC_ASSIGN(Chunk reference, reference_.begin_chunk(tokens, position));
  MOEC_ASSIGN(Chunk compared, compared_.begin_chunk(tokens, position));
  // Both exports start from the reference's embeddings, so the first shard gets equal inputs.
  compared.edges = reference.edges;
  for (size_t step = 0; step < watched_.size(); ++step)
    MOEC_TRY(run_step(step, reference, compared, probe));
  return std::move(reference.logits);
}

// Replaces the step's results with the reference's, so that errors do not propagate to the next
// shard.
Status ShardsAlone::run_step(size_t step, Chunk& reference, Chunk& compared,
                             const StepProbe& probe) {
  ExpertOutputs wanted, found;
  LabeledValues wanted_values, found_values;
  const auto recorded = [&](StepProbe first, LabeledValues& values) {
    return inside_ ? both(std::move(first), record_into(values)) : first;
  };
  MOEC_TRY(reference_.run_step(
      step, reference, recorded(both(probe, wanted.probe(reference.count)), wanted_values)));
  MOEC_TRY(compared_.run_step(step, compared, recorded(found.probe(compared.count), found_values)));
  experts_.add(found, wanted);
  Watched& watched = watched_[step];
  if (inside_) compare_inside(*watched.shard, compared, found_values, wanted_values);
  bool logits = false;
  for (const OutputBinding& output : reference_.manifest().schedule[step].outputs) {
    logits |= output.sink == SinkKind::logits;
    // Edges carry hidden states. Logits and caches have other sinks and are compared below.
    if (output.sink != SinkKind::edge) continue;
    const Rows& wanted = reference.edges.at(output.edge);
    Rows& edge = compared.edges.at(output.edge);
    watched.output.add(edge.data, wanted.data, wanted.columns);
    edge = wanted;
  }
  if (logits) compare_logits(watched, reference, compared);
  compare_cache(watched, reference, compared);
  return {};
}

void ShardsAlone::compare_inside(const manifest::Shard& shard, const Chunk& compared,
                                 const LabeledValues& found, const LabeledValues& wanted) {
  const Manifest& manifest = compared_.manifest();
  // Rows after the last token have undefined values.
  if (compared.count != manifest.build.tokens[compared.width]) return;
  const manifest::Width& width = compared_.width_of(*manifest.find_shard(shard.name), compared);
  for (const auto& [label, value] : wanted) {
    const auto same = found.find(label);
    if (same == found.end() || is_numbered(label)) continue;
    if (same->second.type.dims == value.type.dims) {
      errors_.add(width, label, same->second.data, value.data);
      continue;
    }
    // The form of the weights decides the layout of tokens, so it can differ.
    const auto x = by_token(same->second, compared.count), y = by_token(value, compared.count);
    if (x && y && x->size() == y->size()) errors_.add(width, label, *x, *y);
  }
}

void ShardsAlone::compare_logits(Watched& watched, const Chunk& reference, const Chunk& compared) {
  const auto begin = static_cast<size_t>(watched.shard->vocab_begin);
  // A shard of the head writes only its slice of the vocabulary; the rest of the row is not yet
  // valid.
  const auto size = static_cast<size_t>(watched.shard->vocab_size);
  for (int64_t t = 0; t < reference.count; ++t)
    watched.output.add(compared.logits.row(t).subspan(begin, size),
                       reference.logits.row(t).subspan(begin, size), watched.shard->vocab_size);
}

// Compares the new cache rows of the layers that the step has changed: keys and values per head,
// and history.
void ShardsAlone::compare_cache(Watched& watched, Chunk& reference, Chunk& compared) {
  for (const auto& [layer, rows] : reference.new_rows) {
    // at(): same_steps() guarantees that both sessions write the same layers.
    const NewRows& other = compared.new_rows.at(layer);
    const manifest::Cache& cache = *reference_.manifest().find_cache(layer);
    // Layers with a recurrent state have no keys and values.
    if (cache.kv_heads > 0) {
      watched.cache.add(other.k, rows.k, cache.head_dim);
      watched.cache.add(other.v, rows.v, cache.value_dim);
    }
    watched.cache.add(other.history.data, rows.history.data, rows.history.columns);
    // The compared cache continues with the reference's rows, so cache errors do not accumulate.
    compared_.cache(layer) = reference_.cache(layer);
  }
  // new_rows would otherwise be compared again at the next step.
  reference.new_rows.clear();
  compared.new_rows.clear();
}

std::vector<ComparedShard> ShardsAlone::result() const {
  std::vector<ComparedShard> shards;
  for (const Watched& watched : watched_) {
    ComparedShard shard{watched.shard->name, watched.output.result(), {}};
    if (const ValueComparison cache = watched.cache.result(); cache.all.elements > 0)
      shard.cache = cache;
    shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace moec
