/// The command line as a whole: what it takes, what it says of what it does not, `-`, completion.
#include <nlohmann/json.hpp>

#include "runtime/arrays/safetensors.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

/// Every command, with arguments that are enough for it to begin.
const std::vector<std::vector<std::string>> kCommands = {
    {"check", "toy.rnn"},
    {"fmt", "toy.rnn"},
    {"lsp"},
    {"weights", "toy.rnn"},
    {"inputs", "toy.rnn"},
    {"run", "toy.rnn"},
    {"explain", "toy.rnn"},
    {"serve", "toy.rnn"},  // which is no folder
    {"emit", "--as", "ast", "toy.rnn"},
    {"bench", "toy.rnn"},
    {"bench", "ladder", "toy.rnn"},
    {"profile", "toy.rnn"},
    {"debug", "toy.rnn"},
    {"compile", "toy.rnn"},
    {"gradcheck", "toy.rnn"},
    {"devices"},
    {"cache"},
    {"completion", "bash"},
    {"help", "run"},
};

/// "bench ladder", of the words above.
std::string name_of(const std::vector<std::string>& command) {
  return command.size() > 1 && command[1] == "ladder" ? command[0] + " ladder" : command[0];
}

class CommandLine : public Tools {};

TEST_F(CommandLine, HelpHasAnExampleEverywhere) {
  EXPECT_NE(good({"--help"}).find("Examples:\n  rnnc check"), std::string::npos);
  for (const std::vector<std::string>& command : kCommands) {
    EXPECT_NE(good({"--help"}).find("\n  " + command[0]), std::string::npos);
    std::vector<std::string> words = {command[0]};
    if (name_of(command) == "bench ladder") words.emplace_back("ladder");
    std::vector<std::string> asking = words;
    asking.emplace_back("--help");
    const std::string help = good(asking);
    EXPECT_NE(help.find("\n  rnnc " + name_of(command)), std::string::npos) << help;
    asking.back() = "-h";
    EXPECT_EQ(good(asking), help);
    words.insert(words.begin(), "help");
    EXPECT_EQ(good(words), help);
  }
  EXPECT_EQ(good({"help"}), good({"--help"}));
  EXPECT_EQ(bad(2, {"help", "rnu"}), usage_error("rnnc", "there is no command `rnu`", "run"));
  EXPECT_EQ(bad(2, {"help", "bench", "x"}), usage_error("rnnc bench", "there is no command `x`"));
}

TEST_F(CommandLine, HelpTellsTheExitCodes) {
  EXPECT_NE(good({"--help"})
                .find("Exit codes: 0 success, 1 an error in files, values or the "
                      "machine, 2 a wrong command line."),
            std::string::npos);
}

TEST_F(CommandLine, VersionNamesTheBackends) {
  EXPECT_EQ(good({"--version"}).substr(0, 5 + std::string(RNNC_VERSION).size()),
            "rnnc " RNNC_VERSION);
  EXPECT_NE(good({"--version"}).find("(backends:"), std::string::npos);
}

TEST_F(CommandLine, WhatIsWrongIsSaidInOneWay) {
  EXPECT_EQ(bad(2, {"run", "toy.rnn", "--thread", "2"}),
            "rnnc: error: unknown option `--thread`\n"
            "  hint: did you mean `--threads`? see `rnnc run --help`\n");
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& command,
                          const std::string& problem, const std::string& meant = "") {
    EXPECT_EQ(bad(2, arguments), usage_error(command, problem, meant));
  };
  expect({}, "rnnc", "expected a command");
  expect({"chekc", "toy.rnn"}, "rnnc", "there is no command `chekc`", "check");
  expect({"xyzzy"}, "rnnc", "there is no command `xyzzy`");
  expect({"--versoin", "devices"}, "rnnc", "unknown option `--versoin`", "--version");
  expect({"check"}, "rnnc check", "FILE is required");
  expect({"emit", "toy.rnn"}, "rnnc emit", "--as is required");
  expect({"completion"}, "rnnc completion", "SHELL is required");
  expect({"completion", "csh"}, "rnnc completion",
         "SHELL: expected one of bash, zsh, fish, got `csh`");
  expect({"run", "toy.rnn", "--chunks", "2"}, "rnnc run", "unknown option `--chunks`", "--chunk");
  expect({"run", "toy.rnn", "--chunks=2"}, "rnnc run", "unknown option `--chunks=2`", "--chunk");
  expect({"run", "toy.rnn", "two.rnn"}, "rnnc run", "unexpected `two.rnn`");
  expect({"devices", "all"}, "rnnc devices", "unexpected `all`");
  expect({"run", "toy.rnn", "--dtype"}, "rnnc run", "--dtype: expected TYPE after it");
  expect({"run", "toy.rnn", "--dtype", "f8"}, "rnnc run",
         "--dtype: expected one of f32, f64, bf16, f16, got `f8`");
  expect({"run", "toy.rnn", "--input"}, "rnnc run", "--input: expected NAME=FILE after it");
  expect({"run", "toy.rnn", "--cell", "A", "--cell", "B"}, "rnnc run", "--cell is given twice");
  expect({"run", "toy.rnn", "--time=no"}, "rnnc run", "--time takes no value");
  expect({"run", "toy.rnn", "--json"}, "rnnc run", "--json requires --time");
  expect({"explain", "toy.rnn", "--json", "--html"}, "rnnc explain", "--json excludes --html");
  expect({"weights", "toy.rnn", "--random"}, "rnnc weights",
         "--random: its bytes are not text: give -o FILE");
  expect({"inputs", "toy.rnn", "--random"}, "rnnc inputs",
         "--random: say what to write with -o NAME=FILE");
}

