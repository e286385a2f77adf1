#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/explain_support.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

class Explain : public Tools {
 protected:
  /// Of two layers of a tanh cell, so that there is a wavefront.
  Json network(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(),
                     {"explain", "net.rnn", "--cell", "Net", "--dim", "H=8", "--batch", "4"});
    return explain(arguments);
  }
  Json explain(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    return Json::parse(good(arguments));
  }
  Explain() { directory_.write("net.rnn", kNetwork); }
};

/// Launches that do not belong to a Once stage.
std::vector<Json> launches_of_steps(const Json& explanation) {
  std::vector<Json> launches;
  for (const Json& stage : explanation["stages"]) {
    if (stage["domain"] == "once") continue;
    for (const Json& launch : stage["launches"]) launches.push_back(launch);
  }
  return launches;
}

TEST_F(Explain, TextSaysStagesWithReasonsAndLaunches) {
  const std::string text = good({"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4", "--batch",
                                 "2", "--steps", "10", "--device", "cuda"});
  for (const char* part : {
           "Toy: f32, batch 2, 10 steps in chunks of 10, passes all\n",
           "  inputs  x [3]\n  params  2 arrays, 16 elements\n  states  h [4]\n  outputs h [4]\n",
           "the step graph: 1 product, 3 elementwise operations, 0 reductions\n",
           "time-parallel (sequence)\n  no recurrence passes through it: 10 steps of a chunk at "
           "once\n",
           "W @ x[t]\n      library GEMM, 20 rows x 4 x 3\n",
           ": h, elementwise (sequence)\n  tanh makes it nonlinear (toy.rnn:",
           "); no product or reduction inside",
           "a loop over the steps of a chunk, one thread per sequence and channel",
           "\nWaves: 1 chunk of 10 steps, 1 wave\n",
           "\nMemory\n  workspace",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
}

TEST_F(Explain, TextSaysHowThreadsShareLoopsAndScans) {
  directory_.write(
      "gate.rnn", "cell Gate[H](p: [H]) -> h {\n  state h: [H]\n  h[t] = 0.5 * h[t-1] + p[t]\n}\n");
  const auto text = [&](const char* strategy) {
    return good({"explain", "gate.rnn", "--dim", "H=4", "--steps", "4096", "--strategy", strategy});
  };
  EXPECT_NE(
      text("loop").find("\n      a loop over the steps of a chunk, whose sequences and vectors "
                        "of channels threads share out\n"),
      std::string::npos);
  EXPECT_NE(text("scan").find("\n      a scan: tiles of 1024 steps side by side, shared out among "
                              "threads, which hand their states on\n"),
            std::string::npos);
}

/// Launches write what lines of the text give under the names that these have.
TEST_F(Explain, ValuesHaveTheNamesOfTheText) {
  directory_.write("named.rnn", R"(
cell Named[H](x: [H]) -> h {
  state h: [H]
  param W: [H, H]
  k = silu(W @ h[t-1] + x[t])
  h[t] = 0.5 * h[t-1] + k
}
)");
  const Json named = explain({"explain", "named.rnn", "--dim", "H=4", "--passes", "none"});
  std::set<std::string> written;
  for (const Json& launch : launches_of_steps(named)) {
    for (const std::string name : launch["writes"]) written.insert(name.substr(0, name.find('[')));
    EXPECT_EQ(launch["what"].get<std::string>().find("silu."), std::string::npos) << launch;
  }
  EXPECT_EQ(written.count("k"), 1U) << fmt::format("{}", fmt::join(written, ", "));
  bool found = false;
  for (const Json& node : named["graphs"]["before"]["nodes"]) {
    found |= node["name"] == "k" && node["place"] == "named.rnn:5:7" && node["local"] == true;
  }
  EXPECT_TRUE(found);
  ASSERT_EQ(named["sources"].size(), 1U);
  EXPECT_EQ(named["sources"][0]["name"], "named.rnn");
  EXPECT_EQ(named["sources"][0]["text"], TemporaryDirectory::read(directory_ / "named.rnn"));
}

/// A launch's lines are those of the values on the way from what it reads to what it writes.
TEST_F(Explain, LaunchesHaveTheLinesThatTheyCompute) {
  directory_.write("lines.rnn", R"(
cell Lines[H](x: [H]) -> h {
  state h: [H]
  param W, R: [H, H]
  a = exp(x[t])
  z = sigmoid(W @ a)
  h[t] = z * tanh(R @ h[t-1]) +
         (1 - z) * x[t]
}
)");
  const std::vector<std::string> words = {"explain", "lines.rnn", "--dim", "H=4"};
  std::map<std::string, std::set<std::string>> lines;  // by what is written
  std::set<std::string> all;
  std::vector<std::string> none = words;
  none.insert(none.end(), {"--passes", "none"});
  for (const Json& launch : launches_of_steps(explain(none))) {
    for (const std::string line : launch["lines"]) {
      for (const std::string name : launch["writes"]) lines[name].insert(line);
    }
  }
  EXPECT_EQ(lines["a"], std::set<std::string>({"lines.rnn:5"}));
  EXPECT_EQ(lines["products of a"], std::set<std::string>({"lines.rnn:6"}));
  EXPECT_EQ(lines["z[t]"], std::set<std::string>({"lines.rnn:6"}));
  EXPECT_EQ(lines["products of h"], std::set<std::string>({"lines.rnn:7"}));
  for (const Json& launch : launches_of_steps(explain(words))) {
    for (const std::string line : launch["lines"]) all.insert(line);
  }
  EXPECT_EQ(all,
            std::set<std::string>({"lines.rnn:5", "lines.rnn:6", "lines.rnn:7", "lines.rnn:8"}));
}

TEST_F(Explain, TurnsOfLoopsThatAreAlikeRepeat) {
  directory_.write("turns.rnn", R"(
cell Turns[I, H, L = 3](x: [I]) -> (h, y) {
  state h[L]: [H]
  param V: [H, I]
  param W[L]: [H, H]
  y = V @ x[t]
  for l in 0..L {
    for k in 0..2 { y = tanh(W[l] @ y) + y * sigmoid(y) }
    h[l][t] = y + h[l][t-1]
    y = 2 * h[l][t]
  }
}
network Stack[F, H](x: [F]) -> y {
  y = x
  for l in 0..4 { y = Cell[H = H](y) }
}
cell Cell[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1])
}
)");
  const auto repeats = [&](const char* cell, std::vector<std::string> dims) {
    dims.insert(dims.begin(), {"explain", "turns.rnn", "--cell", cell});
    std::vector<uint32_t> counts;
    const Json data = explain(dims);
    for (const Json& repeat : data["graphs"]["before"]["repeats"]) {
      counts.push_back(repeat["count"]);
    }
    return counts;
  };
  EXPECT_EQ(repeats("Turns", {"--dim", "I=3", "--dim", "H=4"}), std::vector<uint32_t>({3, 2}));
  // The first layer is of another shape.
  EXPECT_EQ(repeats("Stack", {"--dim", "F=3", "--dim", "H=4"}), std::vector<uint32_t>({3}));
  EXPECT_EQ(repeats("Stack", {"--dim", "F=4", "--dim", "H=4"}), std::vector<uint32_t>({4}));
  EXPECT_EQ(repeats("Cell", {"--dim", "I=4", "--dim", "H=4"}), std::vector<uint32_t>());
}

