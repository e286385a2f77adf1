#include "tools/command_line.h"

#include <algorithm>

#include "runtime/base/describe.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

/// What follows `--` are files, whatever they begin with. CLI11 2.1 loses such words (and what
/// follows a `++`), so they are spelt in a way that needs no mark.
std::vector<std::string> without_marks(std::vector<std::string> arguments) {
  std::vector<std::string> words;
  bool marked = false;
  for (std::string& word : arguments) {
    const bool is_mark = !marked && word == "--";
    if ((marked && word.starts_with('-') && word != "-") || word == "++") word.insert(0, "./");
    if (!is_mark) words.push_back(std::move(word));
    marked = marked || is_mark;
  }
  return words;
}

/// The command that the words lead to.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

/// The outermost command with words that it does not take.
const CLI::App& find_unexpected(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return app.remaining_size() > 0 || chosen.empty() ? app : find_unexpected(*chosen.front());
}

/// What a command does not take: an unknown option, else a word that follows nothing.
int report_unexpected(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const auto option = std::ranges::find_if(rest, is_option);
  const std::string word = option == rest.end() ? rest.front() : *option;
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  const char* problem = option == rest.end() ? "unexpected" : "unknown option";
  return report_usage(command, fmt::format("{} {}", problem, quote(word)),
                      word.substr(0, word.find('=')), names);
}

/// The option that an error of CLI11 is about: the one with the longest name in its text, which
/// may lack the dashes.
const CLI::Option* find_option(const CLI::App& command, const std::string& text) {
  const CLI::Option* found = nullptr;
  for (const CLI::Option* option : command.get_options()) {
    std::string name = option->get_name();
    name.erase(0, name.find_first_not_of('-'));
    if (text.find(name) == std::string::npos) continue;
    if (found == nullptr || option->get_name().size() > found->get_name().size()) found = option;
  }
  return found;
}

/// Too many values of an option, or too few.
std::string describe_mismatch(const CLI::App& command, const std::string& text) {
  const CLI::Option* option = find_option(command, text);
  if (option == nullptr) return text;
  const std::string name = option->get_name();
  if (option->get_expected_max() == 0) return name + " takes no value";
  if (option->get_expected_max() == 1 && option->results().size() > 1) {
    return name + " is given twice";
  }
  const std::string type = option->get_type_name();
  return fmt::format("{}: expected {} after it", name, type.substr(0, type.find(':')));
}

/// What CLI11 found wrong.
std::string describe(const CLI::ParseError& error, const CLI::App& command) {
  const auto is_missing = [](const CLI::Option* option) {
    return option->get_required() && option->count() == 0;
  };
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return describe_mismatch(command, error.what());
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::vector<const CLI::Option*> options = command.get_options();
    const auto missing = std::ranges::find_if(options, is_missing);
    if (missing != options.end()) return (*missing)->get_name() + " is required";
    return "expected a command";
  }
  return error.what();
}

/// A flag is there or not: CLI11 would take --time=no, too.
void refuse_values_of_flags(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_max() == 0) option->disable_flag_override();
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_values_of_flags(*command);
}

int print_or_report(std::string_view text) {
  const Status status = print(text);
  return status ? kOk : report(status.error());
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string help_of(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, full_name(command),
                                            CLI::AppFormatMode::Normal);
}

std::optional<int> parse_and_run(CLI::App& app, std::vector<std::string> arguments,
                                 const std::string& version) {
  refuse_values_of_flags(app);
  arguments = without_marks(std::move(arguments));
  // CLI11 does not say which command it does not know.
  const std::vector<std::string> commands = command_names(app);
  if (!arguments.empty() && !arguments[0].starts_with('-') &&
      std::ranges::count(commands, arguments[0]) == 0) {
    return report_usage(app, fmt::format("there is no command {}", quote(arguments[0])),
                        arguments[0], commands);
  }
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return print_or_report(help_of(innermost(app)));
  } catch (const CLI::CallForVersion&) {
    return print_or_report(version + "\n");
  } catch (const CLI::ExtrasError&) {
    return report_unexpected(find_unexpected(app));
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = innermost(app);
    return report_usage(command, describe(error, command));
  } catch (const std::bad_alloc&) {
    return report({"not enough memory"});
  } catch (const InternalError& error) {
    return report({error.what()});
  }
  return std::nullopt;
}

}  // namespace rnnc::tools
