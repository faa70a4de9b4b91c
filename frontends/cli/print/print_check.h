// What `moec check` prints for people.
#pragma once

#include "frontends/jobs/check/check_folder.h"
#include "frontends/jobs/check/check_split.h"

namespace moec {

// A table of the shards, the rules that they break with the number of files and ops, and of the
// findings of each rule the first. `with_ops` lists all of them, and each op that is predicted to
// run on another unit than the target's, with the rule that says so.
void print_check(const CheckReport& report, bool with_ops);
// The same of each node, and what was found of all together.
void print_check(const SplitCheck& split, bool with_ops);
}  // namespace moec
