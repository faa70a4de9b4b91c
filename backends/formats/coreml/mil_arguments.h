// Reads the arguments of an ML Program operation. finish() fails on arguments that were not
// requested, so that unknown arguments are rejected instead of ignored. Arguments with defaults
// must be present, too.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

namespace mlmodel {
class Argument;
class Operation;
class Value;
}  // namespace mlmodel

// The values of the `const` operations of a block, by name.
using Consts = std::map<std::string, const mlmodel::Value*, std::less<>>;

// Returns the name of an operation in diagnostics: its first output, or its type if it has no
// output.
std::string operation_label(const mlmodel::Operation& operation);

class Arguments {
 public:
  Arguments(const mlmodel::Operation& operation, const Consts& consts)
      : operation_(operation), consts_(consts) {}

  bool has(const std::string& name) const;
  // Marks an argument as known, because other code reads it.
  void expect(std::string name) { known_.insert(std::move(name)); }

  // Return names of values. These functions and all below fail with coreml.argument.
  Result<std::string> operand(const std::string& name);
  Result<std::vector<std::string>> operands(const std::string& name);

  // Return the value of the const operation that the argument names, or the argument's immediate
  // value.
  Result<int64_t> integer(const std::string& name);
  Result<std::vector<int64_t>> integers(const std::string& name);
  Result<bool> boolean(const std::string& name);
  Result<std::string> text(const std::string& name);
  Result<double> number(const std::string& name);

  // Fail unless the argument has this value.
  Status must_be(const std::string& name, bool value);
  Status must_be(const std::string& name, const std::string& value);
  Status must_be(const std::string& name, double value);
  Status must_all_be(const std::string& name, int64_t value);

  // Fails if the operation has an argument that was not requested. Call it last.
  Status finish() const;

 private:
  // Returns the argument's bindings, or an error if the argument is absent.
  Result<const mlmodel::Argument*> find(const std::string& name);
  Result<const mlmodel::Value*> constant(const std::string& name);
  tl::unexpected<Diagnostics> wrong(const std::string& name, std::string_view what) const;

  const mlmodel::Operation& operation_;
  const Consts& consts_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace moec
