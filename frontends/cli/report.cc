// moec report: a page about an export.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/files/output_file.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/report/report_data.h"
#include "frontends/jobs/report/report_page.h"
#include "ir/base/output_apart.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

struct ReportFlags {
  std::string folder, against, profile;
  UserOutput html{.flag = "--html"};
  bool json = false;
};

Result<nlohmann::ordered_json> data_of(const ReportFlags& flags) {
  std::vector<ReportedExport> exports;
  for (const std::string& folder : {flags.folder, flags.against}) {
    if (folder.empty()) continue;
    MOEC_ASSIGN(ReportedExport reported, open_reported(folder));
    exports.push_back(std::move(reported));
  }
  if (flags.profile.empty()) return report_data(exports, std::nullopt);
  MOEC_ASSIGN(const ExpertProfile profile, read_expert_profile(flags.profile));
  return report_data(exports, profile);
}

Status run_report(const ReportFlags& flags) {
  MOEC_TRY(check_user_output(flags.html, flags.folder));
  if (!flags.against.empty()) MOEC_TRY(check_user_output(flags.html, flags.against));
  MOEC_ASSIGN(const nlohmann::ordered_json data, data_of(flags));
  if (!flags.html.path.empty()) MOEC_TRY(write_user_file(flags.html.path, report_page(data)));
  if (flags.json)
    print_json(report_json(true, data));
  else
    say("wrote {}\n", flags.html.path);
  return {};
}

}  // namespace

void add_report_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "report", "Write a page that shows an export: experts, shards, placement, quality and cost");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("OUT", flags->folder, "An exported folder, or a folder that moec split wrote")
      ->required();
  command->add_option("--html", flags->html.path,
                      "Write the page to this file, which a browser opens without a network");
  command->add_option("--against", flags->against, "Compare with this export");
  command->add_option("--profile", flags->profile,
                      "Show the use of experts from this profile.json of moec analyze");
  command->add_flag("--force", flags->html.force, "Replace the file that --html names");
  command->add_flag("--json", flags->json, "Print the data of the page as JSON");
  command->footer("Example: moec report out/tinymoe --html tinymoe.html");
  command->callback([flags, &exit_code] {
    if (flags->html.path.empty() && !flags->json) throw CLI::RequiredError("--html or --json");
    const Status done = run_report(*flags);
    exit_code = done ? kExitFine : report_failure(done.error(), flags->json);
  });
}

}  // namespace moec
