/// Lengths, resets, reversal, pieces and carried states of `rnnc run`.
#ifdef RNNC_WITH_CPU
#include <cmath>

#include "runtime/arrays/npz.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

/// A cell with everything that is carried from step to step: states, and delays of both kinds.
constexpr const char* kCarrying = R"(
cell Carrying[H](x: [H]) -> (h, y) {
  state h: [H] = 0.25
  state c: [H]
  param W, R: [H, H]
  c[t] = 0.5 * c[t-1] + W @ x[t-1] + h[t-2]
  h[t] = tanh(R @ h[t-1] + c[t] + x[t])
  y = h[t] + c[t]
}
)";

class SequenceTool : public Tools {
 protected:
  static constexpr int64_t kSteps = 12, kBatch = 3, kSize = 2;

  SequenceTool() {
    directory_.write("carrying.rnn", kCarrying);
    directory_.write("both.rnn", R"(
cell Sum[H](x: [H]) -> s {
  state s: [H]
  s[t] = 0.5 * s[t-1] + x[t]
}
network Both[H](x: [H]) -> y {
  y = Sum(x) + reverse Sum(x)
}
)");
    std::vector<double> x(kSteps * kBatch * kSize);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(1.0 + 3.7 * static_cast<double>(i));
    write_array("x.npy", {kSteps, kBatch, kSize}, x);
  }

  std::vector<std::string> command(std::vector<std::string> options,
                                   const std::string& input = "x.npy") const {
    options.insert(options.begin(), {"run", "carrying.rnn", "--seed", "1", "--dtype", "f64",
                                     "--input", "x=" + input});
    return options;
  }
  std::string fails(const std::vector<std::string>& options) const {
    const std::vector<std::string> before = directory_.list();
    const std::string text = bad(1, command(options));
    EXPECT_EQ(directory_.list(), before);
    EXPECT_EQ(text.substr(0, 13), "rnnc: error: ");
    return text.substr(std::min<size_t>(13, text.size()));
  }
  /// Steps [begin, end) of an array [T, ...], as a file.
  void cut(const std::string& from, int64_t begin, int64_t end, const std::string& to) const {
    Array array = read_array(from);
    const auto row = static_cast<ptrdiff_t>(array.data.size()) / array.shape[0];
    array.data = {array.data.begin() + begin * row, array.data.begin() + end * row};
    array.shape[0] = end - begin;
    EXPECT_TRUE(write_npy(directory_ / to, array));
  }
  /// Sequence `b` of an array [T, B, H], from step `begin` to `end`.
  static std::vector<double> sequence(const Array& array, int64_t b, int64_t begin, int64_t end) {
    const std::vector<double> values = array.to_doubles();
    std::vector<double> result;
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < kSize; ++i) {
        result.push_back(values[static_cast<size_t>((t * array.shape[1] + b) * kSize + i)]);
      }
    }
    return result;
  }
  static void expect_near(const std::vector<double>& actual, const std::vector<double>& wanted) {
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(actual[i], wanted[i], 1e-14) << i;
  }
  void write_npz(const std::string& name, const std::vector<NamedArray>& arrays) const {
    directory_.write(name, format_npz(arrays).value());
  }
  static Array zeros(std::vector<int64_t> shape) {
    return Array::zeros(DType::f64, std::move(shape));
  }
};

TEST_F(SequenceTool, LengthsEndSequences) {
  directory_.write("n.npy", lengths_file(Array::from_doubles({12, 5, 0}, {3}, DType::f64)));
  good(command({"--output", "y=y.npy"}));
  good(command({"--output", "y=n_y.npy", "--final", "c=c.npy", "--lengths", "n.npy"}));
  cut("x.npy", 0, 5, "x5.npy");
  good(command({"--final", "c=c5.npy"}, "x5.npy"));
  const Array whole = read_array("y.npy");
  const Array ended = read_array("n_y.npy");
  expect_near(sequence(ended, 0, 0, 12), sequence(whole, 0, 0, 12));
  expect_near(sequence(ended, 1, 0, 5), sequence(whole, 1, 0, 5));
  EXPECT_EQ(sequence(ended, 1, 5, 12), std::vector<double>(14, 0));
  EXPECT_EQ(sequence(ended, 2, 0, 12), std::vector<double>(24, 0));
  const std::vector<double> c = read_array("c.npy").to_doubles();
  const std::vector<double> c5 = read_array("c5.npy").to_doubles();
  expect_near({c[2], c[3], c[4], c[5]}, {c5[2], c5[3], 0, 0});
}

