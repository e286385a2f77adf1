#include "tests/support/documented_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/arrays/array_file.h"
#include "tests/runtime/temporary_directory.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

struct Command {
  size_t line = 0;
  std::string text;
  std::string shown;
  bool shows_output = false;
};

/// "```map gated.map" has the kind "map" and the name "gated.map".
struct Block {
  std::string kind;
  std::string name;
  std::string text;
  size_t line = 0;  // of the first line inside
};

std::vector<Block> blocks_of(const std::string& markdown) {
  std::vector<Block> blocks;
  bool inside = false;
  size_t number = 0;
  for (const std::string& line : lines_of(markdown)) {
    ++number;
    if (!line.starts_with("```")) {
      if (inside) blocks.back().text += line + "\n";
    } else if (inside = !inside; inside) {
      std::istringstream words(line.substr(3));
      Block& block = blocks.emplace_back();
      words >> block.kind >> block.name;
      block.line = number + 1;
    }
  }
  return blocks;
}

/// Lines such as "rnn/kernel [3, 8]" as arrays of zeros.
std::vector<NamedArray> tensors_of(const Block& block) {
  std::vector<NamedArray> tensors;
  for (const std::string& line : lines_of(block.text)) {
    const size_t space = line.find(' ');
    std::vector<int64_t> shape;
    std::istringstream sizes(line.substr(space + 2));
    for (int64_t size = 0; sizes >> size; sizes.ignore()) shape.push_back(size);
    tensors.push_back({line.substr(0, space), Array::zeros(DType::f32, shape)});
  }
  return tensors;
}

/// The file that a block is, if it is one.
void write_block(const Block& block, const TemporaryDirectory& folder) {
  if (block.name.empty()) return;
  if (block.kind != "tensors") {
    folder.write(block.name, block.text);
  } else if (!write_arrays(folder / block.name, tensors_of(block))) {
    ADD_FAILURE() << "cannot write " << block.name;
  }
}

bool begins_with_command(const std::string& line) {
  return line.starts_with("$ ") || line.starts_with("rnnc ") || line.starts_with("./dev ") ||
         line.starts_with("rnnc_");
}

/// Of a block of either kind; a line that ends in \ goes on.
std::vector<Command> commands_of(const Block& block) {
  std::vector<Command> commands;
  bool goes_on = false;
  size_t number = block.line;
  for (const std::string& line : lines_of(block.text)) {
    const bool console = block.kind == "console";
    const bool begins = !goes_on && (!console || line.starts_with("$ "));
    if (begins && !line.empty()) {
      commands.push_back({number, line.substr(console ? 2 : 0), "", console});
    } else if (goes_on) {
      commands.back().text += "\n" + line;
    } else if (!commands.empty() && !line.empty()) {
      commands.back().shown += line + "\n";
    }
    goes_on = (begins || goes_on) && line.ends_with('\\');
    ++number;
  }
  return commands;
}

/// Also without a GPU.
bool needs_cuda(const std::string& command) {
  return command.starts_with("rnnc compile ") || command.find("--as cuda") != std::string::npos;
}

bool needs_gpu(const std::string& command) {
  return command.find("--device cuda") != std::string::npos &&
         !command.starts_with("rnnc explain ") && !command.starts_with("rnnc emit ");
}

/// What docs/commands.md shows that is said where there is no GPU.
std::string gpu_error() {
  for (const Block& block : blocks_of(read_data("docs/commands.md"))) {
    if (block.text.starts_with("rnnc: error: device")) return block.text;
  }
  return "";
}

struct Ran {
  int exit_code = -1;
  std::string output;
};

/// By bash, in `folder`; no command takes minutes.
Ran run(const fs::path& folder, const std::string& command, const CommandSetting& setting) {
  std::string path;
  for (const fs::path& programs : setting.programs) path += programs.string() + ":";
  const TemporaryDirectory scratch;
  scratch.write("script", fmt::format("cd '{}'\nexport PATH=\"{}$PATH\" "
                                      "RNNC_CACHE_DIR='{}/.cache'\n{}\n",
                                      folder.string(), path, folder.string(), command));
  const std::string script = (scratch / "script").string();
  const std::string output = (scratch / "output").string();
  const int status = std::system(
      fmt::format("timeout 120 bash '{}' >'{}' 2>&1 </dev/null", script, output).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, TemporaryDirectory::read(output)};
}

