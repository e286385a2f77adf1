#include "tools/completion/completion.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/completion/completion_scripts.h"

namespace rnnc::tools {
namespace {

struct Candidate {
  std::string word;
  std::string meaning = {};
};

struct Answer {
  bool files = false;
  std::string before_files;
  std::vector<Candidate> candidates;

  void add(const std::vector<std::string>& words, const std::string& before = "",
           const std::string& after = "") {
    for (const std::string& word : words) {
      candidates.push_back({fmt::format("{}{}{}", before, word, after)});
    }
  }
};

bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// What `one_of` shows in the help.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open == std::string::npos) return {};
  return split(type.substr(open + 1, type.find('}') - open - 1), ',');
}

/// The words before the one to be completed, as far as they tell what may follow.
struct Context {
  const CLI::App* command = nullptr;
  const CLI::Option* option = nullptr;  // which waits for its value
  bool marked = false;                  // by --: only files follow
  std::vector<std::string> positionals;
  std::multimap<std::string, std::string> values;  // by option

  Context(const CLI::App& app, std::span<const std::string> words) : command(&app) {
    for (const std::string& word : words) take(word);
  }

 private:
  void take(const std::string& word) {
    if (option != nullptr) {
      values.emplace(option->get_name(), word);
      option = nullptr;
    } else if (!marked && word == "--") {
      marked = true;
    } else if (!marked && word.starts_with('-') && word != "-") {
      const size_t equals = word.find('=');
      const CLI::Option* known = command->get_option_no_throw(word.substr(0, equals));
      if (known == nullptr || !takes_value(*known)) return;
      if (equals == std::string::npos) option = known;
      if (equals != std::string::npos) values.emplace(known->get_name(), word.substr(equals + 1));
    } else if (const CLI::App* inner = find_command(word); inner != nullptr) {
      command = inner;
    } else {
      positionals.push_back(word);
    }
  }
  const CLI::App* find_command(const std::string& word) const {
    if (marked || !positionals.empty()) return nullptr;
    const std::vector<const CLI::App*> commands = command->get_subcommands({});
    const auto found =
        std::ranges::find(commands, word, [](const CLI::App* known) { return known->get_name(); });
    return found == commands.end() ? nullptr : *found;
  }
};

/// The file that the words name, if there is one without syntax errors.
std::optional<Unit> unit_of(const Context& context) {
  if (context.positionals.empty() || is_dash(context.positionals[0])) return std::nullopt;
  Result<Unit> unit = load_unit(context.positionals[0]);
  if (!unit) return std::nullopt;
  return std::move(*unit);
}

std::optional<Graph> graph_of(const Context& context) {
  std::optional<Unit> unit = unit_of(context);
  if (!unit) return std::nullopt;
  const std::vector<std::string> names = unit->definitions();
  const auto cell = context.values.find("--cell");
  if (cell == context.values.end() && names.size() != 1) return std::nullopt;
  DimBindings dims;
  const auto [first, last] = context.values.equal_range("--dim");
  for (const auto& [option, text] : std::ranges::subrange(first, last)) {
    const size_t equals = std::min(text.find('='), text.size() - 1);
    dims.emplace(text.substr(0, equals), std::atoll(text.c_str() + equals + 1));
  }
  return unit->lower(cell == context.values.end() ? names[0] : cell->second, dims);
}

template <typename Declarations>
std::vector<std::string> names_of(const Declarations& declarations) {
  std::vector<std::string> names;
  for (const auto& declaration : declarations) names.push_back(declaration.name);
  return names;
}

/// What may stand before the = of NAME=FILE or NAME=NUMBER.
std::vector<std::string> names_for(const Context& context, const CLI::Option& option) {
  const std::optional<Graph> graph = graph_of(context);
  if (!graph) return {};
  const std::string name = option.get_name();
  if (name == "--dim") return names_of(graph->dims);
  if (name == "--init" || name == "--final") return names_of(graph->states);
  const bool reads = name == "--input" || context.command->get_name() == "inputs";
  return reads ? names_of(graph->inputs) : names_of(graph->outputs);
}

/// `text` is what there is of the value, `before` the part of the word before it.
void add_values(const Context& context, const CLI::Option& option, const std::string& text,
                const std::string& before, Answer& answer) {
  const std::string type = option.get_type_name();
  const size_t equals = text.find('=');
  answer.add(choices_of(option), before);
  if (option.get_name() == "--cell") {
    const std::optional<Unit> unit = unit_of(context);
    if (unit) answer.add(unit->definitions(), before);
  } else if (option.get_name() == "--passes") {
    const size_t comma = text.rfind(',');
    const std::string listed = comma == std::string::npos ? "" : text.substr(0, comma + 1);
    for (const PassInfo& pass : all_passes()) {
      answer.candidates.push_back({before + listed + std::string(pass.name)});
    }
  } else if (type.starts_with("NAME=") && equals == std::string::npos) {
    answer.add(names_for(context, option), before, "=");
  } else if (type == "NAME=FILE") {
    answer.files = true;
    answer.before_files = before + text.substr(0, equals + 1);
  } else if (type == "FILE" || option.get_name() == "FILE" || option.get_name() == "FOLDER") {
    answer.files = true;
    answer.before_files = before;
  }
}

void add_commands(const CLI::App& app, Answer& answer) {
  for (const CLI::App* command : app.get_subcommands({})) {
    answer.candidates.push_back({command->get_name(), command->get_description()});
  }
}

void add_options(const CLI::App& command, Answer& answer) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      answer.candidates.push_back({"--" + name, option->get_description()});
    }
  }
}

