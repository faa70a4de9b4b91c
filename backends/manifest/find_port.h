// Ports of a graph, and inputs of a step, by the name of the port.
#pragma once

#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"

namespace moec::manifest {

// Returns null if no port has the name.
const Port* find_port(const std::vector<Port>& ports, std::string_view name);

// The port must exist, as it does for each binding of a checked schedule.
const Port& port_named(const std::vector<Port>& ports, std::string_view name);

// Returns null if the step has no input for the port.
const InputBinding* find_input(const Step& step, std::string_view port);

}  // namespace moec::manifest