TEST_F(SequenceTool, LengthsThatDoNotFitAreNamed) {
  const auto with = [&](const std::string& bytes) {
    directory_.write("n.npy", bytes);
    return fails({"--lengths", "n.npy", "--output", "y=y.npy"});
  };
  const auto of = [](std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    return lengths_file(Array::from_doubles(values, {count}, DType::f64));
  };
  EXPECT_EQ(with(of({12, 13, 0})), "lengths[1] is 13, expected 0 to T = 12\n");
  EXPECT_EQ(with(of({12, 0, -1})), "lengths[2] is -1, expected 0 to T = 12\n");
  EXPECT_EQ(with(of({12, 0})), "lengths are [2], expected [B] = [3]\n");
  EXPECT_EQ(with(lengths_file(Array::from_doubles({1, 2, 3}, {3, 1}, DType::f64))),
            "lengths `n.npy` are [3, 1], expected [B]: one for each sequence\n");
  EXPECT_EQ(with(format_npy(zeros({3}))),
            "`n.npy` holds float64; rnnc reads integers here (`a.astype(\"int64\")` converts)\n");
}

TEST_F(SequenceTool, ResetsBeginAnew) {
  Array mask = zeros({kSteps, kBatch});
  std::vector<double> values = mask.to_doubles();
  values[7 * kBatch + 1] = 1;
  write_array("mask.npy", {kSteps, kBatch}, values, DType::f32);
  good(command({"--output", "y=y.npy"}));
  good(command({"--output", "y=reset.npy", "--reset", "mask.npy"}));
  cut("x.npy", 7, 12, "tail.npy");
  good(command({"--output", "y=tail_y.npy"}, "tail.npy"));
  const Array whole = read_array("y.npy");
  const Array reset = read_array("reset.npy");
  expect_near(sequence(reset, 0, 0, 12), sequence(whole, 0, 0, 12));
  expect_near(sequence(reset, 1, 0, 7), sequence(whole, 1, 0, 7));
  expect_near(sequence(reset, 1, 7, 12), sequence(read_array("tail_y.npy"), 1, 0, 5));

  write_array("wrong.npy", {kBatch, kSteps}, values);
  EXPECT_EQ(fails({"--reset", "wrong.npy", "--output", "y=no.npy"}),
            "reset is [3, 12], expected [T, B] = [12, 3]\n");
}

TEST_F(SequenceTool, CellsRunInReverse) {
  std::vector<double> backwards;
  const Array x = read_array("x.npy");
  const std::vector<double> values = x.to_doubles();
  constexpr size_t kRow = kBatch * kSize;
  for (size_t t = kSteps; t-- > 0;) {
    for (size_t i = 0; i < kRow; ++i) backwards.push_back(values[t * kRow + i]);
  }
  write_array("backwards.npy", {kSteps, kBatch, kSize}, backwards);
  good(command({"--output", "y=there.npy", "--final", "h=h.npy", "--reverse"}));
  good(command({"--output", "y=back.npy", "--final", "h=h2.npy"}, "backwards.npy"));
  const std::vector<double> there = read_array("there.npy").to_doubles();
  const std::vector<double> back = read_array("back.npy").to_doubles();
  for (size_t i = 0; i < there.size(); ++i) {
    EXPECT_NEAR(there[i], back[(kSteps - 1 - i / kRow) * kRow + i % kRow], 1e-14) << i;
  }
  expect_near(read_array("h.npy").to_doubles(), read_array("h2.npy").to_doubles());
  EXPECT_EQ(bad(1, {"run", "both.rnn", "--cell", "Both", "--input", "x=x.npy", "--reverse"}),
            "rnnc: error: --reverse is for a cell, and `Both` is a network, which says `reverse` "
            "before the layers that it is for\n");
}

TEST_F(SequenceTool, PiecesGiveTheSameBits) {
  good(command({"--output", "y=y.npy", "--final", "h=h.npy"}));
  for (const char* piece : {"12", "100"}) {
    good(command({"--output", "y=pieces.npy", "--final", "h=h2.npy", "--chunk", piece}));
    EXPECT_EQ(read_array("pieces.npy").data, read_array("y.npy").data);
    EXPECT_EQ(read_array("h2.npy").data, read_array("h.npy").data);
  }
  good(command({"--output", "y=pieces.npy", "--chunk", "5"}));
  expect_near(read_array("pieces.npy").to_doubles(), read_array("y.npy").to_doubles());
}