/// Whether `text` fits a line where `…` is any text.
bool line_fits(std::string_view shown, std::string_view text) {
  constexpr std::string_view kAny = "…";
  const size_t any = shown.find(kAny);
  if (any == shown.npos) return shown == text;
  if (!text.starts_with(shown.substr(0, any))) return false;
  const std::string_view rest = shown.substr(any + kAny.size());
  for (size_t begin = any; begin <= text.size(); ++begin) {
    if (line_fits(rest, text.substr(begin))) return true;
  }
  return false;
}

using Lines = std::vector<std::string>;

bool lines_fit(const Lines& shown, size_t i, const Lines& text, size_t j) {
  if (i == shown.size()) return j == text.size();
  if (shown[i] == "…") {
    for (size_t end = j; end <= text.size(); ++end) {
      if (lines_fit(shown, i + 1, text, end)) return true;
    }
    return false;
  }
  return j < text.size() && line_fits(shown[i], text[j]) && lines_fit(shown, i + 1, text, j + 1);
}

/// What a fresh clone has, without copying it.
void fill_folder(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(data_root())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name == "build" || name == "shared") continue;
    fs::create_symlink(fs::absolute(entry.path()), folder / name);
  }
}

/// ./dev is not run: it would build, test, or change this machine. But it must know the word.
std::string check_dev(const std::string& command) {
  const std::string word = command.substr(6, command.find(' ', 6) - 6);
  return read_data("dev").find("\n  " + word + " ") != std::string::npos
             ? ""
             : fmt::format("./dev has no command `{}`", word);
}

/// What went otherwise than shown, or "".
std::string try_command(const Command& command, const fs::path& folder,
                        const CommandSetting& setting) {
  if (command.text.starts_with("./dev ")) return check_dev(command.text);
  const Ran ran = run(folder, command.text, setting);
  const bool on_gpu = needs_gpu(command.text);
  if (setting.cuda && on_gpu && !setting.gpu) {
    if (ran.exit_code == 1 && fits_shown(gpu_error(), ran.output)) return "";
    return fmt::format("without a GPU, exit code {}:\n{}", ran.exit_code, ran.output);
  }
  if (!setting.cuda && (on_gpu || needs_cuda(command.text))) {
    const bool said = ran.output.find("this build of rnnc has no CUDA backend") != ran.output.npos;
    return said ? "" : "without CUDA, prints\n" + ran.output;
  }
  const bool fails = command.shown.find("error: ") != std::string::npos;
  if (fails ? ran.exit_code == 0 : ran.exit_code != 0) {
    return fmt::format("exit code {}:\n{}", ran.exit_code, ran.output);
  }
  const bool compared = command.shows_output && on_gpu == setting.gpu;
  if (!compared || fits_shown(command.shown, ran.output)) return "";
  return fmt::format("prints\n{}", ran.output);
}

}  // namespace

bool fits_shown(const std::string& shown, const std::string& text) {
  Lines lines = lines_of(text);
  std::erase(lines, "");  // which documents leave out
  return lines_fit(lines_of(shown), 0, lines, 0);
}

std::vector<std::string> documents_with_commands() {
  std::vector<std::string> documents;
  const fs::path root = data_root();
  fs::recursive_directory_iterator walk(root);
  for (auto entry = fs::begin(walk); entry != fs::end(walk); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name.starts_with('.') || name == "build" || name == "shared")) {
      entry.disable_recursion_pending();
    }
    if (entry->path().extension() != ".md") continue;
    const std::string document = fs::relative(entry->path(), root).string();
    const std::vector<Block> blocks = blocks_of(read_data(document));
    const bool has_commands = std::ranges::any_of(blocks, [](const Block& block) {
      return std::ranges::any_of(lines_of(block.text), begins_with_command);
    });
    if (has_commands) documents.push_back(document);
  }
  std::ranges::sort(documents);
  return documents;
}

std::vector<std::string> run_document(const std::string& document, const CommandSetting& setting) {
  const TemporaryDirectory folder;
  fill_folder(folder.path());
  std::vector<std::string> problems;
  for (const Block& block : blocks_of(read_data(document))) {
    write_block(block, folder);
    if (block.kind != "sh" && block.kind != "console") {
      if (!std::ranges::any_of(lines_of(block.text), begins_with_command)) continue;
      problems.push_back(
          fmt::format("{}:{}: commands in a block that is neither `sh` nor "
                      "`console`",
                      document, block.line));
      continue;
    }
    for (const Command& command : commands_of(block)) {
      const std::string problem = try_command(command, folder.path(), setting);
      if (problem.empty()) continue;
      problems.push_back(
          fmt::format("{}:{}: `{}`: {}", document, command.line, command.text, problem));
    }
  }
  return problems;
}

}  // namespace rnnc::test
