// Runs the shards of an export on the inputs that the same shards of a reference have.
#pragma once

#include <span>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/compare_report.h"
#include "frontends/jobs/compare/expert_errors.h"

namespace moec {

class ShardsAlone {
 public:
  // Both sessions must outlive it.
  ShardsAlone(Session& reference, Session& compared);

  // Whether both have the same shards, with the same values between them.
  bool possible() const { return possible_; }

  // Runs tokens through the reference, and behind each of its steps the same step of the compared
  // export on the same inputs; gives the logits of the reference. Both sessions must hold the
  // caches of the tokens before. `probe` sees the values of the reference. Errors: those of
  // Session.
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe);

  // In schedule order; empty where it is not possible.
  std::vector<ComparedShard> result() const;
  std::vector<ComparedExpert> experts() const { return experts_.result(); }

 private:
  struct Watched {
    const manifest::Shard* shard = nullptr;
    ValueComparer output, cache;
  };

  Status run_step(size_t step, Chunk& reference, Chunk& compared, const StepProbe& probe);
  void compare_logits(Watched& watched, const Chunk& reference, const Chunk& compared);
  void compare_cache(Watched& watched, Chunk& reference, Chunk& compared);

  Session& reference_;
  Session& compared_;
  bool possible_ = false;
  std::vector<Watched> watched_;  // by step
  ExpertErrors experts_;
};

}  // namespace moec
