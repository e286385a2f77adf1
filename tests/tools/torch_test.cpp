/// PyTorch's modules, saved as they are: loaded by the shipped maps, run on the shipped cells and
/// networks, compared with what PyTorch gave (tests/goldens/make_torch_models.py).
#ifdef RNNC_WITH_CPU
#include <map>

#include "runtime/arrays/safetensors.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

const std::string kExamples = RNNC_SOURCE_DIR "/examples/";
const std::string kModels = RNNC_SOURCE_DIR "/tests/goldens/torch_models.safetensors";

/// What runs the models of one kind.
struct Runner {
  std::string network;  // or a cell: the .rnn file and the map below `examples/`
  std::string map;
  std::string layer;            // the network's layers are LAYER.0, LAYER.1…; empty: a cell
  std::string definition = {};  // empty: the file's only one
};

const std::map<std::string, Runner> kStacked = {
    {"lstm", {"networks/stacked_lstm.rnn", "torch/stacked_lstm.map", "LSTM"}},
    {"projected",
     {"networks/stacked_projected_lstm.rnn", "torch/stacked_projected_lstm.map", "ProjectedLSTM"}},
    {"gru", {"networks/stacked_gru.rnn", "torch/stacked_gru.map", "GRU"}},
    {"rnn", {"networks/stacked_elman.rnn", "torch/stacked_rnn.map", "Elman"}},
    {"relu",
     {"networks/stacked_elman_relu.rnn", "torch/stacked_rnn_relu.map", "ElmanReLU",
      "StackedElmanReLU"}},
};
const std::map<std::string, Runner> kBidirectional = {
    {"lstm", {"networks/bidirectional_lstm.rnn", "torch/bidirectional_lstm.map", "LSTM"}},
    {"projected",
     {"networks/bidirectional_projected_lstm.rnn", "torch/bidirectional_projected_lstm.map",
      "ProjectedLSTM"}},
    {"gru", {"networks/bidirectional_gru.rnn", "torch/bidirectional_gru.map", "GRU"}},
    {"rnn", {"networks/bidirectional_elman.rnn", "torch/bidirectional_rnn.map", "Elman"}},
};
const std::map<std::string, Runner> kCells = {
    {"lstm", {"cells/lstm.rnn", "torch/lstm.map", ""}},
    {"projected", {"cells/projected_lstm.rnn", "torch/projected_lstm.map", ""}},
    {"gru", {"cells/gru.rnn", "torch/gru.map", ""}},
    {"rnn", {"cells/elman.rnn", "torch/rnn.map", ""}},
};

class TorchModels : public Tools {
 protected:
  TorchModels() {
    const Result<std::vector<NamedArray>> tensors = read_safetensors(kModels);
    EXPECT_TRUE(tensors) << tensors.error().message;
    for (const NamedArray& tensor : tensors.value_or(std::vector<NamedArray>{})) {
      tensors_.emplace(tensor.name, tensor.array);
    }
  }

  /// "lstm_2_bi_nobias" and so on.
  std::vector<std::string> models() const {
    std::vector<std::string> names;
    for (const auto& [name, array] : tensors_) {
      if (name.ends_with(".x")) names.push_back(name.substr(0, name.size() - 2));
    }
    return names;
  }

