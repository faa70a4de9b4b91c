// moec serve: serves an exported model over HTTP.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "backends/files/stop_signals.h"
#include "backends/formats/read_shard.h"
#include "backends/runtime/text/prompt.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/chat_flags.h"
#include "frontends/cli/flags/engine_flags.h"
#include "frontends/cli/flags/expert_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/server_flags.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/run/expert_report.h"
#include "frontends/jobs/serve/serve_model.h"

namespace moec {
namespace {

struct ServeFlags {
  std::string folder, name, python = default_python();
  ServerFlags server;
  SessionFlags session;
  EngineFlags engine;
  ExpertFlags experts;
  ServeOptions serve;
};

// Returns --name, or the folder's name.
// canonical() also resolves `.` and a trailing slash, which have no usable last component.
std::string model_name(const ServeFlags& flags) {
  if (!flags.name.empty()) return flags.name;
  std::error_code error;
  const auto folder = std::filesystem::canonical(flags.folder, error);
  return (error ? std::filesystem::path(flags.folder) : folder).filename().string();
}

Result<ServedText> served_text(const ServeFlags& flags, const Manifest& manifest) {
  Diagnostics notes;
  // Without a usable tokenizer, the server still accepts prompts of token ids.
  ServedText text{export_tokenizer(flags.folder, manifest).or_none(notes), nullptr};
  print_notes(notes);
  MOEC_ASSIGN(const bool has_chat, has_chat_template(flags.folder));
  if (!has_chat) return text;
  text.chat = std::make_shared<const ChatTemplate>(flags.folder, flags.python);
  return text;
}

// Opens the folder that the path names now, e.g. as a symbolic link. The session reads shards when
// they first run, and must not mix them with those of a folder that replaces this one.
Result<Session> open_session(const ServeFlags& flags, const SessionOptions& options) {
  std::error_code error;
  const auto folder = std::filesystem::canonical(flags.folder, error);
  return Session::open(error ? flags.folder : folder.string(), read_shard, options);
}

// Reloads with the options of the first session. `experts` is the store of the current session.
ReloadOptions reload_options(const ServeFlags& flags, const SessionOptions& options,
                             std::shared_ptr<const ExpertStore>& experts) {
  ReloadOptions reload;
  reload.open = [&flags, options]() -> Result<Session> {
    if (!flags.experts.state.empty())
      return fail("serve.no_reload",
                  "the file of --state belongs to the experts with which the server started",
                  "restart the server with another --state");
    if (options.peers)
      return fail("serve.no_reload", "a server with --on-miss peer cannot change its experts",
                  "restart the server");
    MOEC_TRY(require_export(flags.folder));
    return open_session(flags, options);
  };
  reload.opened = [&flags, &experts](const std::shared_ptr<const ExpertStore>& store) {
    // Releases the slots of the earlier session.
    experts = store;
    say("[reloaded {}]\n", flags.folder);
  };
  return reload;
}

Status serve(const ServeFlags& flags) {
  MOEC_TRY(require_export(flags.folder));
  MOEC_ASSIGN(SessionOptions options, session_options(flags.session));
  MOEC_ASSIGN(options.experts, expert_store_options(flags.experts, flags.folder));
  MOEC_ASSIGN(const auto peers, node_peers(flags.experts));
  options.peers = peers;
  MOEC_ASSIGN(options.engine, open_engine(flags.engine, flags.session, options.engine));
  ServeOptions serve = flags.serve;
  serve.peers = peers;
  MOEC_ASSIGN(serve.server, server_options(flags.server));
  // Each text that is generated concurrently has its own KV caches in the session.
  options.sequences = serve.limits.sequences;
  if (options.experts)
    options.experts->on_change = [](const DomainChange& change) {
      say("[{}]\n", change_text(change));
    };
  MOEC_ASSIGN(Session session, open_session(flags, options));
  // Shared ownership: the session moves into the server, and the store is needed after that.
  auto experts = session.experts();
  serve.reload = reload_options(flags, options, experts);
  if (experts) print_notes(experts->notes());
  const StopSignals signals;
  serve.server.stop = [] { return StopSignals::caught() != 0; };
  // Printed when the port is known: with --port 0, the system chooses it.
  serve.server.listening = [&](int port) {
    say("serving {} at {}/v1\n", model_name(flags), url_of(serve.server.host, port));
  };
  MOEC_ASSIGN(const ServedText text, served_text(flags, session.manifest()));
  MOEC_TRY(serve_model(std::move(session), text, model_name(flags), serve));
  if (!experts) return {};
  say("{}", start_report(*experts));
  return experts->save_state();
}

int run_serve(const ServeFlags& flags) {
  const Status status = serve(flags);
  return status ? kExitFine : report_failure(status.error(), false);
}

void add_limit_flags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option("--sequences", flags.serve.limits.sequences,
                  "Texts generated concurrently; their KV caches are kept for later texts with the "
                  "same prefix")
      ->check(whole_from(1))
      ->capture_default_str();
  command
      .add_option("--waiting", flags.serve.limits.waiting,
                  "Texts that may wait in the queue; further ones are refused with status 429")
      ->check(whole_from(1))
      ->capture_default_str();
  command
      .add_option("--max-tokens", flags.serve.most_tokens,
                  "Maximum number of tokens per text (default: the context)")
      ->check(whole_from(1));
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "serve", "Serve an exported model over HTTP with the completion endpoints of the OpenAI API");
  auto flags = std::make_shared<ServeFlags>();
  command->add_option("OUT", flags->folder, "An exported folder")->required();
  command->add_option("--name", flags->name,
                      "The model's name in the API (default: the folder's name)");
  add_python_flag(*command, flags->python);
  add_server_flags(*command, flags->server);
  add_limit_flags(*command, *flags);
  add_session_flags(*command, flags->session);
  add_engine_flags(*command, flags->engine);
  add_mask_flag(*command, flags->session.expert_mask);
  add_form_flags(*command, flags->session.top_k);
  add_expert_flags(*command, flags->experts);
  command->footer("Example: moec serve out/tinymoe --port 8080");
  command->callback([flags, &exit_code] { exit_code = run_serve(*flags); });
}

}  // namespace moec
