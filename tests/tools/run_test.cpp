#ifdef RNNC_WITH_CPU
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/arrays/safetensors.h"
#include "runtime/backend/kernel_cache.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

/// Files for the toy cell with I = 2, H = 3, T = 2, B = 1.
class RunTool : public Tools {
 protected:
  RunTool() {
    write_array("x.npy", {2, 1, 2}, {1, 2, -1, 0.5});
    write_weights("w.safetensors", DType::f64);
  }
  void write_weights(const std::string& name, DType dtype) const {
    const std::vector<NamedArray> weights = {
        {"b", Array::from_doubles({0.5, 0, -0.5}, {3}, dtype)},
        {"W", Array::from_doubles({1, 0, 0, 1, 0.25, 0.25}, {3, 2}, dtype)}};
    EXPECT_TRUE(write_safetensors(directory_ / name, weights));
  }
  /// h of the toy cell, step by step, from `h`.
  static std::vector<double> expected(std::vector<double> h) {
    const double x[2][2] = {{1, 2}, {-1, 0.5}};
    std::vector<double> all;
    for (const auto& step : x) {
      const double sums[3] = {step[0] + 0.5, step[1], 0.25 * (step[0] + step[1]) - 0.5};
      for (size_t i = 0; i < 3; ++i) {
        h[i] = std::tanh(sums[i] + h[i]);
        all.push_back(h[i]);
      }
    }
    return all;
  }
  static void expect_near(const std::vector<double>& actual, const std::vector<double>& wanted,
                          double tolerance) {
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(actual[i], wanted[i], tolerance) << i;
  }
  /// A run of the toy cell that fails and writes nothing.
  std::string fails(std::vector<std::string> arguments) const {
    const std::vector<std::string> before = directory_.list();
    arguments.insert(arguments.begin(), {"run", "toy.rnn"});
    const std::string text = bad(1, arguments);
    EXPECT_EQ(directory_.list(), before);
    EXPECT_EQ(text.substr(0, 13), "rnnc: error: ");
    return text.substr(std::min<size_t>(13, text.size()));
  }
};

/// Of the toy cell h[t] = tanh(W x[t] + b + h[t-1]), by hand.
TEST_F(RunTool, WritesGradients) {
  const std::vector<double> dh = {1, 0, 0.5, -1, 2, 0};
  const std::vector<double> last = {0, 1, 3};
  write_array("dh.npy", {2, 1, 3}, dh);
  write_array("dlast.npy", {1, 3}, last);
  write_array("h0.npy", {1, 3}, {0, 0, 0});
  const std::vector<std::string> words = {"run",
                                          "toy.rnn",
                                          "--dtype",
                                          "f64",
                                          "--weights",
                                          "w.safetensors",
                                          "--input",
                                          "x=x.npy",
                                          "--init",
                                          "h=h0.npy",
                                          "--output-gradient",
                                          "h=dh.npy",
                                          "--final-gradient",
                                          "h=dlast.npy",
                                          "--gradients"};
  std::vector<std::string> command = words;
  command.emplace_back("g.safetensors");
  EXPECT_EQ(good(command), "");
  const std::vector<double> h = expected({0, 0, 0});
  std::vector<double> db(3, 0), dw(6, 0), dx(4, 0), before = last;
  const double x[2][2] = {{1, 2}, {-1, 0.5}};
  const double w[3][2] = {{1, 0}, {0, 1}, {0.25, 0.25}};
  for (size_t t = 2; t-- > 0;) {
    for (size_t i = 0; i < 3; ++i) {
      before[i] = (before[i] + dh[3 * t + i]) * (1 - h[3 * t + i] * h[3 * t + i]);
      db[i] += before[i];
      for (size_t j = 0; j < 2; ++j) {
        dw[2 * i + j] += before[i] * x[t][j];
        dx[2 * t + j] += before[i] * w[i][j];
      }
    }
  }
  const Result<std::vector<NamedArray>> file = read_safetensors(directory_ / "g.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const auto gradient = [&](const char* name) {
    const auto array = std::ranges::find(*file, name, &NamedArray::name);
    EXPECT_NE(array, file->end()) << name;
    return array == file->end() ? std::vector<double>() : array->array.to_doubles();
  };
  expect_near(gradient("b"), db, 1e-12);
  expect_near(gradient("W"), dw, 1e-12);
  expect_near(gradient("x"), dx, 1e-12);
  expect_near(gradient("h"), before, 1e-12);
  command.back() = "g.npz";
  EXPECT_EQ(good(command), "");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "g.npz"));
  command.back() = "pieces.safetensors";
  command.insert(command.end(), {"--checkpoint", "1", "--residuals", "least"});
  EXPECT_EQ(good(command), "");
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "pieces.safetensors"),
            TemporaryDirectory::read(directory_ / "g.safetensors"));
}

