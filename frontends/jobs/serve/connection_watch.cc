#include "frontends/jobs/serve/connection_watch.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace moec {
namespace {

// Whether the descriptor is a socket whose peer has this address and port, in numbers.
bool is_peer(int descriptor, const std::string& address, const std::string& port) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  auto* generic = reinterpret_cast<sockaddr*>(&peer);
  if (::getpeername(descriptor, generic, &size) != 0) return false;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  return ::getnameinfo(generic, size, host.data(), host.size(), service.data(), service.size(),
                       NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
         address == host.data() && port == service.data();
}

}  // namespace

ConnectionWatch::ConnectionWatch(const std::string& address, int port) {
  constexpr long kMost = 1 << 16;
  const long limit = std::min(::sysconf(_SC_OPEN_MAX), kMost);
  for (int descriptor = 0; descriptor < limit && descriptor_ < 0; ++descriptor)
    if (is_peer(descriptor, address, std::to_string(port))) descriptor_ = descriptor;
}

// A closed connection reads as its end; one that is open has nothing to read, or the next request.
bool ConnectionWatch::closed() const {
  if (descriptor_ < 0) return false;
  char next = 0;
  return ::recv(descriptor_, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace moec
