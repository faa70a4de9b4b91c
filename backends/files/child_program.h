// Runs a child process that answers requests over its standard streams.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Framing in both directions: the length in bytes as decimal digits, a newline, the bytes.
class ChildProgram {
 public:
  // Starts a program; a name without a slash is looked up in PATH. Error: program.start.
  static Result<ChildProgram> start(const std::string& program,
                                    const std::vector<std::string>& arguments);
  // Closes the streams and waits for the process to exit.
  ~ChildProgram();
  ChildProgram(ChildProgram&& other) noexcept;
  ChildProgram& operator=(ChildProgram&&) = delete;
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // Sends a request and returns the response. Not thread-safe. Error: program.ended (the process
  // has exited, or the response is malformed or above 256 MiB).
  Result<std::string> ask(std::string_view message);

 private:
  ChildProgram(pid_t process, int socket) : process_(process), socket_(socket) {}

  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace moec