TEST_F(CommandLine, NumbersAreDecimalAndInRange) {
  for (const std::string text : {"-1", "x", "1.5", "18446744073709551616"}) {
    EXPECT_EQ(bad(2, {"run", "toy.rnn", "--seed", text}),
              usage_error("rnnc run", "--seed: expected a whole number from 0 to 2^64 - 1, got `" +
                                          text + "`"));
  }
  for (const std::string text : {"0", "16777217", "0x10", "1e3", ""}) {
    EXPECT_EQ(
        bad(2, {"emit", "toy.rnn", "--as", "plan", "--batch", text}),
        usage_error("rnnc emit",
                    "--batch: expected a whole number from 1 to 16777216, got `" + text + "`"));
  }
  EXPECT_EQ(bad(2, {"bench", "toy.rnn", "--seconds", "nan"}),
            usage_error("rnnc bench", "--seconds: expected a number from 0 to 3600, got `nan`"));
}

TEST_F(CommandLine, PairsThatDoNotParseAreUsageErrors) {
  const auto expect = [&](const std::vector<std::string>& options, const std::string& problem) {
    std::vector<std::string> arguments = {"run", "toy.rnn"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(bad(2, arguments), usage_error("rnnc run", problem));
  };
  expect({"--input", "x.npy"}, "--input: expected NAME=FILE, such as x=x.npy, got `x.npy`");
  expect({"--final", "h="}, "--final: expected NAME=FILE, such as x=x.npy, got `h=`");
  expect({"--output", "=f"}, "--output: expected NAME=FILE, such as x=x.npy, got `=f`");
  expect({"--init", "h=a.npy", "--init", "h=b.npy"}, "--init: `h` is given twice");
  for (const std::string text : {"H", "H=", "=3", "H=x", "H=3x", "H=99999999999999999999"}) {
    expect({"--dim", text}, "--dim: expected NAME=NUMBER, such as H=512, got `" + text + "`");
  }
  expect({"--dim", "H=3", "--dim=H=4"}, "--dim: `H` is given twice");
  expect({"--device", "gpu"}, "--device: unknown device `gpu`: expected `cpu`, `cuda` or `cuda:1`");
}

TEST_F(CommandLine, AMarkMakesFilesOfWhatFollows) {
  directory_.write("-dashed.rnn", "cell A[H](x: [H]) -> y {\n  y = x[t]\n}\n");
  directory_.write("++", "cell A[H](x: [H]) -> y {\n  y = x[t]\n}\n");
  EXPECT_EQ(good({"check", "--", "-dashed.rnn"}), "./-dashed.rnn: ok\n");
  EXPECT_EQ(good({"check", "++", "toy.rnn"}), "./++: ok\ntoy.rnn: ok\n");
  EXPECT_EQ(good({"check", "toy.rnn", "--", "two.rnn"}), "toy.rnn: ok\ntwo.rnn: ok\n");
  EXPECT_EQ(bad(1, {"check", "--", "--"}),
            "rnnc: error: cannot read `./--`: No such file or directory\n");
  // A mark changes nothing for words that need none, wherever it stands.
  for (const std::vector<std::string>& command : kCommands) {
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{}, {"x", "y", "z"}, {"--help"}, {"--"}, {"-"}}) {
      std::vector<std::string> plain = command;
      std::vector<std::string> marked = command;
      marked.emplace_back("--");
      for (const std::string& word : more) {
        plain.push_back(word.starts_with("--") ? "./" + word : word);
        marked.push_back(word);
      }
      const CommandResult expected = rnnc(plain);
      const CommandResult result = rnnc(marked);
      EXPECT_EQ(result.exit_code, expected.exit_code) << fmt::format("{}", fmt::join(marked, " "));
      EXPECT_EQ(result.errors, expected.errors);
    }
  }
}

