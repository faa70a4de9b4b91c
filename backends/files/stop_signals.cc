#include "backends/files/stop_signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace moec {
namespace {

constexpr std::array kSignals = {SIGHUP, SIGINT, SIGTERM};

// Global, because a signal handler has no other way to reach state.
std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free,
              "a signal handler may use only lock-free atomics");

// Sets the handler of each signal that is not ignored: a program started by nohup must keep
// ignoring SIGHUP. SA_RESTART keeps pending reads and writes from failing with EINTR.
void handle_with(void (*handler)(int)) {
  for (const int signal : kSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

void note_signal(int signal) {
  caught_signal = signal;
  // A second signal gets the default action, so that a user can end a program that does not stop.
  // sigaction() is async-signal-safe.
  handle_with(SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  caught_signal = 0;
  handle_with(note_signal);
}

StopSignals::~StopSignals() { handle_with(SIG_DFL); }

int StopSignals::caught() { return caught_signal; }

}  // namespace moec
