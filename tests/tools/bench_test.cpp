/// `rnnc bench` and `rnnc bench ladder`: what they print and refuse; times are not looked at.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "passes/options/pass_set.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

class Bench : public Tools {
 protected:
  Bench() {
    directory_.write("lstm.rnn", R"(
cell Cell[H](x: [H]) -> h {
  state h, c: [H]
  param W, U, R, V: [H, H]
  param b: [H]
  f = sigmoid(W @ x[t] + R @ h[t-1] + b)
  g = tanh(U @ x[t] + V @ h[t-1])
  c[t] = f * c[t-1] + (1 - f) * g
  h[t] = tanh(c[t])
}
network Net[H, L](x: [H]) -> y {
  y = x
  for l in 0..L { y = Cell[H = H](y) }
}
)");
  }

  static std::string without_numbers(const std::string& text) {
    return std::regex_replace(text, std::regex("[0-9.]+"), "#");
  }

  /// `rnnc bench … Net` with few steps and runs.
  static std::vector<std::string> net(std::vector<std::string> words,
                                      const std::vector<std::string>& more) {
    const std::vector<std::string> shape = {"lstm.rnn", "--cell",    "Net",     "--dim",  "H=4",
                                            "--dim",    "L=2",       "--batch", "3",      "--steps",
                                            "5",        "--threads", "1",       "--runs", "1"};
    words.insert(words.end(), shape.begin(), shape.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Bench, HelpHasExamples) {
  EXPECT_NE(good({"--help"}).find("\n  bench"), std::string::npos);
  EXPECT_NE(good({"bench", "--help"}).find("\n  rnnc bench "), std::string::npos);
  const std::string help = good({"bench", "ladder", "--help"});
  EXPECT_NE(help.find("\n  rnnc bench ladder "), std::string::npos) << help;
}

TEST_F(Bench, MeasuresTraining) {
  const std::string text = without_numbers(good(net({"bench"}, {"--backward"})));
  EXPECT_EQ(text,
            "time per step  # us (median of # runs of # steps), of which forward # us\n"
            "predicted      # us\n"
            "floor          # us\n"
            "launches       # per run\n"
            "reserve        # MB\n"
            "workspace      # MB\n");
  good(net({"bench"}, {"--backward", "--residuals", "least", "--json", "b.json"}));
  const Json json = Json::parse(TemporaryDirectory::read(directory_ / "b.json"));
  EXPECT_EQ(json.at("residuals"), "least");
  EXPECT_GT(json.at("microseconds_per_step").get<double>(),
            json.at("forward_microseconds_per_step").get<double>());
  EXPECT_GT(json.at("reserve_bytes").get<int64_t>(), 0);
  good(net({"bench"}, {"--backward", "--checkpoint", "2", "--json", "c.json"}));
  const Json pieces = Json::parse(TemporaryDirectory::read(directory_ / "c.json"));
  EXPECT_EQ(pieces.at("checkpoint"), 2);
  EXPECT_GT(pieces.at("reserve_bytes").get<int64_t>(), 0);
  good(net({"bench"}, {"--backward", "--given-states", "--json", "d.json"}));
  const Json given = Json::parse(TemporaryDirectory::read(directory_ / "d.json"));
  EXPECT_EQ(given.at("given_states"), true);
  EXPECT_EQ(json.at("given_states"), false);
  EXPECT_NE(bad(2, net({"bench"}, {"--backward", "--compile"})).find("excludes"),
            std::string::npos);
}

TEST_F(Bench, MeasuresCallsWithLengthsAndResets) {
  for (const bool backward : {false, true}) {
    std::vector<std::string> more = {"--lengths", "--resets", "--json", "b.json"};
    if (backward) more.emplace_back("--backward");
    good(net({"bench"}, more));
    const Json json = Json::parse(TemporaryDirectory::read(directory_ / "b.json"));
    EXPECT_EQ(json.at("lengths"), true);
    EXPECT_EQ(json.at("resets"), true);
    EXPECT_GT(json.at("microseconds_per_step").get<double>(), 0);
  }
  good(net({"bench"}, {"--json", "b.json"}));
  const Json json = Json::parse(TemporaryDirectory::read(directory_ / "b.json"));
  EXPECT_EQ(json.at("lengths"), false);
}

TEST_F(Bench, UsageErrorsExitWith2) {
  const std::string no_tf32 = "--tf32 is for f32 on a GPU, not for f32 on cpu";
  EXPECT_EQ(bad(2, {"bench"}),
            usage_error("rnnc bench", "FILE is required, or `ladder` or `scan`"));
  EXPECT_EQ(bad(2, {"bench", "toy.rnn", "--tf32"}), usage_error("rnnc bench", no_tf32));
  EXPECT_EQ(bad(2, {"bench", "ladder", "--tf32"}), usage_error("rnnc bench ladder", no_tf32));
  EXPECT_EQ(bad(2, {"bench", "ladder", "--devise", "cpu"}),
            usage_error("rnnc bench ladder", "unknown option `--devise`", "--device"));
  EXPECT_EQ(bad(2, {"bench", "toy.rnn", "--spare-multiprocessors", "4"}),
            usage_error("rnnc bench", "--spare-multiprocessors is for a GPU, not for cpu"));
  EXPECT_EQ(bad(2, {"bench", "toy.rnn", "--f32-params"}),
            usage_error("rnnc bench", "--f32-params is for --dtype bf16 or f16, not f32"));
  const std::vector<std::vector<std::string>> wrong = {
      {"bench", "toy.rnn", "--dtype", "f8"},
      {"bench", "toy.rnn", "--device", "gpu"},
      {"bench", "toy.rnn", "--runs", "-1"},
      {"bench", "toy.rnn", "--seconds", "x"},
      {"bench", "toy.rnn", "--steps", "0"},
      {"bench", "toy.rnn", "--passes", "hoist,sink"},
      {"bench", "--device", "cpu", "ladder"},  // would go unheard
      {"bench", "ladder", "--network", "tiny"},
      {"bench", "ladder", "--batch", "8"},  // of what?
      {"bench", "ladder", "--dim", "H=8"},
      {"bench", "ladder", "toy.rnn", "--network", "small"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const std::string text = bad(2, arguments);
    EXPECT_NE(text.find("--help"), std::string::npos) << text;
  }
}

TEST_F(Bench, ErrorsOfFilesExitWith1) {
  EXPECT_EQ(bad(1, {"bench", "missing.rnn"}),
            "rnnc: error: cannot read `missing.rnn`: No such file or directory\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"bench"}, {"bench", "ladder"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"toy.rnn", "--dim", "I=3"});
    EXPECT_EQ(bad(1, arguments),
              "rnnc: error: Toy: no value for dim `H`\n  give each with --dim NAME=NUMBER\n");
  }
}

#ifdef RNNC_WITH_CPU
TEST_F(Bench, TellsTheTimePerStep) {
  EXPECT_EQ(without_numbers(good(net({"bench"}, {}))),
            "time per step  # us (median of # runs of # steps)\n"
            "predicted      # us\n"
            "floor          # us\n"
            "launches       # per run\n");

  const Json json = Json::parse(good(net({"bench"}, {"--json", "-", "--passes", "none"})));
  EXPECT_EQ(json["name"], "Net");
  EXPECT_EQ(json["passes"], "none");
  EXPECT_EQ(json["strategy"], "any");
  EXPECT_EQ(json["batch"], 3);
  EXPECT_EQ(json["steps"], 5);
  EXPECT_EQ(json["runs"], 1);
  EXPECT_EQ(json["tiles"], Json::array());
  EXPECT_EQ(json["tile_rank"], 0);
  EXPECT_GT(json["microseconds_per_step"], 0);
  EXPECT_FALSE(json.contains("replayed_microseconds_per_step"));
  EXPECT_GT(json["predicted_microseconds_per_step"], 0);
  EXPECT_GT(json["floor_microseconds_per_step"], 0);
  // Two layers, each with four products and at least as many other operations in every step.
  EXPECT_GE(json["launches_per_call"], 5 * 2 * (4 + 4));
}

TEST_F(Bench, TellsTheTimeToCompile) {
  const std::string text = good(net({"bench"}, {"--compile"}));
  EXPECT_TRUE(text.starts_with("compile  ")) << text;
  EXPECT_TRUE(text.ends_with(" ms from the kernel cache\n")) << text;
  EXPECT_EQ(good(net({"bench"}, {"--compile", "--json", "c.json"})), "");
  const Json json = Json::parse(TemporaryDirectory::read(directory_ / "c.json"));
  EXPECT_GT(json["cold_seconds"], 0);
  EXPECT_GT(json["cached_seconds"], 0);
}

TEST_F(Bench, LadderGoesFromNoPassToAll) {
  const std::string text = good(net({"bench", "ladder"}, {"--json", "l.json", "--svg", "l.svg"}));
  EXPECT_TRUE(text.starts_with("Net: B 3, T 5\n")) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\nf32 on .*; floor [0-9.]+ us per step\n")))
      << text;
  const Json json = Json::parse(TemporaryDirectory::read(directory_ / "l.json"));
  EXPECT_EQ(json["device"], "cpu");
  ASSERT_EQ(json["networks"].size(), 1u);
  const Json& rungs = json["networks"][0]["rungs"];
  EXPECT_EQ(rungs.front()["passes"], "none");
  EXPECT_EQ(rungs.back()["passes"], "all");
  EXPECT_EQ(rungs.front()["speedup"], 1);
  EXPECT_LT(rungs.back()["launches_per_call"], rungs.front()["launches_per_call"]);
  const std::string svg = TemporaryDirectory::read(directory_ / "l.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << svg;
  EXPECT_NE(without_numbers(svg).find(">#x, # us</text>"), std::string::npos) << svg;
  for (size_t i = 0; i < rungs.size(); ++i) {
    const std::string name = rungs[i]["name"];
    EXPECT_NE(text.find("\n" + name + " "), std::string::npos) << text;
    EXPECT_LE(rungs[i]["difference"], json["networks"][0]["allowed_difference"]);
    const bool same_plan = rungs[i]["same_plan"];
    EXPECT_EQ(svg.find(">" + name + "<") == std::string::npos, same_plan) << svg;
    if (i == 0) continue;
    // Each rung keeps what the ones before it had.
    const PassSet before = *PassSet::parse(std::string(rungs[i - 1]["passes"]));
    const PassSet now = *PassSet::parse(std::string(rungs[i]["passes"]));
    EXPECT_NE(before, now) << name;
    for (const PassInfo& info : all_passes()) {
      EXPECT_TRUE(!before.has(info.pass) || now.has(info.pass)) << name << " lost " << info.name;
    }
    if (!same_plan) continue;
    EXPECT_EQ(rungs[i]["microseconds_per_step"], rungs[i - 1]["microseconds_per_step"]);
  }
}

TEST_F(Bench, ScanComparesStrategies) {
  const std::string text =
      good({"bench", "scan", "--most-steps", "40", "--runs", "2", "--json", "s.json"});
  EXPECT_TRUE(text.starts_with(
      "batch\thidden\tsteps\tchoice\tus\tloop us\tscan us\tsum us\tshare\tspeedup\n"))
      << text;
  const Json json = Json::parse(TemporaryDirectory::read(directory_ / "s.json"));
  EXPECT_EQ(json["device"], "cpu");
  std::set<int64_t> steps;
  for (const Json& shape : json["shapes"]) {
    steps.insert(shape["steps"].get<int64_t>());
    EXPECT_TRUE(shape["choice"] == "loop" || shape["choice"] == "scan");
    for (const char* of : {"", "loop_", "scan_", "sum_"}) {
      EXPECT_GT(shape[fmt::format("{}microseconds", of)], 0);
    }
  }
  EXPECT_EQ(steps, (std::set<int64_t>{1, 32}));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + std::ssize(json["shapes"]));
}

TEST_F(Bench, WritesWhereItCan) {
  EXPECT_EQ(bad(1, net({"bench"}, {"--json", "no/place.json"})),
            "rnnc: error: cannot write `no/place.json`: `no`: No such file or directory\n");
  EXPECT_EQ(bad(1, net({"bench", "ladder"}, {"--svg", "no/place.svg"})),
            "rnnc: error: cannot write `no/place.svg`: `no`: No such file or directory\n");
}
#endif

TEST_F(Bench, ReplaysCallsOnAGpu) {
  const CommandResult table = rnnc(net({"bench"}, {"--device", "cuda"}));
  for (const char* reason : {"cannot be used", "no CUDA backend", "NVRTC"}) {
    if (table.errors.find(reason) != std::string::npos) GTEST_SKIP() << table.errors;
  }
  EXPECT_EQ(without_numbers(table.output),
            "time per step  # us (median of # runs of # steps)\n"
            "replayed       # us (median of # replays of a CUDA graph, four in a row)\n"
            "predicted      # us\n"
            "floor          # us\n"
            "launches       # per run\n")
      << table.errors;
  const std::vector<std::string> words = {"--device", "cuda", "--json", "-"};
  const Json both = Json::parse(good(net({"bench"}, words)));
  EXPECT_GT(both["microseconds_per_step"], 0);
  EXPECT_GT(both["replayed_microseconds_per_step"], 0);
  EXPECT_EQ(both["runs"], 1);
  EXPECT_EQ(both["replayed_runs"], 1);
  const Json plain = Json::parse(good(net({"bench", "--no-graphs"}, words)));
  EXPECT_GT(plain["microseconds_per_step"], 0);
  EXPECT_FALSE(plain.contains("replayed_microseconds_per_step"));
}

}  // namespace
}  // namespace rnnc::test
