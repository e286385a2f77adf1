/// The training example: its loss falls, and a run that was stopped goes on as if it had not been.
#ifdef RNNC_WITH_CPU
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "tests/support/reference/golden.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

class TrainCharLM : public Tools {
 protected:
  CommandResult train(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {RNNC_BINARY_DIR "/examples/train_charlm", "--threads=1"});
    return run_program(directory_.path(), arguments);
  }
  /// The output of a run that succeeds, without speeds.
  std::string lines(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--report=1", "--hidden=24", "--batch=4", "--length=32"});
    const CommandResult result = train(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::istringstream output(result.output);
    std::string text;
    for (std::string line; std::getline(output, line);) {
      text += line.substr(0, line.find("character ")) + "\n";
    }
    return text;
  }
  std::string problem(std::vector<std::string> arguments) const {
    const CommandResult result = train(std::move(arguments));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.output, "");
    return result.errors;
  }
};

double held_out(const std::string& lines) {
  return std::stod(lines.substr(lines.find("held out  ") + 10));
}

TEST_F(TrainCharLM, LossFalls) {
  const std::string few = lines({"--steps=1"});
  const std::string many = lines({"--steps=120", "--lr=0.02"});
  EXPECT_NEAR(held_out(few), std::log2(58.0), 0.2) << few;  // as if all characters were as likely
  EXPECT_LT(held_out(many), 3.8) << many;
}

/// Of a text that it has read once and a half, at which the states begin anew.
TEST_F(TrainCharLM, ResumedIsWhatItWouldHaveBeen) {
  directory_.write("short.txt", read_data("examples/char_model/excerpt.txt").substr(0, 1200));
  const auto run = [&](const std::string& steps, const std::string& file, bool resume) {
    std::vector<std::string> arguments = {"--text=short.txt", "--steps=" + steps,
                                          "--checkpoint=" + file};
    if (resume) arguments.emplace_back("--resume");
    const std::string text = lines(arguments);
    return text.substr(text.find('\n') + 1);
  };
  const std::string whole = run("13", "whole.safetensors", false);
  const std::string begun = run("5", "parts.safetensors", false);
  const std::string rest = run("13", "parts.safetensors", true);
  EXPECT_EQ(begun.substr(0, begun.find("held")) + rest, whole);
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "parts.safetensors"),
            TemporaryDirectory::read(directory_ / "whole.safetensors"));
}

TEST_F(TrainCharLM, TrainsAnyLossOverCharacters) {
  directory_.write("own.rnn", R"(
/// The inputs in another order, a learned first state, an earlier input, and another output.
cell Own[C, H = 8](target: [C], x: [C]) -> (y, loss) {
  state h: [H] = tanh(h0)
  param h0: [H]
  param W, V: [H, C]
  param R: [H, H]
  param O: [C, H]
  h[t] = tanh(W @ x[t] + V @ x[t-1] + R @ h[t-1])
  y = O @ h[t]
  loss = cross_entropy(y, target[t])
}
)");
  const CommandResult result =
      train({"own.rnn", "--steps=40", "--batch=4", "--length=32", "--lr=0.02", "--quiet"});
  EXPECT_EQ(result.errors, "");
  EXPECT_LT(held_out(result.output), 5) << result.output;
  EXPECT_EQ(result.output.find("step"), std::string::npos);
}

TEST_F(TrainCharLM, CheckpointsAreRunByTheCommand) {
  lines({"--steps=1", "--checkpoint=trained.safetensors"});
  const std::string model = (data_root() / "examples/train_charlm/char_lm.rnn").string();
  good({"inputs", model, "--cell=CharLM", "--dim=V=58", "--steps=3", "--random", "-o", "x=x.npy"});
  good({"run", model, "--cell=CharLM", "--weights=trained.safetensors", "--weight-prefix=param.",
        "--input=x=x.npy", "--output=y=y.npy"});
  EXPECT_EQ(read_array("y.npy").shape, (std::vector<int64_t>{3, 1, 58}));
}

/// Those with a checkpoint of docs/training.md and of the example's README, for fewer steps.
TEST_F(TrainCharLM, DoesWhatDocumentsShow) {
  const std::string document = read_data("docs/training.md");
  const std::string fence = "```rnn minimal_lm.rnn\n";
  const size_t begin = document.find(fence) + fence.size();
  directory_.write("minimal_lm.rnn", document.substr(begin, document.find("```", begin) - begin));
  std::istringstream documents(document + read_data("examples/train_charlm/README.md"));
  size_t count = 0;
  for (std::string line; std::getline(documents, line);) {
    const size_t place = line.find("train_charlm ");
    if (!line.starts_with("    ") || line.find("--checkpoint") == line.npos) continue;
    const std::string few = fmt::format("--steps {}", ++count);
    const std::string command =
        std::regex_replace(line.substr(place), std::regex("--steps [0-9]+"), few);
    const CommandResult result =
        run_program(directory_.path(),
                    {"/bin/sh", "-c", RNNC_BINARY_DIR "/examples/" + command + " --threads 1"});
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.errors;
    EXPECT_NE(result.output.find("\nheld out"), std::string::npos) << result.output;
  }
  EXPECT_EQ(count, 3u);
}

TEST_F(TrainCharLM, SaysWhatIsWrong) {
  const std::string error = "train_charlm: error: ";
  EXPECT_EQ(problem({"--batch=0"}),
            error + "--batch: 0 is not greater than 0\n  see train_charlm --help\n");
  EXPECT_EQ(problem({"--dim=H"}),
            error + "--dim: H is not of the form NAME=NUMBER\n  see train_charlm --help\n");
  EXPECT_EQ(problem({"--resume"}),
            error + "--resume requires --checkpoint\n  see train_charlm --help\n");
  directory_.write("short.txt", "In the beginning");
  EXPECT_EQ(problem({"--text=short.txt"}),
            error + "short.txt has 16 characters: too few for --batch 16 and --length 64\n");
  EXPECT_EQ(problem({"toy.rnn", "--hidden=4"}),
            error + "`Toy` needs an input `target` of [58], a one-hot character\n");
  EXPECT_NE(problem({"bad.rnn"}).find("bad.rnn:2:14: error: unknown name `z`"), std::string::npos);
  directory_.write("sums.rnn",
                   "cell Sums[V](x: [V], target: [V]) -> loss {\n  loss = x[t] + target[t]\n}\n");
  EXPECT_EQ(problem({"sums.rnn"}), error + "`Sums` needs an output `loss`, a scalar\n");
  const std::string weights = (data_root() / "examples/char_model/char_lm.safetensors").string();
  EXPECT_EQ(problem({"--checkpoint=" + weights, "--resume", "--quiet"}),
            error + weights + " is no checkpoint of train_charlm\n");
  lines({"--steps=1", "--checkpoint=trained.safetensors"});
  EXPECT_EQ(problem({"--checkpoint=trained.safetensors", "--resume", "--quiet", "--hidden=24"}),
            error +
                "trained.safetensors: the arrays do not fit `CharLMLoss`:\n"
                "  state `LSTM.0.h` is [4, 24], expected [16, 24]\n"
                "  state `LSTM.0.c` is [4, 24], expected [16, 24]\n");
}

}  // namespace
}  // namespace rnnc::test
#endif