TEST_F(CommandLine, ADashIsStandardInput) {
  const std::string toy = TemporaryDirectory::read(directory_ / "toy.rnn");
  const auto given = [&](const std::string& input, const std::vector<std::string>& arguments) {
    const CommandResult result = run_command(directory_.path(), arguments, input);
    EXPECT_EQ(result.errors, "");
    return result.output;
  };
  EXPECT_EQ(given(toy, {"check", "-"}), "<stdin>: ok\n");
  EXPECT_NE(given(toy, {"check", "-", "--json"}).find("\"file\": \"<stdin>\""), std::string::npos);
  EXPECT_EQ(given(toy, {"weights", "-"}), "W [H, I]\nb [H]\n");
  EXPECT_EQ(given(toy, {"inputs", "-"}), "x [T, B, I]\n");
  EXPECT_EQ(given(toy, {"emit", "-", "--as", "graph"}),
            good({"emit", "toy.rnn", "--as", "graph", "-o", "-"}));
  EXPECT_EQ(run_command(directory_.path(), {"check", "-"}, "cell").errors.substr(0, 14),
            "<stdin>:1:5: e");
  EXPECT_EQ(bad(1, {"weights", "toy.rnn", "--weights", "-"}).substr(0, 22),
            "rnnc: error: `<stdin>`");
  const std::string folder = "'" RNNC_BINARY_DIR "/tools/rnnc' check - < .";
  EXPECT_EQ(run_program(directory_.path(), {"/bin/sh", "-c", folder}).errors,
            "rnnc: error: cannot read standard input: Is a directory\n");
  EXPECT_EQ(bad(2, {"check", "-", "-"}),
            usage_error("rnnc check", "standard input serves one file only, and several are `-`"));
  EXPECT_EQ(bad(2, {"run", "-", "--input", "x=-"}),
            usage_error("rnnc run", "standard input serves one file only, and several are `-`"));
}

TEST_F(CommandLine, ADashIsStandardOutput) {
  const std::vector<std::string> weights = {"weights", "toy.rnn", "--dim",    "I=3",
                                            "--dim",   "H=4",     "--random", "-o"};
  const auto to = [](std::vector<std::string> words, const std::string& file) {
    words.push_back(file);
    return words;
  };
  good(to(weights, "w.safetensors"));
  EXPECT_EQ(good(to(weights, "-")), TemporaryDirectory::read(directory_ / "w.safetensors"));
  const std::vector<std::string> inputs = {"inputs",  "toy.rnn", "--dim",    "I=3",
                                           "--batch", "2",       "--random", "-o"};
  good(to(inputs, "x=x.npy"));
  EXPECT_EQ(good(to(inputs, "x=-")), TemporaryDirectory::read(directory_ / "x.npy"));
  std::vector<std::string> both = to(inputs, "x=-");
  both.insert(both.end(), {"--lengths", "-"});
  EXPECT_EQ(bad(2, both), usage_error("rnnc inputs",
                                      "standard output takes one result only, and several go to "
                                      "`-`"));
  EXPECT_EQ(bad(2, {"run", "toy.rnn", "--output", "h=-", "--time"}),
            usage_error("rnnc run", "--time prints to standard output, where a result goes, too"));
  EXPECT_EQ(bad(2, {"bench", "ladder", "--json", "-", "--svg", "-"}).substr(0, 28),
            "rnnc: error: standard output");
}

