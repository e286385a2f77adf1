/// `rnnc debug`: values inside a step against the same as outputs of `rnnc run`, where the first NaN or
/// infinity comes from, and how values are spread.
#ifdef RNNC_WITH_CPU
#include <cmath>
#include <limits>

#include "runtime/arrays/npz.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

constexpr const char* kBody = R"( {
  state h: [H]
  param W, R: [H, H]
  i = sigmoid(W @ x[t] + R @ h[t-1])
  k = exp(60 * x[t])
  h[t] = i * h[t-1] + (1 - i) * tanh(x[t]) + 0 * k
}
)";

class Debug : public Tools {
 protected:
  static constexpr int64_t kSteps = 9, kBatch = 3, kSize = 5;

  Debug() {
    directory_.write("cell.rnn", std::string("cell Cell[H](x: [H]) -> h") + kBody);
    directory_.write("shown.rnn", std::string("cell Cell[H](x: [H]) -> (h, i)") + kBody);
    directory_.write("net.rnn", std::string("cell Cell[H](x: [H]) -> h") + kBody + R"(
network Net[H](x: [H]) -> y {
  y = Cell(x) + reverse Cell(x)
}
)");
    x_.resize(kSteps * kBatch * kSize);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = std::sin(1.0 + 3.7 * static_cast<double>(i));
    write_x();
  }