TEST_F(RunTool, RefusesGradientsOfNothing) {
  write_array("dh.npy", {2, 1, 3}, {1, 0, 0.5, -1, 2, 0});
  std::vector<std::string> words = {"run",           "toy.rnn", "--weights",
                                    "w.safetensors", "--input", "x=x.npy"};
  const auto usage = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = words;
    command.insert(command.end(), more.begin(), more.end());
    return bad(2, command);
  };
  EXPECT_EQ(usage({"--output-gradient", "h=dh.npy"}),
            usage_error("rnnc run",
                        "--output-gradient and --final-gradient are for --gradients, which is not "
                        "given"));
  EXPECT_EQ(
      usage({"--gradients", "g.npz"}),
      usage_error("rnnc run", "--gradients: of what? Give --output-gradient or --final-gradient"));
  EXPECT_EQ(usage({"--gradients", "g.npz", "--output-gradient", "h=dh.npy", "--chunk", "1"}),
            usage_error("rnnc run", "--gradients are of whole runs: it excludes --chunk"));
  EXPECT_NE(usage({"--checkpoint", "2"}).find("--checkpoint requires --gradients"),
            std::string::npos);
  EXPECT_NE(usage({"--gradients", "g.npz", "--output-gradient", "h=dh.npy", "--checkpoint", "0"})
                .find("--checkpoint: expected a whole number from 1"),
            std::string::npos);
  write_array("wide.npy", {2, 1, 4}, std::vector<double>(8));
  write_array("deep.npy", {2, 3}, std::vector<double>(6));
  words.erase(words.begin());
  words.erase(words.begin());
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = words;
    command.insert(command.end(), more.begin(), more.end());
    return fails(command);
  };
  EXPECT_EQ(refused({"--gradients", "g.npz", "--output-gradient", "h=wide.npy"}),
            "gradient of output `h` is [2, 1, 4], expected [2, 1, 3]\n");
  EXPECT_EQ(refused({"--gradients", "g.npz", "--final-gradient", "h=deep.npy"}),
            "gradient of final state `h` is [2, 3], expected [1, 3]\n");
  EXPECT_NE(refused({"--gradients", "g.npz", "--output-gradient", "y=dh.npy"})
                .find("Toy` has no output `y`"),
            std::string::npos);
}

TEST_F(RunTool, WritesOutputsAndFinalStates) {
  EXPECT_EQ(good({"run", "toy.rnn", "--cell", "Toy", "--dim", "I=2", "--dim", "H=3", "--dtype",
                  "f64", "--weights", "w.safetensors", "--input", "x=x.npy", "--output", "h=y.npy",
                  "--final", "h=last.npy"}),
            "");
  const Array y = read_array("y.npy");
  EXPECT_EQ(y.dtype, DType::f64);
  EXPECT_EQ(y.shape, (std::vector<int64_t>{2, 1, 3}));
  const std::vector<double> h = expected({0, 0, 0});
  expect_near(y.to_doubles(), h, 1e-14);
  const Array last = read_array("last.npy");
  EXPECT_EQ(last.shape, (std::vector<int64_t>{1, 3}));
  expect_near(last.to_doubles(), {h[3], h[4], h[5]}, 1e-14);
}