#ifdef RNNC_WITH_CPU
TEST_F(CommandLine, ARunReadsAndWritesStreams) {
  good({"weights", "toy.rnn", "--dim", "I=3", "--dim", "H=4", "--random", "--seed", "7", "-o",
        "w.safetensors"});
  good({"inputs", "toy.rnn", "--dim", "I=3", "--batch", "2", "--steps", "5", "--random", "-o",
        "x=x.npy", "--lengths", "n.npy"});
  const std::vector<std::string> run = {"run", "toy.rnn", "--lengths", "n.npy", "--output"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), run.begin(), run.end());
    return words;
  };
  good(with({"h=y.npy", "--weights", "w.safetensors", "--input", "x=x.npy"}));
  const std::string results = TemporaryDirectory::read(directory_ / "y.npy");
  const auto streamed = [&](const std::string& from, const std::vector<std::string>& words) {
    const std::string input = TemporaryDirectory::read(directory_ / from);
    const CommandResult result = run_command(directory_.path(), with(words), input);
    EXPECT_EQ(result.errors, "");
    return result.output;
  };
  EXPECT_EQ(streamed("x.npy", {"h=-", "--weights", "w.safetensors", "--input", "x=-"}), results);
  EXPECT_EQ(streamed("w.safetensors", {"h=-", "--weights", "-", "--input", "x=x.npy"}), results);
  // `--seed` gives the weights that `weights --random` writes.
  EXPECT_EQ(good(with({"h=-", "--seed", "7", "--dim", "H=4", "--input", "x=x.npy"})), results);
}

TEST_F(CommandLine, ARunTellsItsTimesAsJson) {
  good({"inputs", "toy.rnn", "--dim", "I=3", "--batch", "2", "--steps", "5", "--random", "-o",
        "x=x.npy"});
  const auto json = nlohmann::json::parse(good(
      {"run", "toy.rnn", "--dim", "H=4", "--seed", "1", "--input", "x=x.npy", "--time", "--json"}));
  EXPECT_EQ(json["name"], "Toy");
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["dtype"], "f32");
  EXPECT_EQ(json["steps"], 5);
  EXPECT_EQ(json["batch"], 2);
  EXPECT_GT(json["microseconds_per_step"], 0);
  EXPECT_GT(json["cold_seconds"], 0);
  EXPECT_GE(json["runs"], 1);
}
#endif

TEST_F(CommandLine, RandomFilesAreTheSameEverywhere) {
  const std::vector<std::string> weights = {"weights",  "toy.rnn", "--dim",        "I=3",
                                            "--dim",    "H=4",     "--seed",       "3",
                                            "--random", "-o",      "w.safetensors"};
  good(weights);
  const auto tensors = read_safetensors(directory_ / "w.safetensors");
  ASSERT_TRUE(tensors);
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "W");
  EXPECT_EQ((*tensors)[0].array.shape, (std::vector<int64_t>{4, 3}));
  for (const double value : (*tensors)[0].array.to_doubles()) EXPECT_LT(std::abs(value), 0.5774);
  EXPECT_FLOAT_EQ((*tensors)[0].array.to_doubles()[0], 0.21403278f);

  good({"inputs", "toy.rnn", "--dim", "I=3", "--batch", "4", "--steps", "6", "--random", "--output",
        "x=x.npy", "--lengths", "n.npy"});
  EXPECT_EQ(read_array("x.npy").shape, (std::vector<int64_t>{6, 4, 3}));
  const Result<IntegerArray> lengths = read_npy_integers(directory_ / "n.npy");
  ASSERT_TRUE(lengths);
  EXPECT_EQ(lengths->shape, (std::vector<int64_t>{4}));
  for (const int64_t length : lengths->values) EXPECT_TRUE(length >= 1 && length <= 6) << length;
}

TEST_F(CommandLine, InputsAreListed) {
  EXPECT_EQ(good({"inputs", "toy.rnn"}), "x [T, B, I]\n");
  EXPECT_EQ(good({"inputs", "toy.rnn", "--dim", "I=3", "--dim", "H=4"}), "x [T, B, 3]\n");
  EXPECT_EQ(bad(1, {"inputs", "toy.rnn", "--random", "-o", "x=x.npy"}),
            "rnnc: error: Toy: no value for dim `I`\n  give each with --dim NAME=NUMBER\n");
  EXPECT_EQ(bad(1, {"inputs", "toy.rnn", "--dim", "I=3", "--random", "-o", "y=y.npy"}),
            "rnnc: error: `Toy` has no input `y`; it has x\n");
  // Dims that choose the layers are among those that no input has.
  const std::string stack = RNNC_SOURCE_DIR "/examples/networks/stacked_lstm.rnn";
  EXPECT_EQ(good({"inputs", stack, "--dim", "L=2", "--dim", "F=3"}), "x [T, B, 3]\n");
  good({"inputs", stack, "--dim", "L=2", "--dim", "F=3", "--random", "-o", "x=x.npy"});
  const std::string huge = bad(1, {"inputs", "toy.rnn", "--dim", "I=2147483647", "--batch",
                                   "16777216", "--steps", "16777216", "--random", "-o", "x=x.npy"});
  EXPECT_EQ(huge.substr(0, 55), "rnnc: error: not enough memory: the random inputs take ") << huge;
}

