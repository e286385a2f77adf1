/// Weights as users have them: PyTorch's names without a map, .npz, other formats.
#include "runtime/arrays/array_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "runtime/arrays/npz.h"
#include "runtime/arrays/safetensors.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

const std::string kExamples = RNNC_SOURCE_DIR "/examples/";
const std::string kModels = RNNC_SOURCE_DIR "/tests/goldens/torch_models.safetensors";

class WeightFilesTool : public Tools {
 protected:
  /// What PyTorch's module has whose tensors are below `from`, below `to`.
  void write_module(const std::string& file, const std::string& from, const std::string& to,
                    std::vector<NamedArray> more = {}) const {
    Result<ArrayFile> models = ArrayFile::open(kModels);
    ASSERT_TRUE(models) << models.error().message;
    Result<std::vector<NamedArray>> arrays = models->read(from);
    ASSERT_TRUE(arrays) << arrays.error().message;
    for (NamedArray& array : *arrays) array.name = to + array.name;
    arrays->insert(arrays->end(), more.begin(), more.end());
    ASSERT_TRUE(write_arrays(directory_ / file, *arrays));
  }
  void write_zeros(const std::string& file, const std::vector<NamedArray>& arrays) const {
    ASSERT_TRUE(write_arrays(directory_ / file, arrays));
  }
  static NamedArray zeros(std::string name, std::vector<int64_t> shape) {
    return {std::move(name), Array::zeros(DType::f32, std::move(shape))};
  }
};

TEST_F(WeightFilesTool, TensorsOfPyTorchsNamesFindTheirMap) {
  write_module("w.safetensors", "lstm_2_bi.rnn.", "");
  const std::string cell = kExamples + "networks/bidirectional_lstm.rnn";
  const std::vector<std::string> plain = {"weights", cell,        "--dim",
                                          "L=2",     "--weights", "w.safetensors"};
  const CommandResult found = rnnc(plain);
  EXPECT_EQ(found.exit_code, 0);
  EXPECT_EQ(found.errors,
            "rnnc: note: the tensors of `w.safetensors` have PyTorch's names, and are mapped as by "
            "--weight-map torch (torch/bidirectional_lstm.map)\n");
  std::vector<std::string> asked = plain;
  asked.insert(asked.end(), {"--weight-map", "torch"});
  EXPECT_EQ(good(asked), found.output);
  std::vector<std::string> by_file = plain;
  by_file.insert(by_file.end(), {"--weight-map", kExamples + "torch/bidirectional_lstm.map"});
  EXPECT_EQ(good(by_file), found.output);

  // A prefix that all have is found, too; where others lie beside it is named.
  write_module("all.npz", "gru_1.rnn.", "encoder.gru.");
  const CommandResult prefixed =
      rnnc({"weights", kExamples + "cells/gru.rnn", "--weights", "all.npz"});
  EXPECT_EQ(prefixed.exit_code, 0);
  EXPECT_EQ(prefixed.errors,
            "rnnc: note: the tensors of `all.npz` have PyTorch's names, and are mapped as by "
            "--weight-prefix encoder.gru. --weight-map torch (torch/gru.map)\n");
  write_module("model.npz", "gru_1.rnn.", "encoder.gru.", {zeros("head.weight", {2, 4})});
  EXPECT_EQ(
      bad(1, {"weights", kExamples + "cells/gru.rnn", "--weights", "model.npz"}),
      "rnnc: error: `model.npz` has tensors of PyTorch's names beside others: choose them with "
      "--weight-prefix `encoder.gru.`\n");
  EXPECT_NE(bad(1, {"weights", kExamples + "cells/gru.rnn", "--weights", kModels})
                .find("--weight-prefix `gru_1.rnn.` or `gru_1_bi.rnn.` or `gru_2.rnn.` or "
                      "`gru_2_bi.rnn.` and so on\n"),
            std::string::npos);
  // Layers that the network lacks are not left out.
  write_module("three.npz", "lstm_3.rnn.", "");
  EXPECT_NE(bad(1, {"weights", kExamples + "networks/stacked_lstm.rnn", "--weights", "three.npz"})
                .find("\n  tensor `weight_ih_l2` [16, 4] is not used by the map\n"),
            std::string::npos);
}

TEST_F(WeightFilesTool, WithoutAMapForThemPyTorchsNamesAreUnknown) {
  EXPECT_EQ(
      good({"weights", kExamples + "cells/elman.rnn", "--weight-map", "torch", "--dim", "H=4"}),
      "W [4, I] = weight_ih_l0\nR [4, 4] = weight_hh_l0\n"
      "b [4] = bias_ih_l0 + bias_hh_l0 or zeros\n");
  EXPECT_EQ(bad(1, {"weights", "toy.rnn", "--weight-map", "torch"}),
            "rnnc: error: no map for PyTorch's modules makes the params of `Toy`: those that there "
            "are make the params of the cells and networks called LSTM, ProjectedLSTM, GRU, Elman "
            "(nn.RNN) and ElmanReLU\n");
  write_zeros("w.npz", {zeros("weight_ih_l0", {4, 3}), zeros("bias_ih_l0", {4})});
  EXPECT_EQ(bad(1, {"weights", "toy.rnn", "--weights", "w.npz"}),
            "rnnc: error: the arrays do not fit `Toy`:\n"
            "  param `W` [H, I] is missing\n"
            "  param `b` [H] is missing\n"
            "  param `weight_ih_l0` [4, 3] is not in `Toy`\n"
            "  param `bias_ih_l0` [4] is not in `Toy`\n"
            "  --weight-map says which tensors make which params\n");
}

