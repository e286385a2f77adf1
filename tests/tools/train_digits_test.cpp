/// The example that learns to read digits: it does, and goes on after it was killed.
#ifdef RNNC_WITH_CPU
#include "runtime/arrays/npy.h"
#include "tests/tools/training_program.h"

namespace rnnc::test {
namespace {

class TrainDigits : public TrainingProgram {
 protected:
  TrainDigits() : TrainingProgram("train_digits", {"--report=1", "--hidden=8", "--batch=16"}) {}

  /// digits.rnn with another cell of examples/cells.
  std::string model_with(const std::string& cell, const std::string& file) const {
    std::string text = read_data("examples/train_digits/digits.rnn");
    text = std::regex_replace(text, std::regex("\\.\\./cells/lstm"),
                              (data_root() / "examples/cells" / file).string());
    text = std::regex_replace(text, std::regex("LSTM"), cell);
    directory_.write("model.rnn", text);
    return "model.rnn";
  }
};

TEST_F(TrainDigits, ReadsAlmostAllThatAreHeldOut) {
  const CommandResult result = train({"--quiet"});
  EXPECT_EQ(result.errors, "");
  EXPECT_GE(held_out(result.output), 95) << result.output;
  EXPECT_NE(result.output.find(" % of 359 images are read right\n"), std::string::npos);
}

TEST_F(TrainDigits, WithOtherCells) {
  for (const auto& [cell, file] :
       {std::pair{"GRU", "gru"}, std::pair{"Elman", "elman"}, std::pair{"JANET", "janet"}}) {
    const CommandResult result = train({model_with(cell, file), "--quiet"});
    EXPECT_EQ(result.errors, "");
    EXPECT_GE(held_out(result.output), 92) << cell << ": " << result.output;
  }
}

TEST_F(TrainDigits, InFloat64) {
  EXPECT_NEAR(held_out(lines({"--steps=60", "--dtype=f64"})), held_out(lines({"--steps=60"})), 4);
}

/// Whatever it did when it was killed, the file is that of some step, and the lines behind it are
/// those of a run that nobody killed.
TEST_F(TrainDigits, GoesOnAfterItWasKilled) {
  const CommandResult killed = run_program(
      directory_.path(),
      {"/bin/sh", "-c",
       path() + " --threads=1 --report=1 --hidden=8 --batch=16 --steps=1000000"
                " --checkpoint=c.safetensors & pid=$!\n"
                "while [ ! -e c.safetensors ]; do sleep 0.02; done; sleep 0.3; kill -9 $pid"});
  EXPECT_EQ(killed.exit_code, 0);
  const size_t last = killed.output.rfind("\nstep");
  ASSERT_NE(last, std::string::npos) << killed.output;
  const std::string steps =
      fmt::format("--steps={}", std::stoi(killed.output.substr(last + 5)) + 9);
  const auto losses = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {steps};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string text = lines(arguments);
    return text.substr(text.find('\n'));
  };
  const std::string resumed = losses({"--checkpoint=c.safetensors", "--resume"});
  const std::string whole = losses({"--checkpoint=w.safetensors"});
  EXPECT_GT(std::ranges::count(resumed, '\n'), 9);
  EXPECT_LT(resumed.size(), whole.size());
  EXPECT_TRUE(whole.ends_with(resumed)) << resumed << "\nis not the end of" << whole;
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "c.safetensors"),
            TemporaryDirectory::read(directory_ / "w.safetensors"));
}

TEST_F(TrainDigits, CheckpointsAreRunByTheCommand) {
  lines({"--steps=1", "--checkpoint=trained.safetensors"});
  const std::string model = (data_root() / "examples/train_digits/digits.rnn").string();
  good({"inputs", model, "--cell=Digits", "--steps=8", "--random", "-o", "x=x.npy"});
  good({"run", model, "--cell=Digits", "--weights=trained.safetensors", "--weight-prefix=param.",
        "--input=x=x.npy", "--output=y=y.npy"});
  EXPECT_EQ(read_array("y.npy").shape, (std::vector<int64_t>{8, 1, 10}));
}

TEST_F(TrainDigits, DoesWhatItsReadmeShows) {
  EXPECT_EQ(run_documented(read_data("examples/train_digits/README.md")), 2u);
}

TEST_F(TrainDigits, SaysWhatIsWrong) {
  const auto write_images = [&](int64_t count, int64_t width, int64_t value) {
    const std::vector<int64_t> values(static_cast<size_t>(count * width), value);
    directory_.write("images.npy", format_npy_integers({{count, width}, values}));
  };
  const auto problem_of = [&](std::vector<std::string> more) {
    more.emplace_back("--images=images.npy");
    return problem(std::move(more));
  };
  EXPECT_EQ(problem_of({}), error() + "cannot read `images.npy`: No such file or directory\n");
  write_images(10, 64, 1);
  EXPECT_EQ(problem_of({}), error() +
                                "images.npy is [10, 64]: images are [N, 65], 64 pixels and the "
                                "digit each, at least 5\n");
  write_images(10, 65, 10);
  EXPECT_EQ(problem_of({}), error() +
                                "images.npy: value 64 of image 0 is 10: pixels are 0 to 16 and "
                                "digits 0 to 9\n");
  write_images(10, 65, 1);
  EXPECT_EQ(problem_of({}),
            error() + "images.npy has 8 images to train on: too few for --batch 64\n");
  EXPECT_EQ(problem({"--lr=0"}),
            error() + "--lr: 0 is not greater than 0\n  see train_digits --help\n");
  EXPECT_EQ(problem({"toy.rnn"}),
            error() + "`Toy` needs an input `target` of [10], a one-hot digit\n");
  directory_.write("sum.rnn",
                   "cell Sum(x: [8], target: [10]) -> loss {\n"
                   "  loss = sum(x[t]) * sum(target[t])\n}\n");
  EXPECT_EQ(problem({"sum.rnn"}),
            error() + "`Sum` needs an output `logits` of [10], one of each digit\n");
  const CommandResult diverged = train({"--lr=1e30", "--steps=9"});
  EXPECT_NE(diverged.exit_code, 0);
  EXPECT_NE(diverged.errors.find("nan: a smaller --lr may help"), std::string::npos)
      << diverged.errors;
}

}  // namespace
}  // namespace rnnc::test
#endif
