// Compares the shards of two exports one by one, each on the inputs of the reference's shard.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/reference/rows.h"
#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/compare_report.h"
#include "frontends/measure/value_errors.h"

namespace moec {

// Outputs of experts in one step, by layer and expert. Only separately computed experts have named
// outputs; experts of a bank do not. Outputs are multiplied by routing weights and have no bias.
class ExpertOutputs {
 public:
  // Returns a probe that adds a step's outputs for `count` tokens. The probe refers to this object.
  StepProbe probe(int64_t count);

  const std::map<ExpertId, Rows>& outputs() const { return outputs_; }
  void clear() { outputs_.clear(); }

 private:
  std::map<ExpertId, Rows> outputs_;
};

class ExpertErrors {
 public:
  // Adds, per expert, the tokens that picked it in the reference, which are the tokens with a
  // nonzero reference output. Skips experts that only one of the two graphs names.
  void add(const ExpertOutputs& compared, const ExpertOutputs& reference);
  // By layer, then by expert; includes experts that no token picked.
  std::vector<ComparedExpert> result() const;

 private:
  struct Sum {
    uint64_t tokens = 0;
    Comparer values;
  };

  std::map<ExpertId, Sum> experts_;
};

class ShardsAlone {
 public:
  // Both sessions must outlive the object. `inside`: also compares the values inside shards.
  ShardsAlone(Session& reference, Session& compared, bool inside);

  // True if both exports have the same shards with the same edges.
  bool possible() const { return possible_; }

  // Runs tokens through the reference and, after each step, runs the same step of the compared
  // export on the same inputs. Returns the logits of the reference. Both sessions must contain the
  // caches of the preceding tokens. `probe` receives the values of the reference. Errors: those of
  // Session.
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe);

  // In schedule order; empty if possible() is false.
  std::vector<ComparedShard> result() const;
  std::vector<ComparedExpert> experts() const { return experts_.result(); }
  // Values that both graphs name, of chunks that fill their graphs. Skips numbered values.
  const ValueErrors& inside() const { return errors_; }

 private:
  // Values inside a shard, by label.
  using LabeledValues = std::map<std::string, Tensor, std::less<>>;

  struct Watched {
    const manifest::Shard* shard = nullptr;
    ValueComparer output, cache;
  };

  Status run_step(size_t step, Chunk& reference, Chunk& compared, const StepProbe& probe);
  void compare_inside(const manifest::Shard& shard, const Chunk& compared,
                      const LabeledValues& found, const LabeledValues& wanted);
  void compare_logits(Watched& watched, const Chunk& reference, const Chunk& compared);
  void compare_cache(Watched& watched, Chunk& reference, Chunk& compared);

  Session& reference_;
  Session& compared_;
  bool inside_ = false, possible_ = false;
  std::vector<Watched> watched_;  // one per step
  ExpertErrors experts_;
  ValueErrors errors_;
};

}  // namespace moec
