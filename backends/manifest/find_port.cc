#include "backends/manifest/find_port.h"

#include "ir/base/invariant.h"

namespace moec::manifest {

const Port* find_port(const std::vector<Port>& ports, std::string_view name) {
  for (const Port& port : ports)
    if (port.name == name) return &port;
  return nullptr;
}

const Port& port_named(const std::vector<Port>& ports, std::string_view name) {
  const Port* port = find_port(ports, name);
  MOEC_CHECK(port, "port {} is absent, although the manifest was checked", name);
  return *port;
}

const InputBinding* find_input(const Step& step, std::string_view port) {
  for (const InputBinding& input : step.inputs)
    if (input.port == port) return &input;
  return nullptr;
}

}  // namespace moec::manifest
