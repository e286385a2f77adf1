#include "tools/serve/answer.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "frontend/elaborate/builtins.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/lexer.h"
#include "runtime/program/read_unit.h"
#include "runtime/program/shipped_units.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/lsp/server.h"

namespace rnnc::serve {
namespace {

using Json = nlohmann::ordered_json;
using tools::kError;
using tools::kOk;
using tools::kUsage;

int report_or(const Status& status) {
  return status ? kOk : tools::report(status.error());
}

int print(const Json& json) {
  return report_or(tools::print(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

int list(const Texts& texts, const Json& /*asked*/) {
  Json words = Json::array();
  for (auto kind = TokenKind::Cell; is_word(kind); kind = TokenKind(static_cast<int>(kind) + 1)) {
    std::string word = spelling(kind);
    std::erase(word, '`');
    words.push_back(std::move(word));
  }
  Json functions = Json::array();
  for (const Builtin& builtin : builtins()) functions.push_back(builtin.name);
  Json examples = Json::array();
  for (const ShippedFile& file : shipped_files()) examples.push_back(file.path);
  return print({{"version", RNNC_VERSION},
                {"words", words},
                {"functions", functions},
                {"examples", examples},
                {"files", texts.files()}});
}

int open(const Texts& texts, const Json& asked) {
  const Result<std::string> text = texts.text(asked.at("name").get<std::string>());
  return text ? print({{"text", *text}}) : tools::report(text.error());
}

/// What it imports is looked for among the texts.
Unit parse(const Texts& texts, const Json& asked) {
  const Shadow shadow = [&texts](const std::filesystem::path& file) { return texts.text(file); };
  return parse_unit(asked.at("name"), asked.at("text"), shadow);
}

int describe(const Texts& texts, const Json& asked) {
  const Unit unit = parse(texts, asked);
  Json definitions = Json::array();
  for (const ast::Item& item : unit.modules().front().items) {
    const auto* definition = std::get_if<ast::Definition>(&item);
    if (definition == nullptr) continue;
    Json dims = Json::array();
    for (const ast::DimParameter& dim : definition->dims) {
      const Json given = dim.default_value ? Json(ast::print(*dim.default_value)) : Json();
      dims.push_back({{"name", dim.name.text}, {"default", given}});
    }
    definitions.push_back({{"name", definition->name.text}, {"dims", dims}});
  }
  return print({{"definitions", definitions}});
}

/// `rnnc explain` as it is typed. Each option is one word, so that no value becomes an option.
int explain(const Texts& texts, const Json& asked) {
  std::vector<std::string> words = {"explain", "TEXT", "--html"};
  for (const char* option : {"cell", "device", "dtype", "batch", "steps"}) {
    if (!asked.contains(option)) continue;
    words.push_back(fmt::format("--{}={}", option, asked[option].get<std::string>()));
  }
  const Json dims = asked.value("dims", Json::object());
  for (const auto& [name, value] : dims.items()) {
    words.push_back(fmt::format("--dim={}={}", name, value.get<std::string>()));
  }
  if (asked.value("backward", false)) words.emplace_back("--backward");
  Unit unit = parse(texts, asked);
  int exit_code = kOk;
  CLI::App app("", "rnnc");
  tools::add_explain(app, exit_code,
                     [&](const std::string& /*file*/) -> Result<Unit> { return std::move(unit); });
  const int code = tools::parse_and_run(app, words, RNNC_VERSION).value_or(exit_code);
  return code == kOk ? kOk : kError;
}

int serve_editor(const Texts& texts, const Json& messages) {
  Json sent = Json::array();
  lsp::Server server({
      .send = [&sent](const Json& message) { sent.push_back(message); },
      // The root of the page's files is the folder.
      .elsewhere = [&texts](const std::filesystem::path& file)
          -> Result<std::optional<std::string>> { return texts.text(file.relative_path()); },
  });
  for (const Json& message : messages) {
    server.receive(message.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  server.idle();
  return print(sent);
}

using Answer = int (*)(const Texts& texts, const Json& asked);

const std::map<std::string_view, Answer>& answers() {
  static const std::map<std::string_view, Answer> table = {{"list", list},
                                                           {"open", open},
                                                           {"describe", describe},
                                                           {"explain", explain},
                                                           {"lsp", serve_editor}};
  return table;
}

}  // namespace

bool is_question(std::string_view question) {
  return answers().contains(question);
}

int answer(std::string_view question, const Texts& texts, std::string_view body) {
  const auto refuse = [](std::string_view why) {
    tools::report({fmt::format("this is no question: {}", why)});
    return kUsage;
  };
  const Json asked = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (asked.is_discarded()) return refuse("it is not JSON");
  if (!asked.is_structured()) return refuse("it is neither an object nor an array");
  try {
    return answers().at(question)(texts, asked);
  } catch (const nlohmann::json::exception& wrong) {
    return refuse(wrong.what());
  }
}

}  // namespace rnnc::serve
