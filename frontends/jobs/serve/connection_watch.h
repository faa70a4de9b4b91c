// Tells whether the client of a request is still there, while the request is worked on. The HTTP
// library looks at its sockets only when it reads or writes.
#pragma once

#include <string>

namespace moec {

class ConnectionWatch {
 public:
  // The peer of the connection, as the request says it.
  ConnectionWatch(const std::string& address, int port);
  // False also where the connection was not found among the open ones.
  bool closed() const;

 private:
  int descriptor_ = -1;
};

}  // namespace moec
