// moec route: distributes requests among the servers of a cluster.
#include <CLI/CLI.hpp>
#include <memory>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/server_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/route/route_server.h"

namespace moec {
namespace {

struct RouteFlags {
  std::string nodes;
  ServerFlags server;
  double check = 2, answer = 60;  // seconds
  bool explain = false;
};

Status route(const RouteFlags& flags) {
  RouteOptions options;
  MOEC_ASSIGN(options.nodes, read_node_servers(flags.nodes));
  MOEC_ASSIGN(options.server, server_options(flags.server));
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  };
  options.check = milliseconds(flags.check);
  options.answer = milliseconds(flags.answer);
  if (flags.explain) options.explain = [](const std::string& line) { say("[{}]\n", line); };
  const StopSignals signals;
  options.server.stop = [] { return StopSignals::caught() != 0; };
  // Printed when the port is known: with --port 0, the system chooses it.
  options.server.listening = [&](int port) {
    say("routing to {} nodes at {}/v1\n", options.nodes.nodes.size(),
        url_of(options.server.host, port));
  };
  return route_requests(options);
}

int run_route(const RouteFlags& flags) {
  const Status status = route(flags);
  return status ? kExitFine : report_failure(status.error(), false);
}

}  // namespace

void add_route_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "route", "Distribute requests among servers: each session to the node whose experts fit it");
  auto flags = std::make_shared<RouteFlags>();
  command
      ->add_option("--nodes", flags->nodes,
                   "A JSON file of the nodes (frontends/jobs/route/README.md)")
      ->required();
  add_server_flags(*command, flags->server);
  command->add_option("--check-every", flags->check, "Seconds between two health checks of a node")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--node-timeout", flags->answer,
                   "Maximum seconds between two pieces of a node's answer; then the text continues "
                   "on another node")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--explain", flags->explain, "Print why a node was chosen");
  command->footer("Example: moec route --nodes nodes.json --port 8080");
  command->callback([flags, &exit_code] { exit_code = run_route(*flags); });
}

}  // namespace moec
