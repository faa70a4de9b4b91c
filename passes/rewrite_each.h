// The common loop of passes that replace each op of one kind.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/graph/rewriter.h"

namespace moec {

// Copies the shard; for each op of kind OpT, lower(builder, op, operands) returns the values that
// replace the op's results. New names get the scope `scope(rewriter, id)`. Results keep their old
// names, which users and goldens rely on. A shard without such ops changes only its form.
template <class OpT, class Scope, class Lower>
Shard rewrite_each(const Shard& shard, Form form, Scope&& scope, Lower&& lower) {
  const auto is_target = [](const Op& op) { return std::holds_alternative<OpT>(op.data); };
  if (std::none_of(shard.ops.begin(), shard.ops.end(), is_target)) {
    Shard same = shard;
    same.form = form;
    return same;
  }
  Rewriter rewriter(shard);
  rewriter.build().set_form(form);
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    const auto* data = std::get_if<OpT>(&op.data);
    if (!data) {
      rewriter.copy(id);
      continue;
    }
    std::vector<ValueId> results;
    const size_t known = rewriter.build().shard().values.size();
    {
      Builder::NameScope names(rewriter.build(), scope(rewriter, id));
      results = lower(rewriter.build(), *data, rewriter(op.operands));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = shard.values[op.results[i]].name;
      if (!name.empty() && results[i].index >= known) rewriter.build().rename(results[i], name);
    }
    rewriter.replace(id, std::move(results));
  }
  return rewriter.finish();
}

// Uses the op's name as the scope.
inline std::string own_scope(const Rewriter& rewriter, OpId id) { return rewriter.scope_name(id); }
// Uses no scope.
inline std::string no_scope(const Rewriter&, OpId) { return {}; }
// The op's name without its last component: "L03" for "L03.attention", empty for "attention".
inline std::string outer_scope(const Rewriter& rewriter, OpId id) {
  const std::string name = rewriter.scope_name(id);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

}  // namespace moec