/// What `rnnc` answers to a shell for a line.
std::string candidates(const std::string& output) {
  std::string words;
  for (size_t begin = 0; begin < output.size();) {
    const size_t end = output.find('\n', begin);
    const std::string line = output.substr(begin, end - begin);
    words += (words.empty() ? "" : " ") + line.substr(0, line.find('\t'));
    begin = end + 1;
  }
  return words;
}

TEST_F(CommandLine, EveryWordCanBeCompleted) {
  const auto after = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "__complete");
    return candidates(good(words));
  };
  EXPECT_EQ(after({"ch"}), "words check");
  EXPECT_EQ(after({""}),
            "words check fmt lsp weights inputs run explain serve emit bench profile debug compile "
            "gradcheck "
            "devices cache completion help");
  EXPECT_EQ(after({"bench", ""}), "files  ladder scan");
  EXPECT_EQ(after({"help", ""}), after({""}));
  EXPECT_EQ(after({"help", "bench", ""}), "words ladder scan");
  EXPECT_EQ(after({"completion", ""}), "words bash zsh fish");
  EXPECT_EQ(after({"devices", ""}), "words");
  EXPECT_EQ(after({"run", "t"}), "files ");
  EXPECT_EQ(after({"run", "--", "-"}), "files ");
  EXPECT_EQ(after({"run", "toy.rnn", "--weight"}), "words --weights --weight-map --weight-prefix");
  EXPECT_EQ(after({"run", "toy.rnn", "--dtype", ""}), "words f32 f64 bf16 f16");
  EXPECT_EQ(after({"run", "toy.rnn", "--dtype=b"}), "words --dtype=bf16");
  EXPECT_EQ(after({"run", "toy.rnn", "--weights=w"}), "files --weights=");
  EXPECT_EQ(after({"run", "toy.rnn", "--passes", "hoist,me"}), "words hoist,merge");
  // From the file: its cells, dims, inputs, outputs and states.
  EXPECT_EQ(after({"run", "two.rnn", "--cell", ""}), "words Sum Scale");
  EXPECT_EQ(after({"run", "toy.rnn", "--dim", ""}), "words I= H=");
  EXPECT_EQ(after({"run", "toy.rnn", "--input", ""}), "words x=");
  EXPECT_EQ(after({"run", "toy.rnn", "--input", "x=a"}), "files x=");
  EXPECT_EQ(after({"run", "two.rnn", "--cell", "Sum", "--final", ""}), "words s=");
  EXPECT_EQ(after({"run", "two.rnn", "--cell=Scale", "--output", ""}), "words y=");
  EXPECT_EQ(after({"inputs", "toy.rnn", "-o", ""}), "words x=");
  EXPECT_EQ(after({"run", "missing.rnn", "--input", ""}), "words");
  EXPECT_EQ(after({"run", "bad.rnn", "--input", ""}), "words");
}

TEST_F(CommandLine, BashCompletes) {
  directory_.write("complete.bash", good({"completion", "bash"}));
  directory_.write("a file.npy", "");
  // Words as readline breaks them; `compopt` is for a line that is being typed.
  directory_.write("try.bash", R"(
compopt() { :; }
source complete.bash
try() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _rnnc ")" RNNC_BINARY_DIR R"(/tools/rnnc"
  printf '<%s>' "${COMPREPLY[@]}"; echo
}
try rnnc ch
try rnnc run toy
try rnnc run toy.rnn --input ''
try rnnc run toy.rnn --input x = 'a f'
try rnnc run toy.rnn --dtype = b
try rnnc run toy.rnn --weights = tw
complete -p rnnc
)");
  const CommandResult result = run_program(directory_.path(), {"/bin/bash", "try.bash"});
  EXPECT_EQ(result.errors, "");
  EXPECT_EQ(result.output,
            "<check>\n<toy.rnn>\n<x=>\n<a file.npy>\n<bf16>\n<two.rnn>\n"
            "complete -F _rnnc rnnc\n");
}

}  // namespace
}  // namespace rnnc::test