  void write_x() const { write_array("x.npy", {kSteps, kBatch, kSize}, x_); }
  double& x(int64_t step, int64_t sequence, int64_t unit) {
    return x_[(step * kBatch + sequence) * kSize + unit];
  }
  static std::vector<std::string> debug(const std::vector<std::string>& more,
                                        const std::string& file = "cell.rnn") {
    std::vector<std::string> words = {"debug",   file,      "--seed",    "3",
                                      "--input", "x=x.npy", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<NamedArray> saved(const std::string& name) const {
    Result<std::vector<NamedArray>> arrays = read_npz(directory_ / name);
    EXPECT_TRUE(arrays) << arrays.error().message;
    return arrays.value_or(std::vector<NamedArray>());
  }

  std::vector<double> x_;
};

TEST_F(Debug, ValuesAreThoseThatRunComputes) {
  good(debug({"--dtype", "f64", "--watch", "i", "--save", "i.npz"}));
  good({"run", "shown.rnn", "--seed", "3", "--input", "x=x.npy", "--dtype", "f64", "--output",
        "i=i.npy"});
  const std::vector<NamedArray> arrays = saved("i.npz");
  ASSERT_EQ(arrays.size(), 1U);
  EXPECT_EQ(arrays[0].name, "i");
  const Array expected = read_array("i.npy");
  EXPECT_EQ(arrays[0].array.shape, expected.shape);
  const std::vector<double> values = arrays[0].array.to_doubles();
  const std::vector<double> same = expected.to_doubles();
  for (size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(values[i], same[i], 1e-14);
  // As printed: a step, and of it the sequences asked for.
  const std::string text =
      good(debug({"--dtype", "f64", "--watch", "i[t]", "--steps", "4", "--sequences", "1:3"}));
  for (const size_t sequence : {1, 2}) {
    std::string line = fmt::format("  step 4, sequence {}:", sequence);
    for (size_t unit = 0; unit < kSize; ++unit) {
      line += fmt::format(" {:.6g}", same[(4 * kBatch + sequence) * kSize + unit]);
    }
    EXPECT_NE(text.find(line + "\n"), text.npos) << text;
  }
  EXPECT_EQ(text.find("step 3"), text.npos);
  EXPECT_EQ(text.find("sequence 0:"), text.npos);
}

TEST_F(Debug, LayersInReverseAndLengths) {
  directory_.write("lengths.npy", lengths_file(Array::from_doubles({9, 4, 6}, {3}, DType::f64)));
  const std::vector<std::string> lengths = {"--lengths", "lengths.npy", "--dtype", "f64"};
  std::vector<std::string> words = lengths;
  words.insert(words.end(), {"--cell", "Net", "--watch", "h", "--save", "h.npz"});
  good(debug(words, "net.rnn"));
  const std::vector<NamedArray> arrays = saved("h.npz");
  ASSERT_EQ(arrays.size(), 2U);
  words = {"run", "net.rnn", "--cell",  "Net",      "--seed",
           "3",   "--input", "x=x.npy", "--output", "y=y.npy"};
  words.insert(words.end(), lengths.begin(), lengths.end());
  good(words);
  // The two states are what the output is the sum of, at each step of each sequence.
  const std::vector<double> sum = read_array("y.npy").to_doubles();
  const std::vector<double> forward = arrays[0].array.to_doubles();
  const std::vector<double> backward = arrays[1].array.to_doubles();
  double difference = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(forward[i] + backward[i], sum[i], 1e-14) << i;
    difference += std::abs(forward[i] - backward[i]);
  }
  EXPECT_GT(difference, 0.1);
}

TEST_F(Debug, FindsWhereTheFirstInfinityComesFrom) {
  EXPECT_NE(good(debug({})).find("\nall values of all steps are finite\n"), std::string::npos);
  x(6, 0, 0) = 7;  // later: not the first
  x(4, 2, 3) = 2;
  write_x();
  const std::string text = good(debug({}));
  EXPECT_NE(text.find("\nfirst infinity: step 4, sequence 2, unit 3\n"
                      "  k = inf  at cell.rnn:5:7\n"
                      "  made of `60 * x[t]` in k = 120\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find(", 2 of 135 not finite\n"), text.npos) << text;
  // In float64 both are still numbers.
  const std::string exact = good(debug({"--dtype", "f64"}));
  EXPECT_NE(exact.find("all values of all steps are finite"), exact.npos) << exact;
}

TEST_F(Debug, SumsAreMadeOfManyUnits) {
  directory_.write("wide.rnn", R"(
cell Wide[H](x: [H]) -> s {
  q = x[t] * x[t]
  s = sum(q)
}
)");
  write_array("wide.npy", {1, 1, 12}, std::vector<double>(12, -9e18));  // q is 8.1e37
  const std::string text = good({"debug", "wide.rnn", "--input", "x=wide.npy", "--watch", "q"});
  EXPECT_NE(text.find(" 8.1e+37 ... of 12\n"), text.npos) << text;
  EXPECT_NE(text.find("\nfirst infinity: step 0, sequence 0\n"
                      "  s = inf  at wide.rnn:4:7\n"
                      "  made of q = 8.1e+37, the largest of its units\n"),
            text.npos)
      << text;
}

TEST_F(Debug, InReverseTheFirstIsTheLast) {
  directory_.write("back.rnn", R"(
cell Sum[H](x: [H]) -> s {
  state s: [H]
  s[t] = s[t-1] + exp(60 * x[t])
}
network Back[H](x: [H]) -> y {
  y = reverse Sum(x)
}
)");
  x(2, 1, 0) = 2;
  x(5, 0, 4) = 2;
  write_x();
  const std::string text =
      good({"debug", "back.rnn", "--cell", "Back", "--input", "x=x.npy", "--threads", "1"});
  EXPECT_NE(text.find("first infinity: step 5, sequence 0, unit 4\n"), text.npos) << text;
}

TEST_F(Debug, WhatIsGivenComesBeforeTheSteps) {
  x(1, 1, 1) = std::numeric_limits<double>::quiet_NaN();
  write_x();
  std::string text = good(debug({}));
  EXPECT_NE(text.find("first NaN: step 1, sequence 1, unit 1\n  x[t] = nan"), text.npos) << text;
  write_array("h.npy", {kBatch, kSize}, std::vector<double>(kBatch * kSize, -HUGE_VAL));
  text = good(debug({"--init", "h=h.npy"}));
  EXPECT_NE(text.find("first infinity: unit [0, 0]\n  initial state h = -inf\n"), text.npos)
      << text;
}

TEST_F(Debug, SaysHowValuesAreSpread) {
  for (double& value : x_) value = 0;
  x(0, 0, 0) = 50;  // tanh and exp are then at their limits at one of 135 places
  write_x();
  const std::string text = good(debug({"--watch", "k,x", "--dtype", "f64", "--svg", "k.svg"}));
  EXPECT_NE(text.find("value                shape      least       mean       most  deviation  "
                      "saturated  at\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("x                      [5]          0     0.3704         50      4.287"),
            text.npos)
      << text;
  const std::string svg = TemporaryDirectory::read(directory_ / "k.svg");
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_EQ(svg.find("inf"), svg.npos);
  EXPECT_NE(svg.find("cell.rnn:5:7  over sequences and units: all, one deviation around the mean, "
                     "the mean</text>"),
            svg.npos);
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != svg.npos; at = svg.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2U);
}

TEST_F(Debug, RefusesWhatIsNotThere) {
  EXPECT_EQ(bad(1, debug({"--watch", "h,ii,W"})),
            "rnnc: error: `Cell`:\n"
            "  no value `ii` that changes with the step\n"
            "  no value `W` that changes with the step\n");
  const std::string text = bad(1, debug({"--cell", "Net", "--watch", "Cell.0.kk"}, "net.rnn"));
  EXPECT_NE(text.find("no value `Cell.0.kk` that changes with the step (did you mean `Cell.0.k`?)"),
            text.npos)
      << text;
  for (const char* range : {"x", "3:", ":3", "3:3", "4:3", "1:2:3", "-1", "99999999999"}) {
    const std::string usage = bad(2, debug({std::string("--steps=") + range}));
    EXPECT_NE(usage.find(fmt::format(
                  "`{}` is neither a number nor FROM:TO, of which TO is left out", range)),
              usage.npos)
        << usage;
  }
  EXPECT_NE(bad(1, {"debug", "cell.rnn", "--input", "x=x.npy"})
                .find("`Cell` has 2 params: give --weights FILE, or --seed N for random ones"),
            std::string::npos);
  EXPECT_EQ(bad(2, debug({"--weights", "w.npz"})),
            usage_error("rnnc debug", "--weights and --seed exclude each other"));
}

}  // namespace
}  // namespace rnnc::test
#endif
