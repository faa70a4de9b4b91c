// How far the outputs of a shard's experts are from the reference's on the same inputs.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "backends/reference/rows.h"
#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/compare_report.h"

namespace moec {

// Outputs of experts in one step, by layer and expert, where the graph names them: an expert of its
// own, not one of a bank. They are multiplied by their routing weights and have no bias.
class ExpertOutputs {
 public:
  // Adds what a step computes for `count` tokens. It refers to this object.
  StepProbe probe(int64_t count);

  const std::map<ExpertId, Rows>& outputs() const { return outputs_; }
  void clear() { outputs_.clear(); }

 private:
  std::map<ExpertId, Rows> outputs_;
};

class ExpertErrors {
 public:
  // Adds the tokens that chose the expert in the reference: those for which its output is not zero
  // there. Experts that only one of the two names are left out.
  void add(const ExpertOutputs& compared, const ExpertOutputs& reference);
  // By layer, then by expert; also experts that no token chose.
  std::vector<ComparedExpert> result() const;

 private:
  struct Sum {
    uint64_t tokens = 0;
    Comparer values;
  };

  std::map<ExpertId, Sum> experts_;
};

}  // namespace moec