  /// Runs a model and compares outputs and final states; `part` is "" or "packed.".
  void expect_like_torch(const std::string& model, const Runner& runner, const std::string& part,
                         const std::string& dtype, double tolerance) {
    SCOPED_TRACE(model + " " + runner.network + " " + part + dtype);
    const Array& h_n = tensors_.at(model + "." + part + "h_n");
    const auto states = static_cast<size_t>(h_n.shape[0]);  // layers * directions
    std::vector<std::string> run = {"run",          kExamples + runner.network,
                                    "--weights",    kModels,
                                    "--weight-map", kExamples + runner.map,
                                    "--dtype",      dtype,
                                    "--input",      "x=x.npy",
                                    "--output",     runner.layer.empty() ? "h=y.npy" : "y=y.npy"};
    run.insert(run.end(), {"--weight-prefix", model + ".rnn."});
    if (!runner.layer.empty()) {
      const bool both = model.find("_bi") != std::string::npos;
      run.insert(run.end(), {"--dim", fmt::format("L={}", both ? states / 2 : states)});
    }
    if (!runner.definition.empty()) run.insert(run.end(), {"--cell", runner.definition});
    EXPECT_TRUE(write_npy(directory_ / "x.npy", tensors_.at(model + ".x")));
    if (!part.empty()) {
      directory_.write("n.npy", lengths_file(tensors_.at(model + ".lengths")));
      run.insert(run.end(), {"--lengths", "n.npy"});
    }
    for (const std::string letter : {"h", "c"}) {
      if (!tensors_.contains(model + "." + letter + "_n")) continue;
      for (size_t i = 0; i < states; ++i) {
        const std::string name =
            runner.layer.empty() ? letter : fmt::format("{}.{}.{}", runner.layer, i, letter);
        run.insert(run.end(), {"--final", name + "=" + name + ".npy"});
        const auto start = tensors_.find(model + "." + letter + "_0");
        if (start == tensors_.end()) continue;
        EXPECT_TRUE(write_npy(directory_ / (name + "0.npy"), slice(start->second, i)));
        run.insert(run.end(), {"--init", name + "=" + name + "0.npy"});
      }
    }
    if (good(run) != "") return;
    expect_near(read_array("y.npy"), tensors_.at(model + "." + part + "y"), tolerance);
    for (const std::string letter : {"h", "c"}) {
      const auto wanted = tensors_.find(model + "." + part + letter + "_n");
      if (wanted == tensors_.end()) continue;
      for (size_t i = 0; i < states; ++i) {
        const std::string name =
            runner.layer.empty() ? letter : fmt::format("{}.{}.{}", runner.layer, i, letter);
        expect_near(read_array(name + ".npy"), slice(wanted->second, i), tolerance);
      }
    }
  }

 private:
  /// Entry `index` of the first axis.
  static Array slice(const Array& array, size_t index) {
    Array result{array.dtype, {array.shape.begin() + 1, array.shape.end()}, {}};
    const size_t bytes = array.data.size() / static_cast<size_t>(array.shape[0]);
    const auto begin = array.data.begin() + static_cast<ptrdiff_t>(index * bytes);
    result.data.assign(begin, begin + static_cast<ptrdiff_t>(bytes));
    return result;
  }
  static void expect_near(const Array& actual, const Array& wanted, double tolerance) {
    ASSERT_EQ(actual.shape, wanted.shape);
    const std::vector<double> values = actual.to_doubles();
    const std::vector<double> others = wanted.to_doubles();
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], others[i], tolerance) << i;
  }

  std::map<std::string, Array> tensors_;
};

TEST_F(TorchModels, NetworksGiveWhatPyTorchGives) {
  for (const std::string& model : models()) {
    const std::string kind = model.substr(0, model.find('_'));
    const bool both = model.find("_bi") != std::string::npos;
    const Runner& runner = (both ? kBidirectional : kStacked).at(kind);
    expect_like_torch(model, runner, "", "f64", 1e-12);
    // Packed sequences and f32 where the most comes together.
    if (model.find("_3") != std::string::npos) {
      expect_like_torch(model, runner, "packed.", "f64", 1e-12);
      expect_like_torch(model, runner, "", "f32", 2e-5);
    }
    if (HasFailure()) return;  // one model's are enough
  }
}

TEST_F(TorchModels, CellsGiveWhatPyTorchGives) {
  for (const auto& [kind, runner] : kCells) {
    expect_like_torch(kind + "_1", runner, "", "f64", 1e-12);
    expect_like_torch(kind + "_1", runner, "packed.", "f32", 2e-5);
  }
}

TEST_F(TorchModels, WeightsSayOfWhatParamsAreMade) {
  EXPECT_EQ(good({"weights", kExamples + "cells/gru.rnn", "--weights", kModels, "--weight-prefix",
                  "gru_1.rnn.", "--weight-map", kExamples + "torch/gru.map", "--dim", "H=4"})
                .substr(0, 82),
            "W_r [4, I] = weight_ih_l0[0 of 3]\nW_z [4, I] = weight_ih_l0[1 of 3]\nW_n [4, I] = "
            "w");
  const std::string error = bad(
      1, {"weights", kExamples + "networks/stacked_lstm.rnn", "--weights", kModels,
          "--weight-prefix", "lstm_3.rnn.", "--weight-map", kExamples + "torch/stacked_lstm.map"});
  EXPECT_EQ(error,
            "rnnc: error: the arrays do not fit `StackedLSTM`:\n"
            "  tensor `bias_hh_l2` [16] is not used by the map\n"
            "  tensor `bias_ih_l2` [16] is not used by the map\n"
            "  tensor `weight_hh_l2` [16, 4] is not used by the map\n"
            "  tensor `weight_ih_l2` [16, 4] is not used by the map\n");
}

}  // namespace
}  // namespace rnnc::test
#endif
