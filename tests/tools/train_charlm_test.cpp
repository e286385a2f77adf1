/// The training example: its loss falls, and a run that was stopped goes on as if it had not been.
#ifdef RNNC_WITH_CPU
#include <cmath>

#include "tests/tools/training_program.h"

namespace rnnc::test {
namespace {

class TrainCharLM : public TrainingProgram {
 protected:
  TrainCharLM()
      : TrainingProgram("train_charlm", {"--report=1", "--hidden=24", "--batch=4", "--length=32"}) {
  }
};

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
  EXPECT_EQ(run_documented(document + read_data("examples/train_charlm/README.md")), 3u);
}

TEST_F(TrainCharLM, SaysWhatIsWrong) {
  EXPECT_EQ(problem({"--batch=0"}),
            error() + "--batch: 0 is not greater than 0\n  see train_charlm --help\n");
  EXPECT_EQ(problem({"--dim=H"}),
            error() + "--dim: H is not of the form NAME=NUMBER\n  see train_charlm --help\n");
  EXPECT_EQ(problem({"--resume"}),
            error() + "--resume requires --checkpoint\n  see train_charlm --help\n");
  directory_.write("short.txt", "In the beginning");
  EXPECT_EQ(problem({"--text=short.txt"}),
            error() + "short.txt has 16 characters: too few for --batch 16 and --length 64\n");
  EXPECT_EQ(problem({"toy.rnn", "--hidden=4"}),
            error() +
                "`Toy` needs an input `target` of [58], a one-hot character, or "
                "`int []`, its number\n");
  directory_.write("more.rnn",
                   "cell More[V](x: [V], target: [V], s: []) -> loss {\n"
                   "  loss = s[t] * sum(x[t] * target[t])\n}\n");
  EXPECT_EQ(problem({"more.rnn"}), error() + "`More` has an input `s` that there is nothing for\n");
  EXPECT_EQ(problem({"--dim=V=10"}), error() + "`V` is 10, but the data have 58: leave it out\n");
  directory_.write("table.rnn",
                   "cell Table[V](x: int [], target: int []) -> loss {\n  param table: [20, V]\n"
                   "  loss = cross_entropy(table[x[t]], one_hot(target[t], V))\n}\n");
  EXPECT_EQ(problem({"table.rnn"}), error() + "`Table` takes `x` below 20, but 58 are needed\n");
  EXPECT_EQ(problem({"--dtype=f12"}), error() + "--dtype: f12 is none of f64, f32, bf16 and f16\n");
  EXPECT_NE(problem({"bad.rnn"}).find("bad.rnn:2:14: error: unknown name `z`"), std::string::npos);
  directory_.write("sums.rnn",
                   "cell Sums[V](x: [V], target: [V]) -> loss {\n  loss = x[t] + target[t]\n}\n");
  EXPECT_EQ(problem({"sums.rnn"}), error() + "`Sums` needs an output `loss`, a scalar\n");
  const std::string weights = (data_root() / "examples/char_model/char_lm.safetensors").string();
  EXPECT_EQ(problem({"--checkpoint=" + weights, "--resume"}),
            error() + weights + " is no checkpoint of a training run\n");
  directory_.write("other.txt", read_data("examples/char_model/excerpt.txt") + "!");
  lines({"--steps=1", "--checkpoint=trained.safetensors"});
  EXPECT_EQ(problem({"--checkpoint=trained.safetensors", "--resume", "--text=other.txt",
                     "--batch=4", "--length=32"}),
            error() + "trained.safetensors was trained on other data\n");
  EXPECT_EQ(problem({"--checkpoint=trained.safetensors", "--resume", "--hidden=24"}),
            error() +
                "trained.safetensors: the arrays do not fit `CharLMLoss`:\n"
                "  state `LSTM.0.h` is [4, 24], expected [16, 24]\n"
                "  state `LSTM.0.c` is [4, 24], expected [16, 24]\n");
}

}  // namespace
}  // namespace rnnc::test
#endif
