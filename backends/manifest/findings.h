// Collects the findings of the checks in this folder.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "ir/base/diagnostics.h"

namespace moec::manifest {

class Findings {
 public:
  // `shard` may be empty. `code` is the full code, such as "manifest.name".
  template <class... Args>
  void add(const char* code, const std::string& shard, fmt::format_string<Args...> cause,
           Args&&... args) {
    list_.push_back({.code = code,
                     .cause = fmt::format(cause, std::forward<Args>(args)...),
                     .next_step = "export the model again",
                     .place = {.shard = shard}});
  }
  // Adds the finding if `holds` is false. Returns `holds`.
  template <class... Args>
  bool require(bool holds, const char* code, const std::string& shard,
               fmt::format_string<Args...> cause, Args&&... args) {
    if (!holds) add(code, shard, cause, std::forward<Args>(args)...);
    return holds;
  }
  bool empty() const { return list_.empty(); }
  Diagnostics take() { return std::move(list_); }

 private:
  Diagnostics list_;
};

}  // namespace moec::manifest
