#include "backends/files/spawn_program.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX's name

namespace moec {
namespace {

// The convention of shells for the exit status of a program that a signal ended.
constexpr int kSignalled = 128;

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }

  void send_output_to_errors() {
    // The standard output of this process can be a result that another program reads.
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

int wait_for(pid_t process) {
  int state = 0;
  // A signal handler without SA_RESTART interrupts the wait, although the child still runs.
  while (waitpid(process, &state, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(state) ? WEXITSTATUS(state) : kSignalled + WTERMSIG(state);
}

}  // namespace

Result<int> run_program(const std::string& program, const std::vector<std::string>& arguments,
                        bool quiet) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  SpawnActions actions;
  if (quiet) actions.send_output_to_errors();
  pid_t process = 0;
  const int failed =
      posix_spawnp(&process, program.c_str(), actions.get(), nullptr, argv.data(), environ);
  if (failed != 0)
    return fail("program.start", fmt::format("cannot start {}: {}", program, std::strerror(failed)),
                "pass the path of an executable program");
  return wait_for(process);
}

std::string path_of_this_program() {
  std::error_code error;
  // argv[0] can be relative or a link; /proc/self/exe is a link to the running file.
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

}  // namespace moec