/// The launches of a picture that repeats say are alike, each with its id.
std::vector<std::vector<std::string>> repeated_launches(const Json& graph) {
  std::vector<std::vector<std::string>> all;
  for (const Json& repeat : graph["repeats"]) {
    const size_t first = repeat["first"], length = repeat["length"], count = repeat["count"];
    for (size_t at = first; at < first + length; ++at) {
      if (graph["nodes"][at]["launch"] == "") continue;
      all.emplace_back();
      for (size_t turn = 0; turn < count; ++turn) {
        all.back().push_back(graph["nodes"][at + turn * length]["launch"]);
      }
    }
  }
  return all;
}

TEST_F(Explain, LaunchesOfLayersAndLoopsRepeat) {
  directory_.write("layers.rnn", R"(
network Stack[F, H](x: [F]) -> y {
  y = x
  for l in 0..4 { y = Cell[H = H](y) }
}
cell Cell[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1])
}
cell Deep[H](x: [H]) -> h {
  state h: [H]
  param W[3], V[3]: [H, H]
  y = h[t-1] + x[t]
  for k in 0..3 { y = y + V[k] @ tanh(W[k] @ y) }
  h[t] = tanh(y)
}
cell Shared[H](x: [H]) -> h {
  state h: [H]
  param W, V: [H, H]
  y = h[t-1] + x[t]
  for k in 0..3 { y = y + V @ tanh(W @ y) }
  h[t] = tanh(y)
}
)");
  const auto launches = [&](const char* cell, std::vector<std::string> more) {
    more.insert(more.begin(), {"explain", "layers.rnn", "--cell", cell});
    return repeated_launches(explain(more)["graphs"]["after"]);
  };
  using Launches = std::vector<std::vector<std::string>>;
  // Of each layer a product for all steps of a chunk, and the recurrence.
  const Launches layers = {{"2.1", "4.1", "6.1", "8.1"}, {"3.1", "5.1", "7.1", "9.1"}};
  EXPECT_EQ(launches("Stack", {"--dim", "F=4", "--dim", "H=4"}), layers);
  // The first layer is of another shape.
  const Launches others = {{"4.1", "6.1", "8.1"}, {"5.1", "7.1", "9.1"}};
  EXPECT_EQ(launches("Stack", {"--dim", "F=3", "--dim", "H=4"}), others);
  for (const char* cell : {"Deep", "Shared"}) {
    const Launches turns = launches(cell, {"--dim", "H=4"});
    ASSERT_FALSE(turns.empty()) << cell;
    for (const std::vector<std::string>& turn : turns) EXPECT_GT(turn.size(), 1U) << cell;
  }
  EXPECT_EQ(launches("Cell", {"--dim", "I=4", "--dim", "H=4"}), Launches());
}

