#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "tools/command.h"
#include "tools/lsp/framing.h"
#include "tools/lsp/server.h"

namespace rnnc::tools {
namespace {

/// Whether a read of standard input would not wait.
bool is_input_ready() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

/// Reads some bytes; false at the end of the input.
bool read_some(lsp::MessageReader& reader) {
  char bytes[1 << 14];
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  reader.add({bytes, static_cast<size_t>(count)});
  return true;
}

int run_lsp() {
  Status written;
  lsp::MessageReader reader;
  lsp::Server server({
      .send =
          [&](const lsp::Json& message) {
            const auto replace = lsp::Json::error_handler_t::replace;
            const std::string body = message.dump(-1, ' ', false, replace);
            if (written) written = print(lsp::framed(body));
          },
      .interrupted = is_input_ready,
  });
  while (written && !server.exit_code()) {
    if (const auto message = reader.next()) {
      if (message->error.empty()) {
        server.receive(message->body);
      } else {
        server.refuse(message->error);
      }
      continue;
    }
    if (!is_input_ready()) server.idle();
    if (!read_some(reader)) break;
  }
  if (!written) return report(written.error());
  if (!server.exit_code()) return report({"the client ended without `exit`"});
  if (*server.exit_code() != kOk) return report({"the client sent `exit` before `shutdown`"});
  return kOk;
}

}  // namespace

void add_lsp(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("lsp", "Serve editors over standard input and output (LSP)");
  command->footer(
      "Example:\n"
      "  rnnc lsp\n"
      "\n"
      "Editors start it (tools/editors/README.md): what is wrong with a text is shown as it is\n"
      "typed, with fixes, shapes, definitions and names.");
  command->callback([&exit_code] { exit_code = run_lsp(); });
}

}  // namespace rnnc::tools
