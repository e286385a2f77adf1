// Shipped cells and networks, and step graphs as text.
#include <random>
#include <sstream>

#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

std::vector<std::string> all_shipped() {
  rnnc_text* text = nullptr;
  EXPECT_EQ(rnnc_shipped(&text), RNNC_OK) << rnnc_last_error();
  std::istringstream lines(take(text));
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

Owned<rnnc_graph> parse_graph(const std::string& text) {
  rnnc_graph* graph = nullptr;
  EXPECT_EQ(rnnc_graph_parse(text.c_str(), &graph), RNNC_OK) << rnnc_last_error();
  return Owned<rnnc_graph>(graph);
}

TEST(CApiShipped, HasCellsAndNetworksByName) {
  const std::vector<std::string> names = all_shipped();
  for (const char* name : {"lstm", "gru", "stacked_lstm"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  const std::string text = text_of(shipped("stacked_lstm").get());
  EXPECT_EQ(text.find("graph StackedLSTM(F, H, L is 2) {\n"), 0u) << text.substr(0, 80);
}

TEST(CApiShipped, OtherNamesAreErrors) {
  rnnc_unit* unit = nullptr;
  EXPECT_EQ(rnnc_unit_shipped("stacked_lstn", &unit), RNNC_INVALID_ARGUMENT);
  EXPECT_EQ(unit, nullptr);
  EXPECT_STREQ(rnnc_last_error(),
               "rnnc has no cell or network `stacked_lstn` (did you mean `stacked_lstm`?)");
  EXPECT_EQ(rnnc_unit_shipped("nothing like it", &unit), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "rnnc has no cell or network `nothing like it`");
}

TEST(CApiGraphs, TextsComeBackAsTheyWere) {
  for (const std::string& name : all_shipped()) {
    const std::string text = text_of(shipped(name).get());
    EXPECT_EQ(text_of(parse_graph(text).get()), text) << name;
  }
}

TEST(CApiGraphs, ProgramsOfTheirTextsHaveTheSameBits) {
  for (const char* name : {"lstm", "qrnn", "rhn", "bidirectional_gru"}) {
    const Owned<rnnc_graph> graph = shipped(name);
    const Owned<rnnc_program> program = compile(graph.get());
    const Owned<rnnc_program> again = compile(parse_graph(text_of(graph.get())).get());
    const rnnc_shape shape = shape_of(3, 5);
    for (rnnc_program* prepared : {program.get(), again.get()}) {
      ASSERT_EQ(rnnc_program_prepare(prepared, &shape), RNNC_OK) << rnnc_last_error();
    }
    const std::vector<double> bits = run(program.get(), 3, 5);
    EXPECT_NE(bits.front(), bits.back()) << name;
    EXPECT_EQ(run(again.get(), 3, 5), bits) << name;
  }
}

TEST(CApiGraphs, BadTextsSayWhere) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"", "line 1: expected `graph`, found the end"},
      {"graph G {\n  %0 = frob %0 : []\n}", "line 2: there is no op `frob`"},
      {"graph G {\n  input x: [3]\n",
       "line 3: expected a declaration, a node or `}`, found the end"},
      {"graph G {\n  input x: [3]\n  %0 = input x : [2]\n  output y = %0\n}",
       "%0 = input: its shape is [2], but input `x` is [3]"},
  };
  for (const auto& [text, error] : cases) {
    rnnc_graph* graph = nullptr;
    EXPECT_EQ(rnnc_graph_parse(text, &graph), RNNC_INVALID_ARGUMENT);
    EXPECT_EQ(graph, nullptr);
    EXPECT_STREQ(rnnc_last_error(), error);
  }
}

/// What is read is a graph that may be compiled, or an error.
TEST(CApiGraphs, DamagedTextsNeverCrash) {
  const std::string original = text_of(shipped("lstm").get());
  std::mt19937 random(1);
  int right = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = original;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t place = random() % text.size();
      if (random() % 2 == 0) {
        text[place] = "%@:=,[]{}()+-*/0hx"[random() % 18];
      } else {
        text.erase(place, 1 + random() % 30);
      }
    }
    rnnc_graph* made = nullptr;
    const rnnc_status status = rnnc_graph_parse(text.c_str(), &made);
    const Owned<rnnc_graph> graph(made);
    EXPECT_EQ(status == RNNC_OK, graph != nullptr);
    if (status != RNNC_OK) {
      EXPECT_EQ(status, RNNC_INVALID_ARGUMENT) << rnnc_last_error();
      EXPECT_STRNE(rnnc_last_error(), "");
    } else if (++right <= 20) {
      rnnc_program* program = nullptr;
      const rnnc_dim dims[] = {{"I", 3}, {"H", 4}};
      const rnnc_status compiled = rnnc_program_compile(graph.get(), dims, 2, nullptr, &program);
      EXPECT_NE(compiled, RNNC_INTERNAL) << rnnc_last_error() << "\n" << text;
      rnnc_program_free(program);
    }
  }
  EXPECT_GT(right, 0);
}

}  // namespace
}  // namespace rnnc::test