TEST_F(RunTool, InfersDimsAndConvertsArrays) {
  write_array("x32.npy", {2, 1, 2}, {1, 2, -1, 0.5}, DType::f32);
  write_weights("w16.safetensors", DType::bf16);
  good({"run", "toy.rnn", "--weights", "w16.safetensors", "--input", "x=x32.npy", "--output",
        "h=y.npy"});
  EXPECT_EQ(read_array("y.npy").dtype, DType::f32);
  expect_near(read_array("y.npy").to_doubles(), expected({0, 0, 0}), 1e-6);
  good({"run", "toy.rnn", "--dtype", "f64", "--weights", "w16.safetensors", "--input", "x=x32.npy",
        "--output", "h=y.npy"});
  EXPECT_EQ(read_array("y.npy").dtype, DType::f64);
  expect_near(read_array("y.npy").to_doubles(), expected({0, 0, 0}), 1e-14);
}

TEST_F(RunTool, StartsFromGivenStates) {
  write_array("h0.npy", {1, 3}, {0.5, -0.5, 1});
  good({"run", "toy.rnn", "--dtype", "f64", "--weights", "w.safetensors", "--input", "x=x.npy",
        "--init", "h=h0.npy", "--output", "h=y.npy"});
  expect_near(read_array("y.npy").to_doubles(), expected({0.5, -0.5, 1}), 1e-14);
}

TEST_F(RunTool, RunsNetworksAndCellsWithoutParams) {
  directory_.write("net.rnn", R"(
cell Sum[H](x: [H]) -> s {
  state s: [H]
  s[t] = s[t-1] + x[t]
}
network Twice[H](x: [H]) -> y {
  y = Sum[H = H](Sum[H = H](x))
}
)");
  good({"run", "net.rnn", "--cell", "Twice", "--input", "x=x.npy", "--output", "y=y.npy", "--final",
        "Sum.0.s=s.npy"});
  EXPECT_EQ(read_array("y.npy").to_doubles(), (std::vector<double>{1, 2, 1, 4.5}));
  EXPECT_EQ(read_array("s.npy").to_doubles(), (std::vector<double>{0, 2.5}));
}

TEST_F(RunTool, DimsThatBoundLoopsAreGivenNotInferred) {
  directory_.write("stack.rnn", R"(
network Stack[H = 1](x: [H]) -> y {
  y = x
  for l in 0..H { y = y + y }
}
)");
  EXPECT_EQ(bad(1, {"run", "stack.rnn", "--input", "x=x.npy", "--output", "y=y.npy"}),
            "rnnc: error: input `x` is [2, 1, 2], expected [T, B, 1]\n");
  good({"run", "stack.rnn", "--dim", "H=2", "--input", "x=x.npy", "--output", "y=y.npy"});
  EXPECT_EQ(read_array("y.npy").to_doubles(), (std::vector<double>{4, 8, -4, 2}));
}

TEST_F(RunTool, WithoutResultsSaysWhatThereIs) {
  EXPECT_EQ(good({"run", "toy.rnn", "--weights", "w.safetensors", "--input", "x=x.npy"}),
            "--output h [2, 1, 3]\n--final h [1, 3]\n");
}

TEST_F(RunTool, TimeIsPrinted) {
  const std::string text =
      good({"run", "toy.rnn", "--weights", "w.safetensors", "--input", "x=x.npy", "--time"});
  EXPECT_EQ(text.substr(0, 9), "compile  ");
  EXPECT_NE(text.find(" ms\ntime per step  "), std::string::npos) << text;
  EXPECT_NE(text.find("of 2 steps)\n"), std::string::npos) << text;
}

