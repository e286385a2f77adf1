// `rnnc explain --backward`, and the notes on gradients that are zero everywhere.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/reference/golden.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNote =
    "rnnc: note: round.rnn:4:9: `round(4 * w * x[t])` has the gradient zero everywhere: nothing is "
    "learned through it\n  hint: for a straight-through gradient write `v + stop_gradient(round(v) "
    "- v)`; `stop_gradient(round(v))` says that zero is meant\n";

class ExplainTraining : public Tools {
 protected:
  ExplainTraining() {
    directory_.write("round.rnn", R"(cell Round[H](x: [H]) -> h {
  state h: [H]
  param w: [H]
  s = 2*round(4 * w * x[t])
  h[t] = where(x[t] > 0, s, 1) * h[t-1]
}
)");
  }

  std::vector<std::string> words(const std::string& file, std::vector<std::string> more) const {
    const std::string cell = (data_root() / "examples" / file).string();
    more.insert(more.begin(), {"explain", cell, "--backward", "--batch", "4"});
    return more;
  }
  Json json(const std::string& file, std::vector<std::string> more) const {
    more.emplace_back("--json");
    return Json::parse(good(words(file, std::move(more))));
  }
};

Json value(const Json& explanation, const std::string& name) {
  for (const Json& one : explanation["residuals"]["values"]) {
    if (one["name"] == name) return one;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

TEST_F(ExplainTraining, TextSaysWhatIsSavedAndWhy) {
  const std::string text =
      good(words("cells/lstm.rnn", {"--dim", "I=80", "--dim", "H=512", "--device", "cuda"}));
  for (const char* part : {
           "LSTM: training, f32, batch 4, 100 steps, residuals auto\n",
           "\nResiduals: 5 of 28 values of a step are saved by the forward half\n"
           "  10.0 KiB a step of a sequence, 40.0 KiB a step of the batch, 3.91 MiB a call\n",
           "  saved:\n    c[t-1]                           [512]          2.00 KiB  ",
           "lstm.rnn:10:9, in saved@2\n      a state's earlier value: always saved, so that no "
           "recurrence runs again\n",
           "      moves 4.00 KiB; anew from x[t], h[t-1] it takes 2 products, the time of moving ",
           "  computed anew, for many steps at once:\n    `tanh(c[t])` in h[t] ",
           "      elementwise work on c[t-1], i, f, g; saving it would move 4.00 KiB\n",
           "  on the way to these:\n    `f * c[t-1]` in c[t], `i * g` in c[t], c[t]\n",
           "  read again:\n    x[t] ",
           "      an input of the call: read again at no cost\n    h[t-1] ",
           "      an output of the call: read again, a step earlier, at no cost\n",
           "  not needed, since no gradient asks for them:\n    `W_i @ x[t]` in i, ",
           "\n---- Forward half ----\n\nLSTM: f32, batch 4,",
           "\n---- Backward half ----\n\nLSTM: f32, batch 4,",
           "\n  states  h@adjoint [512], c@adjoint [512]\n  outputs x [80]\n  results W_i [512, "
           "80],",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
}

/// The backward half says whose adjoint it makes, and what it reads again, as the text calls it.
TEST_F(ExplainTraining, TheBackwardHalfSpeaksOfTheText) {
  const Json data = json("cells/lstm.rnn", {"--dim", "I=3", "--dim", "H=4", "--passes", "none"});
  std::set<std::string> written, read;
  std::map<std::string, std::set<std::string>> lines;  // by what is written
  for (const Json& stage : data["backward"]["stages"]) {
    for (const Json& launch : stage["launches"]) {
      for (const std::string name : launch["reads"]) read.insert(name);
      for (const std::string name : launch["writes"]) {
        written.insert(name);
        for (const std::string line : launch["lines"]) lines[name].insert(line);
      }
    }
  }
  const auto has = [](const std::set<std::string>& names, const char* name) {
    EXPECT_TRUE(names.contains(name)) << fmt::format("{}", fmt::join(names, ", "));
  };
  for (const char* name : {"i@adjoint", "c@adjoint", "W_i@gradient"}) has(written, name);
  for (const char* name : {"saved c[t-1]", "saved i[t]", "h[t-1]"}) has(read, name);
  for (const std::string& name : written) EXPECT_EQ(name.find("mul."), name.npos) << name;
  // Each gradient of a weight belongs to its product's line, each gate's to its own.
  EXPECT_EQ(lines["i@adjoint"].size(), 1U);
  EXPECT_EQ(lines["W_i@gradient"].size(), 1U);
  EXPECT_EQ(lines["W_i"], lines["W_i@gradient"]);
  bool found = false;
  for (const Json& node : data["backward"]["graphs"]["before"]["nodes"]) {
    found |= node["name"] == "c@adjoint[t]" || node["name"] == "i@adjoint";
  }
  EXPECT_TRUE(found);
}

TEST_F(ExplainTraining, ValuesThatStagesMakeAnewKeepTheirNames) {
  const Json data = json("cells/layernorm_lstm.rnn",
                         {"--device", "cuda", "--dtype", "bf16", "--dim", "I=64", "--dim", "H=64"});
  bool made_anew = false;  // of a product that the forward half saved, not of its deviation
  for (const Json& stage : data["backward"]["stages"]) {
    for (const Json& launch : stage["launches"]) {
      if (launch["kind"] == "recurrence") {
        made_anew =
            launch["reads"].dump().find("saved `R_i @ h[t-1]` in i[t]") != std::string::npos;
      }
      for (const char* list : {"reads", "writes"}) {
        for (const std::string name : launch[list]) {
          for (const char* op : {"mul.", "sub.", "mean.", "rsqrt.", "sigmoid."}) {
            EXPECT_EQ(name.find(op), name.npos) << name;
          }
        }
      }
    }
  }
  EXPECT_TRUE(made_anew);
}

TEST_F(ExplainTraining, EachChoiceHasItsReasons) {
  const std::vector<std::string> sizes = {"--dim", "I=80", "--dim", "H=512", "--residuals"};
  const auto of = [&](const char* choice) {
    std::vector<std::string> more = sizes;
    more.emplace_back(choice);
    return json("cells/gru.rnn", more);
  };
  const Json all = of("all");
  EXPECT_EQ(all["residuals"]["choice"], "all");
  EXPECT_EQ(value(all, "z")["how"], "saved");
  EXPECT_EQ(value(all, "z")["why"], "a gradient asks for it, and all such values are saved");
  const Json least = of("least");
  EXPECT_EQ(value(least, "z")["how"], "anew");
  EXPECT_EQ(value(least, "z")["why"],
            "elementwise work on what 2 products make of x[t], h[t-1]; saving it would move 4.00 "
            "KiB");
  EXPECT_EQ(value(least, "`W_z @ x[t]` in z")["why"],
            "a product of x[t]; saving it would move 4.00 KiB");
  EXPECT_EQ(value(least, "h[t]")["how"], "not needed");
  EXPECT_EQ(value(least, "h[t]")["why"], "no gradient asks for it");
  EXPECT_EQ(value(least, "h[t-1]")["how"], "read");
  EXPECT_EQ(value(least, "h[t-1]")["why"],
            "an output of the call: read again, a step earlier, at no cost");
  const Json fastest = of("auto");
  EXPECT_EQ(value(fastest, "z")["how"], "saved");
  EXPECT_LT(least["residuals"]["bytes_per_step"], fastest["residuals"]["bytes_per_step"]);
  EXPECT_LT(fastest["residuals"]["bytes_per_step"], all["residuals"]["bytes_per_step"]);
}

TEST_F(ExplainTraining, BytesAreThoseOfTheHalvesArrays) {
  const Json data = json("networks/bidirectional_gru.rnn",
                         {"--dim", "F=8", "--dim", "H=16", "--dim", "L=2", "--steps", "10"});
  const Json& residuals = data["residuals"];
  int64_t bytes = 0;
  size_t saved = 0;
  for (const Json& one : residuals["values"]) {
    bytes += one["bytes"].get<int64_t>();
    if (one["how"] != "saved") continue;
    ++saved;
    const auto has = [&](const char* half, const char* kind) {
      return std::ranges::any_of(data[half]["arrays"], [&](const Json& array) {
        return array["name"] == one["array"] && array["kind"] == kind &&
               array["shape"] == one["shape"];
      });
    };
    EXPECT_TRUE(has("forward", "output") && has("backward", "input")) << one;
    EXPECT_NE(one["place"].get<std::string>().find(".rnn:"), std::string::npos) << one;
  }
  EXPECT_GE(saved, 4U);
  EXPECT_EQ(residuals["bytes_per_step"], bytes);
  EXPECT_EQ(residuals["bytes_per_step_of_batch"], bytes * 4);
  EXPECT_EQ(residuals["bytes"], bytes * 4 * 10);
  EXPECT_GT(residuals["operations_per_byte"], 1);
  EXPECT_EQ(value(data, "GRU.0.h[t]")["why"],
            "a sequence that was reversed on the way: always saved");
  EXPECT_EQ(value(data, "GRU.3.h[t-1]")["how"], "saved");
  for (const char* half : {"forward", "backward"}) {
    EXPECT_GT(data[half]["totals"]["seconds"], 0) << half;
    EXPECT_GT(data[half]["memory"]["caller_bytes"], 0) << half;
  }
}

/// A state is never computed anew, but what is made of it may be all that is needed.
TEST_F(ExplainTraining, LeastSavesWhatIsSmaller) {
  directory_.write("sum.rnn", R"(cell Sum[H](x: [H]) -> y {
  state h: [H]
  param w: [H]
  h[t] = 0.9 * h[t-1] + x[t]
  d = sum(h[t-1])
  y = exp(d * w)
}
)");
  for (const char* choice : {"least", "auto"}) {
    const Json data = Json::parse(good(
        {"explain", "sum.rnn", "--dim", "H=64", "--residuals", choice, "--json", "--backward"}));
    EXPECT_EQ(value(data, "d")["how"], "saved");
    EXPECT_EQ(value(data, "d")["why"],
              "fewer bytes than h[t-1], which would have to be saved in its stead");
    EXPECT_EQ(value(data, "h[t-1]")["how"], "not needed");
  }
}

TEST_F(ExplainTraining, HasAPage) {
  std::vector<std::string> page = words("cells/lstm.rnn", {"--dim", "I=3", "--dim", "H=4"});
  page.emplace_back("--html");
  const std::string text = good(page);
  const size_t begin = text.find("id=\"data\">") + 10;
  const std::string data = text.substr(begin, text.find("</script>", begin) - begin);
  EXPECT_EQ(Json::parse(data), json("cells/lstm.rnn", {"--dim", "I=3", "--dim", "H=4"}));
  EXPECT_NE(text.find("function drawResiduals(data)"), std::string::npos);
}

TEST_F(ExplainTraining, RefusesWhatDoesNotGoTogether) {
  EXPECT_NE(bad(2, {"explain", "toy.rnn", "--residuals", "all"}).find("--backward"),
            std::string::npos);
  EXPECT_NE(bad(1, {"explain", "toy.rnn", "--backward"}).find("--dim NAME=NUMBER"),
            std::string::npos);
}

TEST_F(ExplainTraining, NotesTellWhereNothingIsLearned) {
  CommandResult result = rnnc({"explain", "round.rnn", "--dim", "H=3", "--backward", "--json"});
  EXPECT_EQ(result.errors, kNote);
  const Json notes = Json::parse(result.output)["notes"];
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(fmt::format("rnnc: note: {}\n", notes[0].get<std::string>()), kNote);
  EXPECT_EQ(rnnc({"gradcheck", "round.rnn", "--dim", "H=3"}).errors, kNote);
  EXPECT_EQ(rnnc({"bench", "round.rnn", "--dim", "H=3", "--backward", "--runs", "1"}).errors,
            kNote);

  write_array("x.npy", {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  write_array("dh.npy", {2, 1, 3}, {1, 0, 0.5, -1, 2, 0});
  std::vector<std::string> run = {"run", "round.rnn", "--seed", "1", "--input", "x=x.npy"};
  good(run);
  run.insert(run.end(), {"--output-gradient", "h=dh.npy", "--gradients", "g.npz"});
  EXPECT_EQ(rnnc(run).errors, kNote);
}

TEST_F(ExplainTraining, NotesTellOfComparisonsThatAreNumbers) {
  directory_.write("spike.rnn", R"(cell Spike[H](x: [H]) -> y {
  param w: [H]
  y = (w * x[t] > 1) * x[t]
}
)");
  EXPECT_EQ(rnnc({"gradcheck", "spike.rnn", "--dim", "H=3"}).errors,
            "rnnc: note: spike.rnn:3:7: `w * x[t] > 1` counts as a number here, whose gradient is "
            "zero everywhere: nothing is learned through it\n  hint: for a gradient of your choice "
            "write `s + stop_gradient((w * x[t] > 1) - s)`, with `s = sigmoid(…)`, say; "
            "`stop_gradient(w * x[t] > 1)` says that zero is meant\n");
  directory_.write("meant.rnn", R"(cell Meant[H](x: [H]) -> y {
  param w: [H]
  v = w * x[t]
  y = stop_gradient(v > 1) * x[t] + v + stop_gradient(round(v) - v)
}
)");
  good({"gradcheck", "meant.rnn", "--dim", "H=3"});
}

}  // namespace
}  // namespace rnnc::test
