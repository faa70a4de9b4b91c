// A program that answers messages as long as this process runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// A message, on the program's standard input and output alike, is the number of its bytes in
// decimal digits, a line end, and the bytes.
class ChildProgram {
 public:
  // Starts a program, which is looked for in PATH if it is a name. Error program.start.
  static Result<ChildProgram> start(const std::string& program,
                                    const std::vector<std::string>& arguments);
  // Ends its input, and waits for it.
  ~ChildProgram();
  ChildProgram(ChildProgram&& other) noexcept;
  ChildProgram& operator=(ChildProgram&&) = delete;
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // Sends a message and waits for the answer. Error program.ended: the program has ended, or its
  // answer is no message of at most 256 MiB.
  Result<std::string> ask(std::string_view message);

 private:
  ChildProgram(pid_t process, int socket) : process_(process), socket_(socket) {}

  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace moec