TEST_F(RunTool, SeedsGiveTheSameWeightsEverywhere) {
  // x is the identity over time, so that y's rows are W's columns.
  directory_.write("product.rnn",
                   "cell Product[I, H](x: [I]) -> y {\n  param W: [H, I]\n  y = W @ x[t]\n}\n");
  write_array("eye.npy", {4, 1, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const auto weights = [&](const std::string& seed) {
    good({"run", "product.rnn", "--dim", "H=1", "--dtype", "f64", "--seed", seed, "--input",
          "x=eye.npy", "--output", "y=y.npy"});
    return read_array("y.npy").to_doubles();
  };
  const std::vector<double> first = weights("7");
  expect_near(first,
              {0.28651988854225496, 0.39370375604553387, -0.08860350343483525, 0.4682079158917901},
              1e-15);
  EXPECT_EQ(weights("7"), first);
  EXPECT_NE(weights("8"), first);
  for (const double value : first) EXPECT_LE(std::abs(value), 0.5);
}

TEST_F(RunTool, NanAndInfinityAreLegal) {
  write_array("x.npy", {2, 1, 2}, {NAN, INFINITY, 0, 0});
  good({"run", "toy.rnn", "--weights", "w.safetensors", "--input", "x=x.npy", "--output",
        "h=y.npy"});
  const std::vector<double> y = read_array("y.npy").to_doubles();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST_F(RunTool, ListsAllWeightsThatDoNotFit) {
  const std::vector<NamedArray> weights = {
      {"W", Array::from_doubles({1, 2, 3, 4}, {2, 2}, DType::f32)},
      {"bias", Array::from_doubles({1, 2, 3}, {3}, DType::f32)}};
  ASSERT_TRUE(write_safetensors(directory_ / "other.safetensors", weights));
  EXPECT_EQ(fails({"--dim", "H=3", "--weights", "other.safetensors", "--input", "x=x.npy",
                   "--output", "h=y.npy"}),
            "the arrays do not fit `Toy`:\n"
            "  param `b` [H] = [3] is missing\n"
            "  param `bias` [3] is not in `Toy` (did you mean `b`?)\n"
            "  param `W` is [2, 2], expected [H, I] = [3, 2]\n"
            "  where H = 3 as given, I = 2 from input `x`\n");
}

TEST_F(RunTool, NamesWhatIsMissing) {
  EXPECT_EQ(fails({"--weights", "w.safetensors", "--output", "h=y.npy"}),
            "input `x` [T, B, 2] is missing\n");
  EXPECT_EQ(fails({"--dim", "H=3", "--input", "x=x.npy", "--output", "h=y.npy"}),
            "`Toy` has 2 params: give --weights FILE, or --seed N for random ones\n");
  EXPECT_EQ(fails({"--seed", "1", "--input", "x=x.npy", "--output", "h=y.npy"}),
            "Toy: no value for dim `H`\n  give each with --dim NAME=NUMBER\n");
  EXPECT_EQ(fails({"--weights", "w.safetensors", "--input", "x=x.npy", "--output", "y=y.npy",
                   "--final", "c=c.npy"}),
            "`Toy` has no output `y`; it has h\n  `Toy` has no state `c`; it has h\n");
  EXPECT_EQ(bad(2, {"run", "toy.rnn", "--weights", "w.safetensors", "--seed", "1"}),
            usage_error("rnnc run", "--weights and --seed exclude each other"));
}

TEST_F(RunTool, RefusesEmptySequencesBatchesAndDims) {
  const auto with_input = [&](std::vector<int64_t> shape) {
    write_array("empty.npy", std::move(shape), {});
    return rnnc({"run", "toy.rnn", "--weights", "w.safetensors", "--input", "x=empty.npy",
                 "--output", "h=y.npy"});
  };
  EXPECT_EQ(with_input({0, 1, 2}).errors,
            "rnnc: error: the inputs have no steps (T = 0); at least 1 is needed\n");
  EXPECT_EQ(with_input({2, 0, 2}).errors,
            "rnnc: error: the inputs have no sequences (B = 0); at least 1 is needed\n");
  const CommandResult result = with_input({2, 1, 0});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("expected [H, I] = [3, 0]"), std::string::npos) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "y.npy"));
}