#ifdef RNNC_WITH_CPU
TEST_F(WeightFilesTool, RunsWeightsOfNpzFiles) {
  const std::vector<NamedArray> params = {
      {"W", Array::from_doubles({1, 2, 3, 4}, {2, 2}, DType::f32)},
      {"b", Array::from_doubles({0.5, -0.5}, {2, 1}, DType::f32)}};
  write_zeros("w.npz", params);
  write_zeros("w.safetensors", params);
  write_array("x.npy", {3, 1, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
  for (const std::string weights : {"w.npz", "w.safetensors"}) {
    EXPECT_EQ(good({"run", "toy.rnn", "--weights", weights, "--input", "x=x.npy", "--output",
                    "h=" + weights + ".npy"}),
              "");
  }
  EXPECT_EQ(read_array("w.npz.npy").data, read_array("w.safetensors.npy").data);
}

TEST_F(WeightFilesTool, WeightsOfWrongShapesAreRefusedBeforeTheirDataAreRead) {
  // 256 MB of zeros in a quarter of one, which is more than the command may take here.
  directory_.write("pack.py", R"(
import zipfile
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (8192, 8192), }".ljust(117) + "\n"
with zipfile.ZipFile("w.npz", "w", zipfile.ZIP_DEFLATED) as file:
    with file.open("W.npy", "w", force_zip64=True) as member:
        member.write(b"\x93NUMPY\x01\x00\x76\x00" + head.encode())
        for _ in range(256):
            member.write(bytes(1 << 20))
)");
  const std::string pack = "cd " + directory_.path().string() + " && python3 pack.py";
  if (std::system(pack.c_str()) != 0) GTEST_SKIP() << "no python3 here";
  write_array("x.npy", {3, 1, 2}, {1, 2, 3, 4, 5, 6});
  struct rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  struct rlimit less = limit;
  less.rlim_cur = rlim_t{350} << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &less), 0);
  const CommandResult result = rnnc({"run", "toy.rnn", "--weights", "w.npz", "--input", "x=x.npy"});
  ::setrlimit(RLIMIT_AS, &limit);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors,
            "rnnc: error: the arrays do not fit `Toy`:\n"
            "  param `b` [H] = [8192] is missing\n"
            "  param `W` is [8192, 8192], expected [H, I] = [8192, 2]\n"
            "  where H = 8192 from param `W`, I = 2 from input `x`\n");
}

TEST_F(WeightFilesTool, BatchFirstExchangesTheAxesOfInputsOutputsAndReset) {
  write_zeros("w.npz", {{"W", Array::from_doubles({1, 2, 3, 4}, {2, 2}, DType::f64)},
                        {"b", Array::from_doubles({0.5, -0.5}, {2}, DType::f64)}});
  // T = 3, B = 2, I = 2.
  write_array("x.npy", {3, 2, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2});
  write_array("xb.npy", {2, 3, 2}, {0.1, 0.2, 0.5, 0.6, 0.9, 1.0, 0.3, 0.4, 0.7, 0.8, 1.1, 1.2});
  write_array("reset.npy", {3, 2}, {0, 0, 1, 0, 0, 0});
  write_array("resetb.npy", {2, 3}, {0, 1, 0, 0, 0, 0});
  write_array("h0.npy", {2, 2}, {0.1, 0.2, 0.3, 0.4});
  const auto run = [&](const std::string& b, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", "toy.rnn", "--dtype", "f64", "--weights", "w.npz", "--input",
                 "x=x" + b + ".npy", "--reset", "reset" + b + ".npy", "--init", "h=h0.npy"});
    return good(more);
  };
  run("", {"--output", "h=y.npy", "--final", "h=f.npy"});
  run("b", {"--output", "h=yb.npy", "--final", "h=fb.npy", "--batch-first"});
  const std::vector<double> y = read_array("y.npy").to_doubles();
  const Array yb = read_array("yb.npy");
  EXPECT_EQ(yb.shape, (std::vector<int64_t>{2, 3, 2}));
  const std::vector<double> values = yb.to_doubles();
  for (size_t t = 0; t < 3; ++t) {
    for (size_t b = 0; b < 2; ++b) {
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(values[(b * 3 + t) * 2 + i], y[(t * 2 + b) * 2 + i]) << t << b << i;
      }
    }
  }
  EXPECT_EQ(read_array("fb.npy").data, read_array("f.npy").data);
  EXPECT_EQ(run("b", {"--batch-first"}), "--output h [2, 3, 2]\n--final h [2, 2]\n");
}

