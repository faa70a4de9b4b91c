// The arguments of an ML Program operation. Each one must be asked for, so that an argument that
// the reader does not know is an error and is not ignored. Arguments that have defaults must be
// stated, too.
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

// How findings name an operation: its first output, or its type where it has none.
std::string operation_label(const mlmodel::Operation& operation);

class Arguments {
 public:
  Arguments(const mlmodel::Operation& operation, const Consts& consts)
      : operation_(operation), consts_(consts) {}

  bool has(const std::string& name) const;
  // Marks an argument that is read elsewhere.
  void expect(std::string name) { known_.insert(std::move(name)); }

  // Names of values. Error of these and of all below: coreml.argument.
  Result<std::string> operand(const std::string& name);
  Result<std::vector<std::string>> operands(const std::string& name);

  // The value of a const operation, or of the argument itself.
  Result<int64_t> integer(const std::string& name);
  Result<std::vector<int64_t>> integers(const std::string& name);
  Result<bool> boolean(const std::string& name);
  Result<std::string> text(const std::string& name);
  Result<double> number(const std::string& name);

  // The argument must have this value.
  Status must_be(const std::string& name, bool value);
  Status must_be(const std::string& name, const std::string& value);
  Status must_be(const std::string& name, double value);
  Status must_all_be(const std::string& name, int64_t value);

  // Call after all have been asked for: fails when there is another one.
  Status finish() const;

 private:
  // The argument's bindings; an error when it is absent.
  Result<const mlmodel::Argument*> find(const std::string& name);
  Result<const mlmodel::Value*> constant(const std::string& name);
  tl::unexpected<Diagnostics> wrong(const std::string& name, std::string_view what) const;

  const mlmodel::Operation& operation_;
  const Consts& consts_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace moec