TEST_F(RunTool, DamagedFilesAreNamed) {
  directory_.write("cut.npy", TemporaryDirectory::read(directory_ / "x.npy").substr(0, 140));
  EXPECT_EQ(
      fails({"--weights", "w.safetensors", "--input", "x=cut.npy"}),
      "`cut.npy` is not a .npy file that can be read: it is cut short: float64 elements of shape "
      "[2, 1, 2] need more than the 12 bytes that are there\n");
  const std::string weights = TemporaryDirectory::read(directory_ / "w.safetensors");
  directory_.write("cut.safetensors", weights.substr(0, weights.size() - 1));
  EXPECT_NE(
      fails({"--weights", "cut.safetensors", "--input", "x=x.npy"})
          .find("`cut.safetensors` is not a safetensors file that can be read: tensor `W` ends"),
      std::string::npos);
  EXPECT_EQ(fails({"--weights", "w.safetensors", "--input", "x=."}),
            "cannot read `.`: it is a directory\n");
  EXPECT_EQ(fails({"--weights", "none.safetensors", "--input", "x=x.npy"}),
            "cannot read `none.safetensors`: No such file or directory\n");
}

TEST_F(RunTool, OutputsAreCheckedBeforeTheRun) {
  const std::vector<std::string> run = {"--weights", "w.safetensors", "--input", "x=x.npy"};
  const auto with = [&](std::vector<std::string> results) {
    results.insert(results.begin(), run.begin(), run.end());
    return fails(results);
  };
  EXPECT_EQ(with({"--output", "h=no/y.npy"}),
            "cannot write `no/y.npy`: `no`: No such file or directory\n");
  EXPECT_EQ(with({"--output", "h=."}), "cannot write `.`: it is a directory\n");
  EXPECT_EQ(with({"--output", "h=x.npy"}), "cannot write `x.npy`: it is an input of this run\n");
  EXPECT_EQ(with({"--final", "h=w.safetensors"}),
            "cannot write `w.safetensors`: it is an input of this run\n");
  EXPECT_EQ(with({"--output", "h=y.npy", "--final", "h=./y.npy"}),
            "two results would be written to `./y.npy`\n");
}

TEST_F(RunTool, AFailedWriteLeavesNeitherResult) {
  // The second cannot be written in the end: the first must not appear either.
  const std::vector<std::string> before = directory_.list();
  const CommandResult result =
      rnnc({"run", "toy.rnn", "--weights", "w.safetensors", "--input", "x=x.npy", "--output",
            "h=y.npy", "--final", "h=" + std::string(250, 'n') + ".npy-too-long"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("File name too long"), std::string::npos) << result.errors;
  EXPECT_EQ(directory_.list(), before);
}

TEST_F(RunTool, DevicesAndTypesThatCannotRun) {
  EXPECT_EQ(fails({"--weights", "w.safetensors", "--input", "x=x.npy", "--dtype", "bf16"}),
            "dtype bf16 runs on a GPU only; the CPU takes f32 and f64\n");
  EXPECT_EQ(bad(2, {"run", "toy.rnn", "--tf32"}),
            usage_error("rnnc run", "--tf32 is for f32 on a GPU, not for f32 on cpu"));
  const std::string far =
      fails({"--weights", "w.safetensors", "--input", "x=x.npy", "--device", "cuda:977"});
  EXPECT_EQ(far.substr(0, 17), "device `cuda:977`") << far;
  EXPECT_EQ(std::ranges::count(far, '\n'), 1) << far;
}

TEST_F(RunTool, TooLittleMemoryIsSaid) {
  const std::string text =
      bad(1, {"run", "toy.rnn", "--dim", "H=100000000000", "--seed", "1", "--input", "x=x.npy"});
  EXPECT_EQ(text,
            "toy.rnn: error: the dim `H` is 100000000000, above 2147483647\n  hint: no array is "
            "that long\n");
  const std::string weights =
      fails({"--dim", "H=2000000000", "--seed", "1", "--input", "x=x.npy", "--dtype", "f64"});
  EXPECT_EQ(weights.substr(0, 18), "not enough memory:") << weights;
}

TEST_F(RunTool, ErrorsInTheCellComeFirst) {
  const std::string text = bad(1, {"run", "bad.rnn", "--input", "x=none.npy"});
  EXPECT_NE(text.find("bad.rnn:2:14: error: "), std::string::npos) << text;
}

TEST_F(RunTool, KernelsAreCached) {
  const std::vector<std::string> run = {"run",     "toy.rnn", "--weights", "w.safetensors",
                                        "--input", "x=x.npy", "--output",  "h=y.npy"};
  good(run);
  const std::vector<double> cold = read_array("y.npy").to_doubles();
  EXPECT_EQ(good({"cache"}).find("entries   0"), std::string::npos);
  good(run);
  EXPECT_EQ(read_array("y.npy").to_doubles(), cold);
  // Damage is found, and the run goes on without.
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "cache")) {
    std::ofstream(entry.path(), std::ios::binary) << "damage";
  }
  good(run);
  EXPECT_EQ(read_array("y.npy").to_doubles(), cold);
}

