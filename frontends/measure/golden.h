// Golden results of the reference implementation (PyTorch with transformers) for one checkpoint,
// written by scripts/make_golden.py.
//
//   golden.json         the model, the steps, package versions, and greedy text
//   golden.safetensors  tensors named <step>.<what>, and the final caches L00.k_cache, L00.v_cache;
//                       with latent attention, these contain the latent, and L00.k_heads and
//                       L00.v_heads contain the keys and values of each head
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "backends/weights/views/weight_reader.h"

namespace moec {

// A call of the reference model with `tokens`, the first at `position`.
struct GoldenStep {
  std::string name;
  int64_t position = 0;  // number of tokens in all earlier steps
  std::vector<int64_t> tokens;
};

struct GreedyText {
  std::vector<int64_t> prompt, tokens;
};

// Keys or values of a layer at all positions, [kv_heads, positions, dims].
struct GoldenCache {
  int64_t positions = 0, dims = 0;
  std::vector<float> data;

  // Rows [count, dims] of a head, from position `begin`.
  std::span<const float> rows(int64_t head, int64_t begin, int64_t count) const {
    return std::span(data).subspan(static_cast<size_t>((head * positions + begin) * dims),
                                   static_cast<size_t>(count * dims));
  }
};

class Golden {
 public:
  // Errors: golden.unreadable, golden.malformed, those of the safetensors reader.
  static Result<Golden> open(const std::string& folder);

  const std::string& config_digest() const { return config_digest_; }
  // Returns the number of experts per token in the syntax of parse_top_k_variants(); empty: that of
  // the checkpoint.
  const std::string& top_k() const { return top_k_; }
  const std::string& folder() const { return folder_; }
  const std::vector<GoldenStep>& steps() const { return steps_; }
  const std::optional<GreedyText>& greedy() const { return greedy_; }

  bool has(const std::string& tensor) const;
  // Returns a tensor [rows, columns] as rows. Error: golden.missing.
  Result<Rows> rows(const std::string& tensor) const;
  // Returns the keys or values of the cache after the last step. Error: golden.missing (no tensor
  // has the heads and dims of the cache).
  Result<GoldenCache> cache(const manifest::Cache& cache, bool keys) const;
  // Returns the routing weights [T, E] of a layer; 0 for experts that were not chosen. Omits null
  // slots, which a router can choose instead of an expert.
  Result<Rows> routing_weights(const std::string& step, int64_t layer, int64_t experts) const;

  static std::string name(const std::string& step, int64_t layer, const std::string& what);

 private:
  std::string folder_, config_digest_, top_k_;
  std::vector<GoldenStep> steps_;
  int64_t positions_ = 0;  // tokens in all steps
  std::optional<GreedyText> greedy_;
  std::shared_ptr<WeightReader> reader_;
};

}  // namespace moec