TEST_F(SequenceTool, ALaterRunGoesOnExactly) {
  // Long enough for several of the plan's chunks, so that bits can be compared.
  constexpr int64_t kLong = 512;
  std::vector<double> values(kLong * kBatch * kSize);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::cos(0.3 + 1.9 * static_cast<double>(i));
  write_array("long.npy", {kLong, kBatch, kSize}, values);
  cut("long.npy", 0, kLong / 2, "first.npy");
  cut("long.npy", kLong / 2, kLong, "second.npy");
  for (const char* dtype : {"f64", "f32"}) {
    const auto run = [&](std::vector<std::string> options, const std::string& input) {
      std::vector<std::string> all = command(std::move(options), input);
      all[5] = dtype;
      good(all);
    };
    run({"--output", "y=y.npy", "--carry-out", "end.npz"}, "long.npy");
    run({"--output", "y=y1.npy", "--carry-out", "s.npz"}, "first.npy");
    run({"--output", "y=y2.npy", "--carry-in", "s.npz", "--carry-out", "s.npz"}, "second.npy");
    const Array whole = read_array("y.npy");
    std::vector<std::byte> pieces = read_array("y1.npy").data;
    const Array second = read_array("y2.npy");
    pieces.insert(pieces.end(), second.data.begin(), second.data.end());
    EXPECT_TRUE(pieces == whole.data) << dtype;

    const Result<std::vector<NamedArray>> end = read_npz(directory_ / "end.npz");
    const Result<std::vector<NamedArray>> carried = read_npz(directory_ / "s.npz");
    ASSERT_TRUE(end && carried);
    std::vector<std::string> names;
    ASSERT_EQ(end->size(), carried->size());
    for (size_t i = 0; i < end->size(); ++i) {
      names.push_back((*end)[i].name);
      EXPECT_EQ((*end)[i].array.dtype, *parse_dtype(dtype));
      EXPECT_EQ((*end)[i].array.shape, (std::vector<int64_t>{kBatch, kSize}));
      EXPECT_EQ((*end)[i].array.data, (*carried)[i].array.data) << names.back();
    }
    EXPECT_EQ(names, (std::vector<std::string>{"h", "c", "x@1", "h@2"}));
  }
}

TEST_F(SequenceTool, CarriedFilesThatDoNotFitAreExplainedAtOnce) {
  write_npz("s.npz", {{"h", zeros({4, 2})}, {"d", zeros({3, 2})}, {"x@1", zeros({3, 2})}});
  EXPECT_EQ(fails({"--carry-in", "s.npz"}),
            "`s.npz` does not go on with a run of `Carrying`:\n"
            "  state `c` [3, 2] is missing\n"
            "  state `h@2` [3, 2] is missing\n"
            "  state `d` [3, 2] is not in `Carrying`\n"
            "  state `h` is [4, 2], expected [3, 2]\n");
  write_npz(
      "s.npz",
      {{"h", zeros({3, 2})}, {"c", zeros({3, 2})}, {"x@1", zeros({3, 1})}, {"h@2", zeros({3, 2})}});
  EXPECT_EQ(fails({"--carry-in", "s.npz"}),
            "`s.npz` does not go on with a run of `Carrying`: state `x@1` is [3, 1], expected [3, "
            "2]\n");
  directory_.write("s.npz", "PK");
  EXPECT_EQ(fails({"--carry-in", "s.npz"}),
            "`s.npz` is not a .npz file that can be read: Not a zip archive\n");
  EXPECT_EQ(fails({"--carry-in", "none.npz"}),
            "cannot read `none.npz`: No such file or directory\n");
}

/// A state, an input, a local and an input of an inner cell, all read far back.
constexpr const char* kEcho = "cell Echo[H](x: [H]) -> y { y = 0.5 * x[t-9] + x[t] }";
constexpr const char* kFar = R"(
import "echo.rnn"
cell Far[H](x: [H]) -> y {
  state h: [H]
  u = 2 * x[t] + h[t-12]
  h[t] = tanh(x[t] + x[t-11] - u[t-10])
  y = h[t] + Echo(u)
}
)";

TEST_F(SequenceTool, HistoriesAreReadFromFilesOfSingleSteps) {
  directory_.write("echo.rnn", kEcho);
  directory_.write("carrying.rnn", kFar);
  cut("x.npy", 0, 7, "first.npy");
  cut("x.npy", 7, kSteps, "second.npy");
  good(command({"--carry-out", "s.npz"}, "first.npy"));
  good(command({"--carry-in", "s.npz", "--output", "y=y.npy"}, "second.npy"));
  std::vector<NamedArray> single;
  std::vector<std::string> names;
  const Result<std::vector<NamedArray>> carried = read_npz(directory_ / "s.npz");
  ASSERT_TRUE(carried);
  for (const NamedArray& state : *carried) {
    const size_t at = state.name.find("@history");
    names.push_back(state.name);
    if (at == std::string::npos) {
      single.push_back(state);
      continue;
    }
    const int64_t entries = state.array.shape[1];
    const std::vector<double> values = state.array.to_doubles();
    for (int64_t entry = 0; entry < entries; ++entry) {
      std::vector<double> step;
      for (int64_t i = 0; i < kBatch * kSize; ++i) {
        const int64_t row = i / kSize * entries + entry;
        step.push_back(values[static_cast<size_t>(row * kSize + i % kSize)]);
      }
      const int64_t delay = entries - entry + (state.name == "x@history" ? 0 : 1);
      single.push_back({fmt::format("{}@{}", state.name.substr(0, at), delay),
                        Array::from_doubles(step, {kBatch, kSize}, state.array.dtype)});
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"h", "u@1", "Echo.0.x@1", "h@history", "x@history",
                                             "u@history", "Echo.0.x@history"}));
  EXPECT_EQ(single.size(), 1 + 1 + 1 + 11 + 11 + 9 + 8);
  write_npz("single.npz", single);
  good(command({"--carry-in", "single.npz", "--output", "y=same.npy"}, "second.npy"));
  EXPECT_TRUE(read_array("same.npy").data == read_array("y.npy").data);

  std::erase_if(single, [](const NamedArray& state) { return state.name == "h@7"; });
  write_npz("single.npz", single);
  EXPECT_NE(fails({"--carry-in", "single.npz"}).find("state `h@history` [3, 11, 2] is missing"),
            std::string::npos);
}

