#include "tools/serve/server.h"

#include "tools/command.h"

namespace rnnc::tools {
namespace {

int run_serve(const std::string& folder, uint16_t port) {
  const Result<serve::Texts> texts = serve::Texts::of(folder);
  if (!texts) return report(texts.error());
  const Status status = serve::serve(*texts, port, [](const std::string& address) {
    report_note("open this address in a browser; Ctrl-C ends it");
    return print(address + "\n");
  });
  return status ? kOk : report(status.error());
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  struct Options {
    std::string folder;
    uint16_t port = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "serve", "Serve a page to this machine's browsers: write a cell, see how it will run");
  command
      ->add_option("FOLDER", options->folder,
                   "Whose .rnn files can be opened and imported, beside rnnc's own cells")
      ->type_name("");
  command->add_option("--port", options->port, "Of 127.0.0.1; 0: any that is free")
      ->type_name("NUMBER")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  command->footer(
      "Prints the page's address, which only this machine can reach and in which a secret is, and\n"
      "serves until Ctrl-C. No file is written.\n\n"
      "Examples:\n"
      "  rnnc serve\n"
      "  rnnc serve examples/cells --port 8080");
  command->callback(
      [options, &exit_code] { exit_code = run_serve(options->folder, options->port); });
}

}  // namespace rnnc::tools