TEST_F(WeightFilesTool, AxesThatLookExchangedAreDoubtedAndOnlyThey) {
  write_zeros("w.npz", {zeros("W", {2, 2}), zeros("b", {2})});
  const auto notes = [&](std::vector<int64_t> shape, std::vector<std::string> more) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    write_array("x.npy", shape, std::vector<double>(static_cast<size_t>(count)));
    more.insert(more.begin(), {"run", "toy.rnn", "--weights", "w.npz", "--input", "x=x.npy"});
    const CommandResult result = rnnc(more);
    const std::string note = "rnnc: note: ";
    return result.errors.starts_with(note)
               ? result.errors.substr(note.size(), result.errors.find('\n') - note.size())
               : "";
  };
  const auto lengths = [&](const std::vector<double>& values) {
    const auto count = static_cast<int64_t>(values.size());
    directory_.write("n.npy", lengths_file(Array::from_doubles(values, {count}, DType::f64)));
  };
  lengths({1, 2, 3});
  write_array("h.npy", {3, 2}, std::vector<double>(6));
  const std::string taken = "input `x` [3, 5, 2] is taken as 3 steps of 5 sequences";
  const std::string other = "if it is [B, T, ...], give --batch-first";
  EXPECT_EQ(notes({3, 5, 2}, {"--lengths", "n.npy"}),
            taken + ", but there are 3 lengths: " + other);
  EXPECT_EQ(notes({3, 5, 2}, {"--init", "h=h.npy"}),
            taken + ", but initial state `h` is of 3: " + other);
  directory_.write("s.npz", *format_npz({zeros("h", {3, 2})}));
  EXPECT_EQ(notes({3, 5, 2}, {"--carry-in", "s.npz"}),
            taken + ", but carried state `h` is of 3: " + other);
  EXPECT_EQ(notes({1, 9, 2}, {}),
            "input `x` [1, 9, 2] is taken as one step of 9 sequences: " + other);
  EXPECT_EQ(notes({5, 3, 2}, {"--lengths", "n.npy", "--batch-first"}),
            "input `x` [5, 3, 2] is taken as 3 steps of 5 sequences, but there are 3 lengths: "
            "without --batch-first it is [T, B, ...]");
  // Nothing speaks against these.
  EXPECT_EQ(notes({3, 5, 2}, {}), "");
  EXPECT_EQ(notes({5, 3, 2}, {"--lengths", "n.npy"}), "");
  EXPECT_EQ(notes({3, 3, 2}, {"--lengths", "n.npy"}), "");
  EXPECT_EQ(notes({3, 5, 2}, {"--lengths", "n.npy", "--batch-first"}), "");
  EXPECT_EQ(notes({1, 3, 2}, {"--init", "h=h.npy"}), "");
  EXPECT_EQ(notes({1, 3, 2}, {"--carry-out", "s.npz"}), "");
  EXPECT_EQ(notes({1, 1, 2}, {}), "");
}

TEST_F(WeightFilesTool, ZerosOfAnySizeAreMadeOrRefused) {
  directory_.write("zeros.rnn",
                   "cell C[I, H = 2147483647](x: [I]) -> h {\n  state h: [H]\n  param Z: [H, H]\n"
                   "  h[t] = Z @ h[t-1] + sum(x[t])\n}\n");
  directory_.write("zeros.map", "Z = zz or zeros\n");
  write_zeros("none.safetensors", {});
  write_array("x.npy", {3, 1, 2}, {1, 2, 3, 4, 5, 6});
  const std::string begin =
      "rnnc: error: not enough memory: with param `Z` [2147483647, 2147483647], those that are "
      "zeros take ";
  EXPECT_EQ(bad(1, {"run", "zeros.rnn", "--weights", "none.safetensors", "--weight-map",
                    "zeros.map", "--input", "x=x.npy"})
                .substr(0, begin.size()),
            begin);
}
#endif

TEST_F(WeightFilesTool, OtherFormatsAndPipesAreNamed) {
  directory_.write("w.pt", "\x80\x02}q" + std::string(100, '\0'));
  EXPECT_EQ(bad(1, {"weights", "toy.rnn", "--weights", "w.pt"}).substr(0, 61),
            "rnnc: error: `w.pt` is what torch.save writes, pickled Python");
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  const std::string fifo = "cannot read `fifo`: it is a named pipe, which might never end\n";
  EXPECT_EQ(bad(1, {"weights", "toy.rnn", "--weights", "fifo"}), "rnnc: error: " + fifo);
  EXPECT_EQ(bad(1, {"run", "toy.rnn", "--input", "x=fifo"}), "rnnc: error: " + fifo);
  EXPECT_EQ(bad(1, {"weights", "toy.rnn", "--weight-map", "fifo"}), "rnnc: error: " + fifo);
}

}  // namespace
}  // namespace rnnc::test
