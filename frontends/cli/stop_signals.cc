#include "frontends/cli/stop_signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace moec {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "signal handlers may use nothing else");

void restore_defaults() {
  for (const int signal : kSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
}

void note_signal(int signal) {
  caught_signal = signal;
  restore_defaults();
}

}  // namespace

// SA_RESTART: reads and writes under way are not to fail for this.
StopSignals::StopSignals() {
  caught_signal = 0;
  for (const int signal : kSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() { restore_defaults(); }

int StopSignals::caught() { return caught_signal; }

}  // namespace moec