TEST_F(RunTool, SoundEntriesThatAreNotOursAreRemade) {
  const std::vector<std::string> run = {"run",     "toy.rnn", "--weights", "w.safetensors",
                                        "--input", "x=x.npy", "--output",  "h=y.npy"};
  good(run);
  const std::vector<double> cold = read_array("y.npy").to_doubles();
  const KernelCache cache(directory_ / "cache");
  int products = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory_ / "cache")) {
    // As the cache lays them out: a head of 40 bytes, a line of its own, the key.
    const std::string bytes = TemporaryDirectory::read(file.path());
    uint64_t key_size = 0;
    std::memcpy(&key_size, bytes.data() + 8, sizeof key_size);
    const std::string full_key = bytes.substr(40, key_size);
    const std::string key = full_key.substr(full_key.find('\n') + 1);
    ASSERT_TRUE(cache.get(key)) << full_key;
    if (key.find("gemm tiles") != std::string::npos) ++products;
    cache.put(key, "no machine code");
  }
  EXPECT_EQ(products, 1);
  for (int i = 0; i < 2; ++i) {
    good(run);
    EXPECT_EQ(read_array("y.npy").to_doubles(), cold);
  }
  for (const auto& file : std::filesystem::directory_iterator(directory_ / "cache")) {
    EXPECT_EQ(TemporaryDirectory::read(file.path()).find("no machine code"), std::string::npos);
  }
}

TEST_F(RunTool, ACacheThatOthersMayWriteIsLeftAloneWithANote) {
  const std::vector<std::string> run = {"run",     "toy.rnn", "--weights", "w.safetensors",
                                        "--input", "x=x.npy", "--output",  "h=y.npy"};
  good(run);
  const std::filesystem::path cache = directory_ / "cache";
  std::filesystem::permissions(cache, std::filesystem::perms::all);
  const std::string problem =
      "the kernel cache is not used, since its code could be another's: `" + cache.string() +
      "`: others than its owner may write there (mode 777): `chmod go-w` mends that\n";
  const CommandResult result = rnnc(run);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors, "rnnc: note: " + problem);
  EXPECT_EQ(bad(1, {"cache"}), "rnnc: error: " + problem);
  EXPECT_EQ(bad(1, {"cache", "--clear"}), "rnnc: error: " + problem);
}

TEST_F(RunTool, ResultsAppearTogetherOrNotAtAll) {
  directory_.write("y.npy", "old");
  std::filesystem::create_directory(directory_ / "cache");
  const std::vector<std::string> run = {"--weights", "w.safetensors", "--input", "x=x.npy"};
  const auto with = [&](std::vector<std::string> results) {
    results.insert(results.begin(), run.begin(), run.end());
    return fails(results);
  };
  EXPECT_EQ(with({"--output", "h=y.npy", "--final", "h=/dev/full"}),
            "cannot write `/dev/full`: No space left on device\n");
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "y.npy"), "old");
}

}  // namespace
}  // namespace rnnc::test
#endif
