// moec place: assigns experts to the nodes of a cluster.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/output_file.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/plan_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/options/option_bytes.h"
#include "frontends/jobs/plan/place_report.h"
#include "ir/base/output_apart.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

struct PlaceFlags {
  PlanFlags plan;
  PlaceNodesOptions options;
  std::string policy, out;
  std::string on_miss;
  std::vector<std::string> memory, servers;
  bool force = false, json = false;
  bool own_types = false;  // count weights in the checkpoint's types
};

Result<PlacedNodes> place_named(const PlaceFlags& flags) {
  PlaceNodesOptions options = flags.options;
  MOEC_ASSIGN(options.plan, plan_options(flags.plan));
  options.plan.own_types = flags.own_types;
  if (!flags.policy.empty()) options.policy = *parse_enum<PlacePolicy>(flags.policy);
  MOEC_ASSIGN(options.servers, list_node_servers(flags.servers));
  for (const std::string& word : flags.memory) {
    MOEC_ASSIGN(const int64_t bytes, bytes_of_flag("--node-memory", word));
    options.nodes.pool.push_back({.memory = bytes});
  }
  if (!flags.on_miss.empty()) options.miss = *parse_enum<NodeMiss>(flags.on_miss);
  MOEC_TRY(require_model(flags.plan.source));
  // Before the plan is made, so that a refused file costs no time.
  MOEC_TRY(check_user_output({flags.out, "--out", flags.force}, flags.plan.source));
  return place_nodes(std::move(options));
}

Status write_placement(const PlaceFlags& flags, const PlacedNodes& placed) {
  if (flags.out.empty()) return {};
  return write_user_file(flags.out, placement_text(placed));
}

int run_place(const PlaceFlags& flags) {
  const auto placed = place_named(flags);
  if (!placed) return report_failure(placed.error(), flags.json);
  if (const Status written = write_placement(flags, *placed); !written)
    return report_failure(written.error(), flags.json);
  const Diagnostics notes = placed->change ? note_no_gain(*placed->change) : Diagnostics();
  if (flags.json) {
    // The file and the report have the same members, so both derive from one text.
    auto fields = nlohmann::ordered_json::parse(placement_text(*placed));
    if (placed->change) fields["change"] = change_json(*placed->change);
    print_json(report_json(true, fields, notes));
  } else {
    print_notes(notes);
    print_out("{}", placement_table(*placed));
  }
  return kExitFine;
}

void add_use_flags(CLI::App& command, PlaceFlags& flags) {
  CLI::Option* profile = command.add_option("--profile", flags.options.profile,
                                            "The profile.json from moec analyze, or its folder");
  command
      .add_option("--from-nodes", flags.servers,
                  "Running servers of nodes, as URLs or a JSON file of nodes, whose routers' "
                  "choices are the profile; also prints what each node would gain and lose")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(profile);
  command
      .add_option("--kl", flags.options.kl_reports,
                  "Report of moec compare --groups --json, for the KL per category of the profile; "
                  "repeatable")
      ->allow_extra_args(false);
  command
      .add_option(
          "--policy", flags.policy,
          "categories: a node has the experts that its text categories select most; packed: "
          "experts that tokens choose together share a node; balanced: equal load, as in EPLB; "
          "contiguous: ranges of experts (default: categories if the profile has at least two text "
          "categories, packed with another profile, else contiguous)")
      ->check(one_of_enum<PlacePolicy>());
  command.add_flag("--allow-uncovered", flags.options.allow_uncovered,
                   "With --policy categories: leave out experts that no category selects enough");
}

void add_node_flags(CLI::App& command, PlaceFlags& flags) {
  NodeRequest& nodes = flags.options.nodes;
  command
      .add_option("--nodes", nodes.nodes,
                  "Total number of nodes in all stages (default: as few as --node-memory or "
                  "--cluster allows)")
      ->check(whole_from(1));
  CLI::Option* memory = command.add_option(
      "--node-memory", flags.memory,
      "Memory per node: one value for all nodes or one for each, stage by stage, e.g. "
      "24GB,24GB,16GB (default: unlimited)");
  memory->delimiter(',')->allow_extra_args(false);
  command
      .add_option("--cluster", flags.options.cluster,
                  "JSON file of nodes with name, memory, bandwidth, tflops, link, latency_ms and "
                  "min_experts; those with the most memory are used")
      ->excludes(memory)
      ->excludes(command.get_option("--from-nodes"));
  command
      .add_option("--on-miss", flags.on_miss,
                  "Experts that a node lacks, for the forecast. mask: the router chooses from the "
                  "node's own; skip: they are omitted; peer: one other node per layer computes its "
                  "own (default: mask)")
      ->check(one_of_enum<NodeMiss>());
  command
      .add_option("--stages", nodes.stages,
                  "Number of stages: runs of consecutive layers, each on separate nodes")
      ->check(whole_from(1))
      ->capture_default_str();
  command
      .add_option("--replicas", nodes.replicas,
                  "Number of copies of a layer's experts over all nodes of a stage (default: as "
                  "many as fit)")
      ->check(whole_from(1));
}

}  // namespace

void add_place_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("place",
                                         "Assign experts to the nodes of a cluster, based on their "
                                         "use on a text and the nodes' memory");
  auto flags = std::make_shared<PlaceFlags>();
  add_plan_flags(*command, OptionUsers::planning, flags->plan);
  // moec plan shares the flags, but runs without SOURCE for --list.
  command->get_option("SOURCE")->required();
  add_use_flags(*command, *flags);
  add_node_flags(*command, *flags);
  command->add_option("--out", flags->out, "Write the placement to this file");
  command->add_flag("--force", flags->force, "Replace the file that --out names");
  command->add_flag("--json", flags->json, "Print the placement as JSON");
  command->footer(
      "Example: moec place qwen3-30b-a3b --node-memory 24GB --policy contiguous --weights 4bit");
  command->callback([command, flags, &exit_code] {
    // Without these flags, the user describes no export, so the checkpoint's own types are counted.
    constexpr const char* kTypes[] = {"--target", "--dtype", "--weights"};
    flags->own_types = std::all_of(std::begin(kTypes), std::end(kTypes), [&](const char* flag) {
      return command->get_option(flag)->count() == 0;
    });
    exit_code = run_place(*flags);
  });
}

}  // namespace moec
