// Runs the shards of an export and compares their outputs with a golden.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/validate/router_watch.h"
#include "frontends/jobs/validate/thresholds.h"
#include "frontends/jobs/validate/validation_report.h"
#include "frontends/measure/golden.h"

namespace moec {

// Receives the runs of shards since its previous call, their total, and the last shard. May be
// empty.
using ValidationProgress =
    std::function<void(uint64_t runs, uint64_t total, const std::string& shard)>;

class Validator {
 public:
  // `thresholds` has one entry per step of the schedule.
  Validator(Session& session, const Golden& golden, const std::vector<Thresholds>& thresholds,
            const ValidationProgress& progress = {});

  // Runs each shard on golden inputs: after comparing a step's output, replaces it with the golden
  // one, so that errors do not propagate to the next shard.
  Status alone() { return run(true); }
  Status chained() { return run(false); }
  Status greedy();
  ValidationReport report(Precision precision) const;

 private:
  // A step of the schedule, with the golden tensor of its output and its running comparisons.
  struct Watched {
    const manifest::Shard* shard = nullptr;
    const manifest::Step* step = nullptr;
    Thresholds thresholds;
    std::string edge;          // edge of the compared output; empty for logits
    std::string router_state;  // edge of the router's state; empty: none
    std::string golden;        // golden tensor name without layer; empty for a partial sum
    Comparer alone, cache, chained;
    RouterComparer router;
  };

  uint64_t shard_runs() const;
  void advance(uint64_t runs, const std::string& shard) const;
  Status run(bool substitute);
  Status run_chunk(const GoldenStep& step, int64_t begin, std::span<const int64_t> tokens,
                   bool substitute);
  Status compare_inside(Watched& watched, const RouterWatch& router, const GoldenStep& step,
                        int64_t begin, const Chunk& chunk);
  Status add_routing(const Watched& watched, const RouterWatch& router, const GoldenStep& step,
                     int64_t begin, const Chunk& chunk);
  Status compare_cache(Watched& watched, int64_t layer, const NewRows& new_rows,
                       const Chunk& chunk);
  Status compare_output(Watched& watched, const GoldenStep& step, int64_t begin, Chunk& chunk,
                        bool substitute);
  Status compare_logits(const GoldenStep& step, int64_t begin, const Chunk& chunk);
  Status compare_history(Watched& watched, int64_t layer, const Rows& rows, const Chunk& chunk);
  void compare_edge(Watched& watched, const std::string& name, Rows golden, Chunk& chunk,
                    bool substitute);
  void add_inside(const Watched& watched, const std::string& port, const Chunk& chunk,
                  std::span<const float> found, std::span<const float> wanted);
  Result<Rows> golden_rows(const Watched& watched, const GoldenStep& step) const;
  Status fill_caches(int64_t rows);
  Status fill_history(const manifest::Cache& description, int64_t rows);
  static bool passes(const ShardReport& shard);
  ShardReport shard_report(const Watched& watched) const;

  const Manifest& manifest() const { return session_.manifest(); }

  Session& session_;
  const Golden& golden_;
  ValidationProgress progress_;
  uint64_t runs_ = 0;             // of shards, in all parts of the validation
  std::vector<Watched> watched_;  // one per step of the schedule
  LogitComparer logits_;
  ValueErrors inside_;
  size_t greedy_equal_ = 0;
};

}  // namespace moec