TEST_F(Explain, TextSaysWhatIsMergedAndFused) {
  const std::string text = good({"explain", "net.rnn", "--cell", "Net", "--dim", "H=8", "--batch",
                                 "4", "--steps", "64", "--chunk", "16"});
  for (const char* part : {
           "Stage 1: once a call (once)\n  depends on params and constants alone\n",
           "Cell.0.{R, S} @ Cell.0.h[t-1]",
           "merged: 2 products in one, of ",
           "fused: the elementwise work follows each product where it is: no result in memory",
           "the product with Cell.0.R [8, 8] mixes its units",
           ", dense, 1 phase",
           "stages of 2 lags side by side, the last 1 chunk behind the first",
           "without passes: ",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
}

TEST_F(Explain, SaysHowARecurrenceLiesOnTheChip) {
  const std::vector<std::string> arguments = {"explain",  "net.rnn", "--cell",   "Net",     "--dim",
                                              "H=8",      "--batch", "4",        "--steps", "64",
                                              "--device", "cuda",    "--passes", "-stack"};
  const std::string text = good(arguments);
  for (const char* part : {
           ", dense, 1 phase (sequence)\n  the product with Cell.0.R [8, 8] mixes its units\n",
           "resident: blocks alone, ",
           " per block\n",
           "steps in one launch, weights on the chip",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
  int recurrences = 0;
  const Json json = explain(arguments);
  EXPECT_EQ(json["notes"], Json::array());
  for (const Json& stage : json["stages"]) {
    if (stage["recurrence"] != "dense") continue;
    ++recurrences;
    const Json& launch = stage["launches"][0];
    EXPECT_EQ(launch["kind"], "recurrence");
    EXPECT_EQ(launch["strategy"].get<std::string>().substr(0, 9), "resident:");
    EXPECT_EQ(launch["weights"].size(), 2U);
  }
  EXPECT_EQ(recurrences, 2);
}

TEST_F(Explain, SaysWhomBlocksWaitFor) {
  for (const auto& [hidden, kind] : {std::pair("8", "resident: blocks alone, "),
                                     {"256", "resident: clusters, "},
                                     {"1000", "resident: grid of "}}) {
    const std::string text =
        good({"explain", "net.rnn", "--cell", "Cell", "--dim", fmt::format("H={}", hidden),
              "--batch", "4", "--steps", "64", "--dtype", "bf16", "--device", "cuda"});
    EXPECT_NE(text.find(kind), std::string::npos) << kind << "\nis not in\n" << text;
  }
}

TEST_F(Explain, SaysWhatFindsNoRoomOnTheChipAndWhatIsSplit) {
  const auto text = [&](const std::string& hidden, const std::string& batch) {
    return good({"explain", "net.rnn", "--cell", "Cell", "--dim", "H=" + hidden, "--batch", batch,
                 "--steps", "64", "--device", "cuda"});
  };
  const std::string large = text("2500", "1");
  EXPECT_NE(large.find("steps in one launch, weights on the chip but for "), std::string::npos)
      << large;
  EXPECT_NE(large.find(" MiB, which are loaded from the cache at each step\n"), std::string::npos)
      << large;
  const std::string split = text("1000", "64");
  EXPECT_NE(split.find("weights on the chip; f32 products in three parts on tensor cores\n"),
            std::string::npos)
      << split;
  for (const char* part : {
           "parts of W, V\n      kernel that parts f32 for tensor cores\n",
           "parts of x[t]\n      kernel that parts f32 for tensor cores\n",
           "W, V @ parts of x[t]\n      library GEMM of parts in TF32, 4096 rows x 2000 x 3000\n",
           "split: of f32 in three parts on tensor cores, within 2^-21 of each product\n",
       }) {
    EXPECT_NE(split.find(part), std::string::npos) << part << "\nis not in\n" << split;
  }
}

TEST_F(Explain, SaysHowAStackLiesOnTheChip) {
  const std::vector<std::string> arguments = {"explain",  "net.rnn", "--cell",   "Net",     "--dim",
                                              "H=64",     "--batch", "4",        "--steps", "64",
                                              "--device", "cuda",    "--passes", "all"};
  const std::string text = good(arguments);
  for (const char* part : {
           "Cell.0.h, Cell.1.h, dense, 1 phase (sequence)\n",
           "; stacked: each layer on its own share of the GPU, the ones below some steps ahead\n",
           "resident: grid of 2 sides x ",
           "stacked: 2 recurrences side by side, each on ",
       }) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
  const Json json = explain(arguments);
  const auto is_dense = [](const Json& stage) { return stage["recurrence"] == "dense"; };
  const auto stage = std::ranges::find_if(json["stages"], is_dense);
  ASSERT_NE(stage, json["stages"].end());
  EXPECT_EQ((*stage)["launches"][0]["notes"][0]["kind"], "stacked");
}

TEST_F(Explain, CountsArithmeticExactly) {
  const Json launch = launches_of_steps(explain(
      {"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4", "--batch", "2", "--steps", "10"}))[0];
  EXPECT_EQ(launch["kind"], "product");
  EXPECT_EQ(launch["weights"], Json({"W"}));
  EXPECT_EQ(launch["cost"]["flops"], 2 * 10 * 2 * 4 * 3);
  EXPECT_EQ(launch["cost"]["bytes"], 4 * (10 * 2 * 3 + 4 * 3 + 10 * 2 * 4));
  EXPECT_EQ(launch["runs"], 1);
}

TEST_F(Explain, TotalsAreThoseOfTheLaunches) {
  const Json all = network({"--steps", "64", "--chunk", "16"});
  double launches = 0;
  double flops = 0;
  for (const Json& launch : launches_of_steps(all)) {
    const double runs = launch["runs"];
    launches += runs * launch["count"].get<double>();
    flops += runs * launch["cost"]["flops"].get<double>();
    EXPECT_GE(launch["cost"]["seconds"], launch["cost"]["floor_seconds"]);
  }
  EXPECT_EQ(all["totals"]["launches"], launches);
  EXPECT_NEAR(all["totals"]["flops"], flops, 1e-9 * flops);
  EXPECT_GT(all["totals"]["seconds"], 0.0);
  EXPECT_GT(all["naive"]["launches"], 2 * launches);
  EXPECT_TRUE(network({"--passes", "none"})["naive"].is_null());
}

TEST_F(Explain, WavesRunEveryStageOnEveryChunkInTurn) {
  const Json all = network({"--steps", "60", "--chunk", "16"});
  const Json& waves = all["waves"];
  EXPECT_EQ(waves["chunks"], 4);
  EXPECT_EQ(waves["lags"], 1);
  EXPECT_EQ(waves["total"], 5);
  std::map<int, std::set<int>> chunks;  // by stage
  std::map<std::pair<int, int>, double> ends;
  for (const Json& bar : waves["bars"]) {
    const Json& stage = all["stages"][bar["stage"].get<size_t>()];
    EXPECT_EQ(bar["wave"].get<int>(), bar["chunk"].get<int>() + stage["lag"].get<int>());
    EXPECT_TRUE(chunks[bar["stage"]].insert(bar["chunk"].get<int>()).second);
    double& end = ends[{bar["wave"], stage["lag"]}];
    EXPECT_GE(bar["start"], end * (1 - 1e-9)) << "of one lag, one after the other";
    end = bar["start"].get<double>() + bar["seconds"].get<double>();
  }
  for (size_t i = 0; i < all["stages"].size(); ++i) {
    const bool once = all["stages"][i]["domain"] == "once";
    EXPECT_EQ(chunks[static_cast<int>(i)].size(), once ? 0U : 4U);
  }
}

TEST_F(Explain, TheTimelineEndsWithThePredictedCall) {
  for (const auto& [steps, device] : {std::pair("16", "cuda"), std::pair("60", "cuda"),
                                      std::pair("64", "cpu"), std::pair("60", "cpu")}) {
    const Json all = network({"--steps", steps, "--chunk", "16", "--device", device});
    double end = 0;
    for (const Json& bar : all["waves"]["bars"]) {
      end = std::max(end, bar["start"].get<double>() + bar["seconds"].get<double>());
    }
    const double seconds = all["totals"]["seconds"];
    EXPECT_LE(end, seconds * (1 + 1e-9)) << "after the last wave values still move";
    EXPECT_GE(end, 0.75 * seconds);
  }
}

TEST_F(Explain, LongCallsShowTheirFirstWaves) {
  const Json all = network({"--steps", "16000", "--chunk", "16"});
  EXPECT_EQ(all["waves"]["total"], 1001);
  EXPECT_EQ(all["waves"]["cut"], true);
  EXPECT_LE(all["waves"]["bars"].size(), 2000U);
  EXPECT_EQ(network()["waves"]["cut"], false);
}

TEST_F(Explain, MemoryAddsUp) {
  const Json all = network({"--steps", "64", "--chunk", "16"});
  const Json& memory = all["memory"];
  EXPECT_LE(memory["live_bytes"], memory["workspace_bytes_fixed"]);
  EXPECT_LE(memory["workspace_bytes_fixed"], memory["fixed_bytes_without_reuse"]);
  EXPECT_EQ(memory["workspace_bytes"].get<int64_t>(),
            memory["workspace_bytes_fixed"].get<int64_t>() +
                64 * memory["workspace_bytes_per_step"].get<int64_t>());
  const int64_t arrays = 2 * 64 * 4 * 8 + 2 * 2 * 4 * 8 + 2 * (4 * 8 * 8 + 8);  // elements
  EXPECT_EQ(memory["caller_bytes"], 4 * arrays);
  int64_t end = 0;
  for (const Json& block : memory["blocks"]) {
    EXPECT_LE(block["first"], block["last"]);
    EXPECT_LT(block["last"], memory["launches"]);
    EXPECT_LT(block["stage"].get<size_t>(), all["stages"].size());
    if (block["place"] != "workspace") continue;
    end = std::max(end, block["offset"].get<int64_t>() + block["bytes"].get<int64_t>());
  }
  EXPECT_EQ(end, memory["workspace_bytes_fixed"]);
}

TEST_F(Explain, GraphsBeforeAndAfter) {
  const Json graphs = explain({"explain", "net.rnn", "--cell", "Net", "--dim", "H=8"})["graphs"];
  std::map<std::string, int> before;
  std::set<std::string> stages;
  for (const Json& node : graphs["before"]["nodes"]) {
    ++before[node["kind"]];
    stages.insert(node["stage"]);
  }
  const std::map<std::string, int> expected = {{"input", 1},   {"param", 10},       {"state", 2},
                                               {"product", 8}, {"elementwise", 18}, {"constant", 1},
                                               {"output", 1}};
  EXPECT_EQ(before, expected);
  EXPECT_EQ(stages, std::set<std::string>({"once", "parallel", "Cell.0.h", "Cell.1.h"}));
  int through_time = 0;
  for (const Json& edge : graphs["before"]["edges"]) through_time += edge["through_time"] ? 1 : 0;
  EXPECT_EQ(through_time, 2);

  // What comes before a node is listed before it; launches are as many as the plan's.
  for (const char* name : {"before", "simplified", "after"}) {
    for (const Json& edge : graphs[name]["edges"]) {
      if (!edge["through_time"].get<bool>()) {
        EXPECT_LT(edge["from"], edge["to"]) << name;
      }
    }
  }
  int products = 0;
  for (const Json& node : graphs["after"]["nodes"]) products += node["kind"] == "product" ? 1 : 0;
  EXPECT_EQ(products, 4);
}

TEST_F(Explain, TakesDeviceTypeAndPasses) {
  const Json cuda = network({"--device", "cuda", "--dtype", "bf16", "--passes", "-merge"});
  EXPECT_EQ(cuda["machine"]["kind"], "cuda");
  EXPECT_EQ(cuda["dtype"], "bf16");
  EXPECT_EQ(cuda["passes"].get<std::string>().find("merge"), std::string::npos);
  EXPECT_EQ(network({"--threads", "3"})["machine"]["kind"], "cpu");
  EXPECT_EQ(network({"--device", "cuda", "--tf32"})["tf32"], true);
  const Json features = network({"--lengths", "--resets"});
  EXPECT_GT(features["graphs"]["simplified"]["nodes"].size(),
            features["graphs"]["before"]["nodes"].size());
}

TEST_F(Explain, ReversedLayersHaveSweeps) {
  const std::string file =
      std::string(RNNC_SOURCE_DIR) + "/examples/networks/bidirectional_gru.rnn";
  const Json all = explain({"explain", file, "--dim", "F=8", "--dim", "H=8", "--dim", "L=2"});
  uint32_t sweeps = 0;
  for (const Json& stage : all["stages"]) {
    sweeps = std::max(sweeps, stage["sweep"].get<uint32_t>() + 1);
  }
  EXPECT_GT(sweeps, 1U);
  EXPECT_EQ(all["waves"]["total"].get<uint32_t>(), sweeps * all["waves"]["chunks"].get<uint32_t>());
}

TEST_F(Explain, WritesWholeFilesOrNone) {
  const std::vector<std::string> toy = {"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), toy.begin(), toy.end());
    return more;
  };
  EXPECT_EQ(good(with({"-o", "toy.txt"})), "");
  EXPECT_EQ(TemporaryDirectory::read(directory_ / "toy.txt"), good(toy));
  const std::vector<std::string> before = directory_.list();
  EXPECT_EQ(bad(1, with({"--html", "-o", "no/place"})),
            "rnnc: error: cannot write `no/place`: `no`: No such file or directory\n");
  EXPECT_EQ(bad(1, {"explain", "toy.rnn", "--dim", "I=3", "--html", "-o", "page.html"}),
            "rnnc: error: Toy: no value for dim `H`\n  give each with --dim NAME=NUMBER\n");
  EXPECT_EQ(directory_.list(), before);
}

TEST_F(Explain, RefusesWhatDoesNotGoTogether) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4"});
    return more;
  };
  EXPECT_EQ(bad(2, with({"--tf32"})),
            usage_error("rnnc explain", "--tf32 is for f32 on a GPU, not for f32 on cpu"));
  EXPECT_EQ(bad(2, with({"--threads", "2", "--device", "cuda"})),
            usage_error("rnnc explain", "--threads is for the CPU, not for cuda"));
  EXPECT_NE(bad(2, with({"--json", "--html"})).find("--json excludes --html"), std::string::npos);
  EXPECT_EQ(bad(1, with({"--dtype", "bf16"})),
            "rnnc: error: the CPU has no code for dtype bf16; it takes f32 and f64\n");
  EXPECT_EQ(bad(1, with({"--dtype", "f64", "--device", "cuda"})),
            "rnnc: error: CUDA has no code for dtype f64; it takes f32, bf16 and f16\n");
}

}  // namespace
}  // namespace rnnc::test
