// `rnnc explain --against` and `--measure`.
#include <nlohmann/json.hpp>

#include "tests/tools/explain_support.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

class ExplainAgainst : public Tools {
 protected:
  ExplainAgainst() { directory_.write("net.rnn", kNetwork); }

  static std::vector<std::string> net(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"explain", "net.rnn", "--cell", "Net", "--dim", "H=8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void write(const std::string& file, std::vector<std::string> more) const {
    more.insert(more.end(), {"--json", "-o", file});
    good(net(more));
  }
  Json against(const std::string& file, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--json", "--against", file});
    return Json::parse(good(net(more)));
  }
};

size_t count_launches(const Json& explanation) {
  size_t count = 0;
  for (const Json& stage : explanation["stages"]) count += stage["launches"].size();
  return count;
}

TEST_F(ExplainAgainst, TheSameIsTheSame) {
  write("then.json", {});
  const Json now = against("then.json");
  EXPECT_EQ(now["against"]["name"], "then.json");
  EXPECT_EQ(now["against"]["version"], now["version"]);
  EXPECT_EQ(now["against"]["settings"], Json::array());
  EXPECT_EQ(now["against"]["launches"], Json::array());
  EXPECT_EQ(now["against"]["alike"], count_launches(now));
  for (const Json& figure : now["against"]["figures"]) EXPECT_EQ(figure["then"], figure["now"]);
  const std::string text = good(net({"--against", "then.json"}));
  EXPECT_NE(text.find("\nAgainst then.json, of rnnc " RNNC_VERSION "\n  the same was asked for\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(Json::parse(good(net({"--json"})))["against"], Json());
}

TEST_F(ExplainAgainst, SaysWhatDiffers) {
  write("then.json", {"--passes", "none", "--steps", "10"});
  const Json then = Json::parse(TemporaryDirectory::read(directory_ / "then.json"));
  const Json now = against("then.json", {"--batch", "2", "--steps", "20", "--device", "cuda"});
  const Json& found = now["against"];
  const auto setting = [&](std::string_view what) -> Json {
    for (const Json& one : found["settings"]) {
      if (one["what"] == what) return {one["then"], one["now"]};
    }
    return {};
  };
  EXPECT_EQ(setting("passes"), Json({"none", "all"}));
  EXPECT_EQ(setting("batch"), Json({"1", "2"}));
  EXPECT_EQ(setting("steps"), Json({"10", "20"}));
  EXPECT_EQ(setting("device"), Json({then["machine"]["name"], now["machine"]["name"]}));
  EXPECT_EQ(setting("dtype"), Json());
  EXPECT_EQ(setting("params"), Json());
  size_t before = found["alike"], after = found["alike"];
  for (const Json& launch : found["launches"]) {
    before += launch["then"].is_null() ? 0 : 1;
    after += launch["now"].is_null() ? 0 : 1;
    EXPECT_FALSE(launch["then"].is_null() && launch["now"].is_null());
  }
  EXPECT_EQ(before, count_launches(then));
  EXPECT_EQ(after, count_launches(now));
  for (const Json& figure : found["figures"]) {
    if (figure["what"] != "predicted time") continue;
    EXPECT_DOUBLE_EQ(figure["then"], then["totals"]["seconds"].get<double>() / 10);
    EXPECT_DOUBLE_EQ(figure["now"], now["totals"]["seconds"].get<double>() / 20);
    EXPECT_EQ(figure["unit"], "seconds");
  }
  const std::string text = good(net({"--against", "then.json", "--steps", "10"}));
  for (const char* part :
       {"  passes            none, now all\n", "  of a step  ", "\n  predicted time ",
        "\n  launches as they were: ", "\n  gone:    ", "\n  new:     ", "\n      then 1."}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
}

TEST_F(ExplainAgainst, ChangedTextsAndDims) {
  write("then.json", {});
  directory_.write("net.rnn", std::string(kNetwork) + "// more\n");
  EXPECT_EQ(against("then.json")["against"]["settings"],
            Json({{{"what", "text of net.rnn"}, {"then", "as it was"}, {"now", "changed"}}}));
  const std::string text =
      good({"explain", "net.rnn", "--cell", "Net", "--dim", "H=16", "--against", "then.json"});
  EXPECT_NE(text.find("\n  inputs            x [8], now x [16]\n"), std::string::npos) << text;
}

TEST_F(ExplainAgainst, EachHalfHasItsOwn) {
  write("then.json", {"--backward", "--residuals", "all"});
  const Json now = against("then.json", {"--backward", "--residuals", "least"});
  for (const char* half : {"forward", "backward"}) {
    EXPECT_FALSE(now[half]["against"]["launches"].empty()) << half;
    EXPECT_GT(now[half]["against"]["figures"].size(), 4U) << half;
  }
}

TEST_F(ExplainAgainst, RefusesWhatIsNoExplanation) {
  directory_.write("words.json", "not so");
  directory_.write("list.json", "[]");
  directory_.write("half.json", R"({"stages": 3})");
  const auto error = [&](const std::string& file, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--against", file});
    return bad(1, net(more));
  };
  for (const std::string file : {"words.json", "list.json"}) {
    EXPECT_EQ(error(file), fmt::format("rnnc: error: `{}` is no explanation: `rnnc explain --json` "
                                       "writes one\n",
                                       file));
  }
  EXPECT_TRUE(
      error("half.json")
          .starts_with("rnnc: error: `half.json` is no explanation that can be compared: "));
  EXPECT_EQ(error("none.json"),
            "rnnc: error: cannot read `none.json`: No such file or directory\n");
  write("call.json", {});
  write("training.json", {"--backward"});
  EXPECT_EQ(error("call.json", {"--backward"}),
            "rnnc: error: `call.json` is not of training: leave out --backward\n");
  EXPECT_EQ(error("training.json"),
            "rnnc: error: `training.json` is of training: that needs --backward here, too\n");
}

TEST_F(ExplainAgainst, MeasuresWhatIsPredicted) {
  const std::vector<std::string> small = {"--steps", "8", "--measure"};
  for (const bool backward : {false, true}) {
    std::vector<std::string> more = small;
    if (backward) more.emplace_back("--backward");
    more.emplace_back("--json");
    const Json data = Json::parse(good(net(more)));
    for (const char* half : {"forward", "backward"}) {
      const Json& call = backward ? data[half] : data;
      EXPECT_GT(call["measured"]["runs"], 0);
      size_t measured = 0;
      for (const Json& stage : call["stages"]) {
        for (const Json& launch : stage["launches"])
          measured += !launch["measured_seconds"].is_null();
      }
      EXPECT_GT(measured, 0U);
    }
  }
  const std::string text = good(net(small));
  EXPECT_NE(text.find("\nPredicted, measured "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  measured time "), std::string::npos) << text;
  EXPECT_NE(text.find("\n      measured "), std::string::npos) << text;
  EXPECT_NE(text.find(" times the predicted "), std::string::npos) << text;
}

TEST_F(ExplainAgainst, MeasuresCallsWithLengthsAndResets) {
  const auto launches_of = [](const Json& call, bool measured) {
    std::vector<std::string> launches;
    for (const Json& stage : call["stages"]) {
      for (const Json& launch : stage["launches"]) {
        launches.push_back(fmt::format("{} {}", launch["id"].get<std::string>(),
                                       launch["summary"].get<std::string>()));
        const bool timed = measured && stage["domain"] != "once";
        EXPECT_EQ(timed, launch["measured_seconds"].is_number()) << launches.back();
      }
    }
    return launches;
  };
  const auto explain = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", "8", "--json"});
    return Json::parse(good(net(more)));
  };
  const std::vector<std::string> plain = launches_of(explain({}), false);
  const std::vector<std::vector<std::string>> features = {
      {"--lengths"}, {"--resets"}, {"--lengths", "--resets"}};
  for (const std::vector<std::string>& feature : features) {
    for (const bool backward : {false, true}) {
      std::vector<std::string> more = feature;
      if (backward) more.emplace_back("--backward");
      const Json predicted = explain(more);
      more.emplace_back("--measure");
      const Json measured = explain(more);
      for (const char* half : {"forward", "backward"}) {
        const auto call = [&](const Json& data) { return backward ? data[half] : data; };
        const std::vector<std::string> launches = launches_of(call(measured), true);
        EXPECT_EQ(launches, launches_of(call(predicted), false));
        EXPECT_NE(launches, plain);
      }
    }
  }
}

}  // namespace
}  // namespace rnnc::test
