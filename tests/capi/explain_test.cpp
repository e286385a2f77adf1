// What the library says of a program: explanations and the compiler's forms.
#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

constexpr int64_t kBatch = 3;

class CApiExplain : public testing::Test {
 protected:
  std::string explain(const rnnc_shape& shape, const char* format) {
    rnnc_text* text = nullptr;
    EXPECT_EQ(rnnc_program_explain(program_.get(), &shape, format, &text), RNNC_OK)
        << rnnc_last_error();
    return take(text);
  }
  std::string emit(const rnnc_shape& shape, const char* form) {
    rnnc_text* text = nullptr;
    EXPECT_EQ(rnnc_program_emit(program_.get(), &shape, form, &text), RNNC_OK) << rnnc_last_error();
    return take(text);
  }

  const Owned<rnnc_program> program_ = compile(shipped("lstm").get());
  const rnnc_shape inference_ = shape_of(kBatch, 20);
  const rnnc_shape training_ = shape_of(kBatch, 20, true);
};

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text.substr(0, 2000);
}

TEST_F(CApiExplain, InferenceInEachFormat) {
  const std::string text = explain(inference_, "text");
  EXPECT_EQ(text.find("LSTM: f64, batch 3, 20 steps in chunks of "), 0u) << text;
  expect_has(text, "\nStage 1: ");
  const std::string json = explain(inference_, "json");
  expect_has(json, "\"name\": \"LSTM\"");
  expect_has(json, "\"steps\": 20,");
  const std::string page = explain(inference_, "html");
  EXPECT_EQ(page.find("<!doctype html>"), 0u);
  expect_has(page, json);
}

/// For fewer steps than it is prepared for: the plan stays, what is predicted of calls follows.
TEST_F(CApiExplain, StepsAreTheShapes) {
  const auto head = [&] { return explain(shape_of(kBatch, 5), "text").substr(0, 50); };
  EXPECT_EQ(head().find("LSTM: f64, batch 3, 5 steps in chunks of 5,"), 0u) << head();
  const rnnc_shape longer = shape_of(kBatch, 40);
  ASSERT_EQ(rnnc_program_prepare(program_.get(), &longer), RNNC_OK) << rnnc_last_error();
  EXPECT_EQ(head().find("LSTM: f64, batch 3, 5 steps in chunks of 40,"), 0u) << head();
}

TEST_F(CApiExplain, TrainingHasBothHalves) {
  rnnc_shape shape = training_;
  const uint8_t one[] = {1};
  const uint8_t first[] = {1, 0};
  shape.wanted_inputs = one;
  shape.wanted_initial_states = shape.given_states = first;
  shape.residuals = RNNC_RESIDUALS_ALL;
  const std::string text = explain(shape, "text");
  expect_has(text, "LSTM: training, f64, batch 3, 20 steps, residuals all\n");
  expect_has(text, "  gradients of 12 params, 1 input, 1 initial state; 1 initial state given\n");
  expect_has(text, "\n---- Backward half ----\n");
  expect_has(explain(shape, "json"), "\"choice\": \"all\"");
  expect_has(explain(training_, "text"), "  gradients of 12 params; initial states as declared\n");
}

TEST_F(CApiExplain, FormsOfInference) {
  const std::string text = emit(inference_, "graph");
  rnnc_graph* graph = nullptr;
  ASSERT_EQ(rnnc_graph_parse(text.c_str(), &graph), RNNC_OK) << rnnc_last_error();
  EXPECT_EQ(text_of(Owned<rnnc_graph>(graph).get()), text);
  EXPECT_EQ(text.find("graph LSTM() {\n  input x: [4]\n"), 0u) << text;
  EXPECT_EQ(emit(inference_, "plan").find("plan LSTM: f64, batch 3, chunk "), 0u);
  expect_has(emit(inference_, "llvm"), "target triple = ");
  expect_has(emit(inference_, "asm"), "\t.text\n");
}

TEST_F(CApiExplain, FormsOfBothHalves) {
  EXPECT_EQ(emit(training_, "graph").find("graph LSTM() {\n"), 0u);
  EXPECT_EQ(emit(training_, "backward graph").find("graph LSTM() descending {\n"), 0u);
  EXPECT_EQ(emit(training_, "plan").find("plan LSTM: f64, batch 3"), 0u);
  EXPECT_EQ(emit(training_, "backward plan").find("plan LSTM: f64, descending, batch 3"), 0u);
  EXPECT_NE(emit(training_, "backward asm"), emit(training_, "asm"));
}

TEST_F(CApiExplain, OtherWordsAreErrors) {
  const struct {
    const rnnc_shape& shape;
    const char* form;
    const char* error;
  } cases[] = {
      {inference_, "ast", "there is no form `ast`: there are graph, plan, llvm, asm, cuda, ptx"},
      {inference_, "", "there is no form ``: there are graph, plan, llvm, asm, cuda, ptx"},
      {inference_, "ptx", "there is no ptx of a program on cpu"},
      {inference_, "backward plan", "only shapes of training have a backward half"},
      {shape_of(0, 1), "plan", "batch must be at least 1, got 0"},
  };
  for (const auto& [shape, form, error] : cases) {
    rnnc_text* text = nullptr;
    EXPECT_EQ(rnnc_program_emit(program_.get(), &shape, form, &text), RNNC_INVALID_ARGUMENT);
    EXPECT_EQ(text, nullptr);
    EXPECT_STREQ(rnnc_last_error(), error);
  }
  rnnc_text* text = nullptr;
  EXPECT_EQ(rnnc_program_explain(program_.get(), &inference_, "xml", &text), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "there is no format `xml`: there are text, json, html");
}

}  // namespace
}  // namespace rnnc::test
