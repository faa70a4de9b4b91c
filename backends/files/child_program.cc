#include "backends/files/child_program.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "ir/base/parse_number.h"

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX's name

namespace moec {
namespace {

// Bounds the search for the newline if the output is not a message.
constexpr size_t kMaxDigits = 12;
// Bounds the memory that a malformed message can request.
constexpr size_t kMaxBytes = size_t{256} << 20;

tl::unexpected<Diagnostics> ended() {
  return fail("program.ended", "the child process has exited",
              "check its messages on standard error");
}

// Uses a socket instead of a pipe, because MSG_NOSIGNAL avoids SIGPIPE if the process has exited.
bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool receive_all(int socket, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

// Reads the length prefix of a message; nullopt if it is malformed.
std::optional<size_t> receive_size(int socket) {
  std::string digits;
  // Byte by byte, because a larger read could consume bytes of the message itself.
  for (char c = 0; digits.size() <= kMaxDigits; digits += c) {
    if (!receive_all(socket, std::span(&c, 1))) return std::nullopt;
    if (c == '\n') return parse_number<size_t>(digits);
  }
  return std::nullopt;
}

}  // namespace

Result<ChildProgram> ChildProgram::start(const std::string& program,
                                         const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  const auto failed = [&](int error) {
    return fail("program.start", fmt::format("cannot start {}: {}", program, std::strerror(error)),
                "pass the path of an executable program");
  };
  // SOCK_CLOEXEC keeps both ends out of other children, which would otherwise hold the connection
  // open. The dup2 actions clear the flag on the copies for this child.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return failed(errno);
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  // recv() reports the child's exit only if this process holds no copy of the child's socket.
  ::close(ends[1]);
  if (error == 0) return ChildProgram(process, ends[0]);
  ::close(ends[0]);
  return failed(error);
}

ChildProgram::ChildProgram(ChildProgram&& other) noexcept
    : process_(std::exchange(other.process_, -1)), socket_(std::exchange(other.socket_, -1)) {}

ChildProgram::~ChildProgram() {
  if (process_ < 0) return;
  // Closed before the wait: the end of the input is the child's signal to exit.
  ::close(socket_);
  int state = 0;
  while (waitpid(process_, &state, 0) < 0 && errno == EINTR) {
  }
}

Result<std::string> ChildProgram::ask(std::string_view message) {
  if (!send_all(socket_, fmt::format("{}\n", message.size())) || !send_all(socket_, message))
    return ended();
  const auto size = receive_size(socket_);
  if (!size || *size > kMaxBytes) return ended();
  std::string answer(*size, '\0');
  if (!receive_all(socket_, answer)) return ended();
  return answer;
}

}  // namespace moec
