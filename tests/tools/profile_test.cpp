/// `rnnc profile`: what it says of launches; how long they took is only held against itself.
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/tools/explain_support.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

class Profile : public Tools {
 protected:
  Profile() { directory_.write("net.rnn", kNetwork); }

  static std::vector<std::string> net(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"profile", "net.rnn", "--cell",  "Net", "--dim",  "H=5",
                                      "--batch", "3",       "--steps", "7",   "--runs", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json read_json(const std::string& name) const {
    return Json::parse(TemporaryDirectory::read(directory_ / name));
  }
  /// The steps of each launch's spans, by the name of the span and the process.
  static std::map<std::pair<int, std::string>, int64_t> steps_of(const Json& trace) {
    std::map<std::pair<int, std::string>, int64_t> steps;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["ts"], 0) << event;
      EXPECT_GE(event["dur"], 0) << event;
      steps[{event["pid"], event["name"]}] += event["args"].value("steps", int64_t{0});
    }
    return steps;
  }
};

TEST_F(Profile, SaysWhereTimeGoes) {
  const std::string text = good(net({"--threads", "1"}));
  const std::string shape = std::regex_replace(text, std::regex(R"( +[0-9.]+ [nu]s)"), " #");
  EXPECT_TRUE(std::regex_search(text, std::regex("^Net: f32, batch 3, 7 steps, on .*\n")));
  EXPECT_NE(shape.find("  measured # #  median of 2 calls\n"), shape.npos) << shape;
  EXPECT_NE(shape.find("  predicted # #\n"), shape.npos) << shape;
  EXPECT_NE(shape.find("  floor # #\n"), shape.npos) << shape;
  EXPECT_TRUE(std::regex_search(shape, std::regex(R"( # +\d+ % # #  \d\.1  )"))) << shape;
  EXPECT_NE(
      shape.find("%                          between launches, the clock's own time included\n"),
      shape.npos)
      << shape;
}

TEST_F(Profile, StandardOutputTakesAFileInPlaceOfTheText) {
  const Json profile = Json::parse(good(net({"--json", "-", "--threads", "1"})));
  EXPECT_EQ(profile["measured"]["runs"], 2);
  EXPECT_NE(bad(2, net({"--json", "-", "--trace", "-"})).find("several go to `-`"),
            std::string::npos);
}

TEST_F(Profile, TimesOfLaunchesAreWithinTheCall) {
  for (const char* threads : {"1", "2"}) {
    good(net({"--json", "profile.json", "--passes", "none", "--threads", threads}));
    const Json profile = read_json("profile.json");
    const double call = profile["measured"]["timed_seconds"];
    EXPECT_GT(call, 0);
    EXPECT_EQ(profile["measured"]["runs"], 2);
    double sum = profile["measured"]["idle_seconds"];
    for (const Json& stage : profile["stages"]) {
      if (stage["domain"] == "once") continue;
      double of_stage = 0;
      for (const Json& launch : stage["launches"]) {
        const double seconds = launch["measured_seconds"];
        EXPECT_GT(seconds, 0) << launch;
        EXPECT_LE(seconds, call) << launch;
        of_stage += seconds;
      }
      EXPECT_LE(stage["measured_seconds"], of_stage * (1 + 1e-9));
      sum += of_stage;
    }
    EXPECT_GE(sum, call * (1 - 1e-9));
    if (std::string_view(threads) == "1") {  // one after the other: no time counts twice
      EXPECT_NEAR(sum, call, 1e-9);
    }
  }
}

TEST_F(Profile, TracesEachStepOfEachLaunchOnce) {
  good(net({"--trace", "trace.json", "--json", "profile.json", "--threads", "1"}));
  const auto steps = steps_of(read_json("trace.json"));
  size_t launches = 0;
  const Json profile = read_json("profile.json");
  for (const Json& stage : profile["stages"]) {
    if (stage["domain"] != "once") launches += stage["launches"].size();
  }
  EXPECT_EQ(steps.size(), launches);
  for (const auto& [launch, count] : steps) EXPECT_EQ(count, 7) << launch.second;
}

TEST_F(Profile, CallsWithLengthsAndResets) {
  good(net({"--lengths", "--resets", "--json", "profile.json", "--threads", "1"}));
  const Json profile = read_json("profile.json");
  EXPECT_GT(profile["measured"]["seconds"], 0);
  std::set<std::string> kinds;
  for (const Json& stage : profile["stages"]) {
    for (const Json& launch : stage["launches"]) kinds.insert(launch["kind"]);
  }
  EXPECT_TRUE(kinds.contains("mask")) << ::testing::PrintToString(kinds);
}

TEST_F(Profile, BothHalvesOfTraining) {
  const std::string text = good(net({"--backward", "--trace", "trace.json"}));
  EXPECT_NE(text.find("\nForward half\n"), text.npos);
  EXPECT_NE(text.find("\nBackward half\n"), text.npos);
  const Json trace = read_json("trace.json");
  double forward_end = 0;
  double backward_begin = 1e9;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"];
    if (event["pid"] == 0) forward_end = std::max(forward_end, begin + double(event["dur"]));
    if (event["pid"] == 1) backward_begin = std::min(backward_begin, begin);
  }
  EXPECT_GT(forward_end, 0);
  EXPECT_GE(backward_begin, forward_end - 1e-3);
}

TEST_F(Profile, RefusesWhatItCannotMeasure) {
  EXPECT_EQ(bad(2, net({"--residuals", "all"})),
            usage_error("rnnc profile", "--residuals requires --backward"));
  EXPECT_NE(bad(1, {"profile", "net.rnn", "--cell", "Net"}).find("no value for dim"),
            std::string::npos);
  EXPECT_NE(bad(1, net({"--trace", "no/trace.json"})).find("no/trace.json"), std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
