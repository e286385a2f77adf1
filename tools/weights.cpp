#include "tools/command.h"

namespace rnnc::tools {
namespace {

int run_weights(const Source& source) {
  std::optional<Definition> definition = load_definition(source);
  if (!definition) return kError;
  const std::optional<Graph> graph = lower_definition(*definition, source.dims);
  if (!graph) return kError;
  const Result<Graph> bound = bind_known(*graph, source.dims);
  if (!bound) return report(bound.error());
  std::string text;
  for (const ParamDecl& param : bound->params) {
    text += fmt::format("{} {}\n", param.name, to_string(param.type.shape));
  }
  const Status status = print(text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_weights(CLI::App& app, int& exit_code) {
  auto source = std::make_shared<Source>();
  CLI::App* command =
      app.add_subcommand("weights", "List the tensors that a weights file must hold, with shapes");
  add_source(*command, *source);
  command->footer("Example:\n  rnnc weights examples/lstm.rnn --dim I=80 --dim H=512");
  command->callback([source, &exit_code] { exit_code = run_weights(*source); });
}

}  // namespace rnnc::tools