TEST_F(SequenceTool, AGivenStateStandsForItsHistory) {
  directory_.write("echo.rnn", kEcho);
  directory_.write("carrying.rnn", kFar);
  std::vector<double> h(kBatch * kSize);
  for (size_t i = 0; i < h.size(); ++i) h[i] = 0.25 * static_cast<double>(i) - 0.5;
  write_array("h.npy", {kBatch, kSize}, h);
  good(command({"--init", "h=h.npy", "--output", "y=y.npy"}));
  std::vector<double> history;
  for (size_t row = 0; row < kBatch; ++row) {
    for (size_t entry = 0; entry < 11; ++entry) {
      history.insert(history.end(), {h[row * kSize], h[row * kSize + 1]});
    }
  }
  write_array("before.npy", {kBatch, 11, kSize}, history);
  good(command({"--init", "h=h.npy", "--init", "h@history=before.npy", "--output", "y=same.npy"}));
  EXPECT_TRUE(read_array("same.npy").data == read_array("y.npy").data);
}

TEST_F(SequenceTool, CarriedAndGivenStatesExcludeEachOther) {
  EXPECT_EQ(bad(2, command({"--carry-in", "s.npz", "--init", "c=c.npy"})),
            usage_error("rnnc run", "--carry-in gives every state, `c` too: it excludes --init"));
}

TEST_F(SequenceTool, DelaysAreStatesByName) {
  good(command({"--final", "x@1=last.npy"}));
  cut("x.npy", kSteps - 1, kSteps, "wanted.npy");
  EXPECT_EQ(read_array("last.npy").data, read_array("wanted.npy").data);
  EXPECT_EQ(fails({"--final", "x@2=last2.npy"}),
            "`Carrying` has no state `x@2` (did you mean `x@1`?)\n");
}

TEST_F(SequenceTool, NetworksWithAReversedLayerDoNotStream) {
  write_npz("s.npz", {});
  const std::string reason =
      ": `Both` cannot be run in pieces: layer `Sum.1` runs in reverse, from a sequence's last "
      "step on\n";
  const std::vector<std::string> run = {"run", "both.rnn", "--cell", "Both", "--input", "x=x.npy"};
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--chunk", "4"},
                                                  {"--carry-in", "s.npz"},
                                                  {"--carry-out", "o.npz"}}) {
    std::vector<std::string> all = run;
    all.insert(all.end(), options.begin(), options.end());
    EXPECT_EQ(bad(1, all), "rnnc: error: " + options[0] + reason);
  }
  EXPECT_EQ(fails({"--reverse", "--chunk", "4"}),
            "--chunk: `Carrying` cannot be run in pieces: it runs in reverse, from a sequence's "
            "last step on\n");
}

TEST_F(SequenceTool, FilesOfSequencesAreNotWrittenOver) {
  directory_.write("n.npy", lengths_file(Array::from_doubles({12, 5, 0}, {3}, DType::f64)));
  EXPECT_EQ(fails({"--lengths", "n.npy", "--carry-out", "n.npy"}),
            "cannot write `n.npy`: it is an input of this run\n");
  EXPECT_EQ(fails({"--output", "y=y.npz", "--carry-out", "y.npz"}),
            "two results would be written to `y.npz`\n");
  EXPECT_EQ(fails({"--carry-out", "no/s.npz"}),
            "cannot write `no/s.npz`: `no`: No such file or directory\n");
}

TEST_F(SequenceTool, OptionsThatDoNotParse) {
  for (const char* chunk : {"0", "-1", "x"}) {
    EXPECT_NE(bad(2, command({"--chunk", chunk})).find("--chunk"), std::string::npos);
  }
  EXPECT_EQ(bad(2, command({"--weight-map", "m.map"})),
            usage_error("rnnc run", "--weight-map is for --weights, which is not given"));
  EXPECT_NE(bad(2, command({"--weight-prefix", "m."})).find("requires --weights"),
            std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
#endif
