// --passes, --print-after and --time-passes.
#include <fmt/format.h>

#include <sstream>

#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

const std::vector<std::string> kEmit = {"emit",  "toy.rnn", "--as",  "plan",
                                        "--dim", "I=3",     "--dim", "H=4"};

std::vector<std::string> emit_with(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kEmit;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// "after simplify", …, without what was printed.
std::vector<std::string> headings(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("after ")) found.push_back(line);
  }
  return found;
}

TEST_F(Tools, PassesCanBeLeftOut) {
  const std::string all = good(kEmit);
  EXPECT_EQ(good(emit_with({"--passes", "all"})), all);
  const std::string none = good(emit_with({"--passes", "none"}));
  EXPECT_NE(none, all);
  // The product with x is made step by step.
  EXPECT_EQ(all.find("\n  step:\n"), std::string::npos) << all;
  EXPECT_NE(none.find("\n  step:\n"), std::string::npos) << none;
  EXPECT_NE(good(emit_with({"--passes", "-hoist,-reuse"})), all);
  EXPECT_NE(good(emit_with({"--passes=hoist,fuse"})), all);
}

TEST_F(Tools, PassesThatDoNotExistAreRefused) {
  EXPECT_EQ(bad(2, emit_with({"--passes", "hoist,fusion"})),
            usage_error("rnnc emit",
                        "--passes: no pass is called `fusion`: there are simplify, fold, cse, "
                        "dead-code, hoist, merge, sum, fuse, epilogue, loop, resident, stack, "
                        "split, pad, wavefront, reroll, reuse, and `all` and `none` of them"));
  EXPECT_EQ(
      bad(1, emit_with({"--print-after", "merge"})),
      "rnnc: error: --print-after `merge`: no such pass ran; these did: stop-gradients, "
      "dead-code, delays, dot-products, simplify, fold, cse, hoist, schedule, totals, "
      "resident, stack, long, scan, unaligned, split, pad, direct, earlier, chunk, wavefront, "
      "carries, reroll, pieces, "
      "reuse\n");
  EXPECT_EQ(bad(1, emit_with({"--print-after=wavefront", "--passes=none"})),
            "rnnc: error: --print-after `wavefront`: no such pass ran; these did: "
            "stop-gradients, dead-code, delays, dot-products, schedule, chunk, memory\n");
}

TEST_F(Tools, PassesRunFromThePlanOn) {
  for (const char* form : {"ast", "graph", "dot"}) {
    EXPECT_EQ(bad(2, {"emit", "toy.rnn", "--as", form, "--time-passes"}),
              usage_error("rnnc emit", fmt::format("--as {} runs no passes", form)));
  }
}

TEST_F(Tools, PrintAfterShowsGraphsAndPlansInOrder) {
  const CommandResult result = rnnc(emit_with({"--print-after", "dead-code,reuse"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, good(kEmit));
  EXPECT_TRUE(result.errors.starts_with("after dead-code:\ngraph Toy() {\n")) << result.errors;
  EXPECT_NE(result.errors.find("\nafter dead-code: nothing new\n"), std::string::npos);
  EXPECT_TRUE(result.errors.ends_with("after reuse:\n" + result.output + "\n")) << result.errors;

  const CommandResult all = rnnc(emit_with({"--print-after", "all"}));
  EXPECT_EQ(headings(all.errors), (std::vector<std::string>{"after stop-gradients:",
                                                            "after dead-code: nothing new",
                                                            "after delays: nothing new",
                                                            "after dot-products: nothing new",
                                                            "after simplify: nothing new",
                                                            "after fold: nothing new",
                                                            "after cse: nothing new",
                                                            "after dead-code: nothing new",
                                                            "after hoist: nothing new",
                                                            "after schedule:",
                                                            "after totals: nothing new",
                                                            "after resident: nothing new",
                                                            "after stack: nothing new",
                                                            "after long: nothing new",
                                                            "after scan: nothing new",
                                                            "after unaligned: nothing new",
                                                            "after split: nothing new",
                                                            "after pad: nothing new",
                                                            "after direct: nothing new",
                                                            "after earlier: nothing new",
                                                            "after chunk:",
                                                            "after wavefront: nothing new",
                                                            "after carries: nothing new",
                                                            "after reroll: nothing new",
                                                            "after pieces: nothing new",
                                                            "after reuse:"}));
}

TEST_F(Tools, TimePassesCountsRuns) {
  const CommandResult result = rnnc(emit_with({"--time-passes"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, good(kEmit));
  std::istringstream lines(result.errors);
  std::vector<std::string> names;
  std::string name, runs, word, unit;
  double time = 0;
  double sum = 0;
  while (lines >> name && name != "total" && lines >> runs >> word >> time >> unit) {
    EXPECT_EQ(runs, name == "dead-code" ? "2" : "1");
    EXPECT_EQ(word + unit, "runsus");
    names.push_back(name);
    sum += time;
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "stop-gradients", "dead-code", "delays", "dot-products", "simplify",
                       "fold",           "cse",       "hoist",  "schedule",     "totals",
                       "resident",       "stack",     "long",   "scan",         "unaligned",
                       "split",          "pad",       "direct", "earlier",      "chunk",
                       "wavefront",      "carries",   "reroll", "pieces",       "reuse"}));
  EXPECT_TRUE(lines >> time >> unit);
  EXPECT_NEAR(time, sum, 1);
  EXPECT_GT(time, 0);
}

#ifdef RNNC_WITH_CPU
TEST_F(Tools, RunGivesTheSameWithoutPasses) {
  write_array("x.npy", {5, 2, 3}, {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1,  -1, .9, .8, .7, .6,
                                   .5, .4, .3, .2, .1, 0,  1,  -1, .5, .3, .1, .2, .4, .6, .8});
  const auto run = [&](const std::string& passes, const std::string& file) {
    good({"run", "toy.rnn", "--dim", "H=4", "--seed", "1", "--input", "x=x.npy", "--dtype", "f64",
          "--passes", passes, "--output", "h=" + file});
    return read_array(file).to_doubles();
  };
  const std::vector<double> all = run("all", "all.npy");
  const std::vector<double> none = run("none", "none.npy");
  ASSERT_EQ(all.size(), none.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(all[i], none[i], 1e-14);
  EXPECT_EQ(bad(2, {"run", "toy.rnn", "--seed", "1", "--passes", "-"}).substr(0, 45),
            "rnnc: error: --passes: no pass is called ``: ");
}
#endif

}  // namespace
}  // namespace rnnc::test