/// What stands behind no option.
void add_positionals(const CLI::App& app, const Context& context, const std::string& word,
                     Answer& answer) {
  if (context.command->get_name() == "help") {
    add_commands(*Context(app, context.positionals).command, answer);
    return;
  }
  if (context.positionals.empty() && !context.marked) add_commands(*context.command, answer);
  size_t taken = context.positionals.size();
  for (const CLI::Option* option : context.command->get_options()) {
    if (!option->get_positional()) continue;
    if (taken < static_cast<size_t>(option->get_expected_max())) {
      add_values(context, *option, word, "", answer);
      return;
    }
    taken -= static_cast<size_t>(option->get_expected_max());
  }
}

Answer complete(const CLI::App& app, std::span<const std::string> words) {
  const std::string word = words.empty() ? "" : words.back();
  const Context context(app, words.empty() ? words : words.first(words.size() - 1));
  const size_t equals = word.find('=');
  Answer answer;
  if (context.option != nullptr) {
    add_values(context, *context.option, word, "", answer);
  } else if (context.marked || !word.starts_with('-')) {
    add_positionals(app, context, word, answer);
  } else if (equals == std::string::npos) {
    add_options(*context.command, answer);
  } else if (const CLI::Option* option =
                 context.command->get_option_no_throw(word.substr(0, equals));
             option != nullptr) {
    add_values(context, *option, word.substr(equals + 1), word.substr(0, equals + 1), answer);
  }
  std::erase_if(answer.candidates,
                [&](const Candidate& candidate) { return !candidate.word.starts_with(word); });
  return answer;
}

int run_completion(const std::string& shell) {
  const Status status = print(completion_script(shell));
  return status ? kOk : report(status.error());
}

}  // namespace

int print_candidates(const CLI::App& app, const std::vector<std::string>& words) {
  const Answer answer = complete(app, words);
  std::string text = answer.files ? fmt::format("files {}\n", answer.before_files) : "words\n";
  for (const Candidate& candidate : answer.candidates) {
    text += fmt::format("{}\t{}\n", candidate.word, candidate.meaning);
  }
  const Status status = print(text);
  return status ? kOk : report(status.error());
}

void add_completion(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script that completes command lines in bash, zsh or fish");
  command->add_option("SHELL", *shell, "The shell")
      ->required()
      ->type_name("")
      ->check(one_of({"bash", "zsh", "fish"}));
  command->footer(
      "The script asks `rnnc` itself, so it need not be made anew for another version.\n\n"
      "Examples:\n"
      "  rnnc completion bash > ~/.local/share/bash-completion/completions/rnnc\n"
      "  rnnc completion zsh > ~/.zfunc/_rnnc      # a folder of $fpath\n"
      "  rnnc completion fish > ~/.config/fish/completions/rnnc.fish");
  command->callback([shell, &exit_code] { exit_code = run_completion(*shell); });
}

}  // namespace rnnc::tools
