/// The C API's handles in tests: freed by themselves, made in a line.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capi/rnnc.h"

namespace rnnc::test {

/// The text, which is freed.
inline std::string take(rnnc_text* text) {
  std::string result(rnnc_text_data(text), rnnc_text_size(text));
  rnnc_text_free(text);
  return result;
}

struct Free {
  void operator()(rnnc_unit* unit) const { rnnc_unit_free(unit); }
  void operator()(rnnc_graph* graph) const { rnnc_graph_free(graph); }
  void operator()(rnnc_program* program) const { rnnc_program_free(program); }
  void operator()(rnnc_weight_map* map) const { rnnc_weight_map_free(map); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, Free>;

inline Owned<rnnc_unit> parse(const char* text) {
  rnnc_unit* unit = nullptr;
  rnnc_unit_parse("test.rnn", text, &unit);
  return Owned<rnnc_unit>(unit);
}

inline Owned<rnnc_graph> lower(rnnc_unit* unit, const char* name = nullptr) {
  rnnc_graph* graph = nullptr;
  EXPECT_EQ(rnnc_unit_lower(unit, name, nullptr, 0, &graph), RNNC_OK) << rnnc_last_error();
  return Owned<rnnc_graph>(graph);
}

/// What the shipped file of this name is about.
inline Owned<rnnc_graph> shipped(const std::string& name) {
  rnnc_unit* made = nullptr;
  EXPECT_EQ(rnnc_unit_shipped(name.c_str(), &made), RNNC_OK) << rnnc_last_error();
  const Owned<rnnc_unit> unit(made);
  rnnc_text* names = nullptr;
  EXPECT_EQ(rnnc_unit_definitions(made, &names), RNNC_OK) << rnnc_last_error();
  const std::string all = "\n" + take(names);
  const size_t last = all.rfind('\n', all.size() - 2) + 1;
  return lower(made, all.substr(last, all.size() - 1 - last).c_str());
}

inline std::string text_of(const rnnc_graph* graph) {
  rnnc_text* text = nullptr;
  EXPECT_EQ(rnnc_graph_text(graph, &text), RNNC_OK) << rnnc_last_error();
  return take(text);
}

inline rnnc_options options_of(rnnc_dtype dtype) {
  rnnc_options options = {};
  options.struct_size = sizeof options;
  options.dtype = dtype;
  options.threads = 1;
  return options;
}

/// In f64; each dim of the graph is `size`, but for those with a default.
inline Owned<rnnc_program> compile(const rnnc_graph* graph, int64_t size = 4) {
  const std::string text = text_of(graph);  // "graph LSTM(I, H = 3) {"
  std::vector<std::string> names;
  for (size_t at = text.find('(') + 1; text[at] != ')';) {
    const size_t end = text.find_first_of(",)", at);
    const std::string dim = text.substr(at, end - at);
    if (!dim.empty() && dim.find_first_of(" =", 1) == std::string::npos) names.push_back(dim);
    at = text[end] == ',' ? end + 2 : end;
  }
  std::vector<rnnc_dim> dims;
  for (const std::string& name : names) dims.push_back({name.c_str(), size});
  const rnnc_options options = options_of(RNNC_F64);
  rnnc_program* program = nullptr;
  EXPECT_EQ(rnnc_program_compile(graph, dims.data(), dims.size(), &options, &program), RNNC_OK)
      << rnnc_last_error();
  return Owned<rnnc_program>(program);
}

inline rnnc_shape shape_of(int64_t batch, int64_t steps, bool training = false) {
  rnnc_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.batch = batch;
  shape.steps = steps;
  shape.training = training ? 1 : 0;
  return shape;
}

/// Elements of each array of the role: of one step and one sequence.
inline std::vector<int64_t> elements(const rnnc_program* program, rnnc_role role) {
  size_t count = 0;
  EXPECT_EQ(rnnc_program_count(program, role, &count), RNNC_OK) << rnnc_last_error();
  std::vector<int64_t> elements(count, 1);
  for (size_t i = 0; i < count; ++i) {
    rnnc_array array = {};
    array.struct_size = sizeof array;
    EXPECT_EQ(rnnc_program_array(program, role, i, &array), RNNC_OK) << rnnc_last_error();
    for (int32_t axis = 0; axis < array.rank; ++axis) elements[i] *= array.shape[axis];
  }
  return elements;
}

/// The outputs of an f64 program that is prepared, over small numbers, one behind the other.
inline std::vector<double> run(rnnc_program* program, int64_t batch, int64_t steps) {
  double next = 0;
  const auto arrays = [&](rnnc_role role, int64_t rows) {
    std::vector<std::vector<double>> arrays;
    for (const int64_t count : elements(program, role)) {
      arrays.emplace_back(count * rows);
      for (double& value : arrays.back()) value = (next = next < 1 ? next + 0.07 : -1);
    }
    return arrays;
  };
  const auto pointers = [](auto& arrays) {
    std::vector<void*> pointers;
    for (auto& array : arrays) pointers.push_back(array.data());
    return pointers;
  };
  auto inputs = arrays(RNNC_INPUT, batch * steps);
  auto params = arrays(RNNC_PARAM, 1);
  auto outputs = arrays(RNNC_OUTPUT, batch * steps);
  const std::vector<void*> of_inputs = pointers(inputs), of_params = pointers(params),
                           of_outputs = pointers(outputs);
  const rnnc_shape shape = shape_of(batch, steps);
  rnnc_sizes sizes = {};
  sizes.struct_size = sizeof sizes;
  EXPECT_EQ(rnnc_program_sizes(program, &shape, &sizes), RNNC_OK) << rnnc_last_error();
  std::vector<char> workspace(sizes.forward_workspace);
  rnnc_forward_args args = {};
  args.struct_size = sizeof args;
  args.steps = steps;
  args.batch = batch;
  args.inputs = of_inputs.data();
  args.params = of_params.data();
  args.outputs = of_outputs.data();
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.size();
  EXPECT_EQ(rnnc_forward(program, &args), RNNC_OK) << rnnc_last_error();
  std::vector<double> all;
  for (const auto& output : outputs) all.insert(all.end(), output.begin(), output.end());
  return all;
}

}  // namespace rnnc::test
