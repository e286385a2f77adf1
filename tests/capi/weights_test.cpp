// Weight maps: tensors converted by what the library says of them.
#include <map>
#include <nlohmann/json.hpp>

#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};
using Tensors = std::map<std::string, Tensor>;

Owned<rnnc_weight_map> parse_map(const char* text) {
  rnnc_weight_map* map = nullptr;
  EXPECT_EQ(rnnc_weight_map_parse("a.map", text, &map), RNNC_OK) << rnnc_last_error();
  return Owned<rnnc_weight_map>(map);
}

Owned<rnnc_weight_map> shipped_map(const char* name) {
  rnnc_weight_map* map = nullptr;
  EXPECT_EQ(rnnc_weight_map_shipped(name, &map), RNNC_OK) << rnnc_last_error();
  return Owned<rnnc_weight_map>(map);
}

Json resolve(const rnnc_weight_map* map, const rnnc_program* program) {
  rnnc_text* text = nullptr;
  EXPECT_EQ(rnnc_weight_map_resolve(map, program, &text), RNNC_OK) << rnnc_last_error();
  return Json::parse(take(text));
}

std::string error_of(const rnnc_weight_map* map, const rnnc_program* program) {
  rnnc_text* text = nullptr;
  EXPECT_EQ(rnnc_weight_map_resolve(map, program, &text), RNNC_INVALID_ARGUMENT);
  EXPECT_EQ(text, nullptr);
  return rnnc_last_error();
}

size_t count(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

/// Where element `i` of a param lies in the tensor of one of its terms.
size_t place(const Json& term, const Tensor& tensor, size_t i) {
  const size_t piece = tensor.values.size() / term["pieces"].get<size_t>();
  const size_t at = piece * term["piece"].get<size_t>() + i;
  if (!term["transposed"].get<bool>()) return at;
  const auto rows = static_cast<size_t>(tensor.shape[0]),
             columns = static_cast<size_t>(tensor.shape[1]);
  return at % rows * columns + at / rows;
}

Tensors zeros(const Json& layout) {
  Tensors tensors;
  for (const Json& tensor : layout["tensors"]) {
    const auto shape = tensor["shape"].get<std::vector<int64_t>>();
    EXPECT_TRUE(
        tensors.emplace(tensor["name"], Tensor{shape, std::vector<double>(count(shape))}).second);
  }
  return tensors;
}

Tensors to_params(const Json& layout, const Tensors& tensors) {
  Tensors params;
  for (const Json& param : layout["params"]) {
    const auto shape = param["shape"].get<std::vector<int64_t>>();
    Tensor made{shape, std::vector<double>(count(shape))};
    for (size_t i = 0; i < made.values.size(); ++i) {
      for (const Json& term : param["sum"]) {
        const Tensor& tensor = tensors.at(term["tensor"]);
        made.values[i] += tensor.values.at(place(term, tensor, i));
      }
    }
    params.emplace(param["name"], std::move(made));
  }
  return params;
}

Tensors to_tensors(const Json& layout, const Tensors& params) {
  Tensors tensors = zeros(layout);
  for (const Json& param : layout["params"]) {
    const Json& term = param["sum"][0];
    Tensor& tensor = tensors.at(term["tensor"]);
    const Tensor& given = params.at(param["name"]);
    for (size_t i = 0; i < given.values.size(); ++i) {
      tensor.values.at(place(term, tensor, i)) = given.values[i];
    }
  }
  return tensors;
}

/// With another number in each element.
Tensors numbered(const Json& layout) {
  Tensors params;
  double next = 1;
  for (const Json& param : layout["params"]) {
    const auto shape = param["shape"].get<std::vector<int64_t>>();
    Tensor made{shape, std::vector<double>(count(shape))};
    for (double& value : made.values) value = next++;
    params.emplace(param["name"], std::move(made));
  }
  return params;
}

void expect_same(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(got.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(got.at(name).values, tensor.values) << name;
  }
}

TEST(CApiWeights, ShippedMapsConvertBothWays) {
  for (const auto& [map, unit] : {std::pair("torch/lstm", "lstm"),
                                  {"torch/gru", "gru"},
                                  {"torch/projected_lstm", "projected_lstm"},
                                  {"torch/stacked_rnn", "stacked_elman"},
                                  {"torch/stacked_lstm", "stacked_lstm"},
                                  {"torch/bidirectional_gru", "bidirectional_gru"}}) {
    const Owned<rnnc_program> program = compile(shipped(unit).get(), 3);
    const Json layout = resolve(shipped_map(map).get(), program.get());
    const Tensors params = numbered(layout);
    expect_same(to_params(layout, to_tensors(layout, params)), params);
  }
}

/// As PyTorch has an LSTM's: gates i, f, g, o one below the other, two biases.
TEST(CApiWeights, TensorsAreAsTheMapSays) {
  const Owned<rnnc_program> program = compile(shipped("lstm").get(), 2);
  const Json layout = resolve(shipped_map("torch/lstm").get(), program.get());
  Tensors tensors = zeros(layout);
  EXPECT_EQ(tensors.at("weight_ih_l0").shape, (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(tensors.at("bias_hh_l0").shape, (std::vector<int64_t>{8}));
  tensors.at("weight_ih_l0").values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  tensors.at("bias_ih_l0").values = {1, 2, 3, 4, 5, 6, 7, 8};
  tensors.at("bias_hh_l0").values = {10, 20, 30, 40, 50, 60, 70, 80};
  const Tensors params = to_params(layout, tensors);
  EXPECT_EQ(params.at("W_f").values, (std::vector<double>{5, 6, 7, 8}));
  EXPECT_EQ(params.at("b_g").values, (std::vector<double>{55, 66}));
  EXPECT_TRUE(layout["params"].back()["or_zeros"].get<bool>());
}

constexpr const char* kCell = R"(cell C[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param b, c: [H]
  param s: []
  h[t] = s * (W @ x[t] + b + c)
}
)";

Owned<rnnc_program> program_of(int64_t inputs, int64_t states) {
  const Owned<rnnc_unit> unit = parse(kCell);
  const Owned<rnnc_graph> graph = lower(unit.get());
  const rnnc_dim dims[] = {{"I", inputs}, {"H", states}};
  rnnc_program* made = nullptr;
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 2, nullptr, &made), RNNC_OK)
      << rnnc_last_error();
  return Owned<rnnc_program>(made);
}

TEST(CApiWeights, TransposedPiecesAndScalars) {
  const Owned<rnnc_program> program = program_of(3, 2);
  const Json layout =
      resolve(parse_map("W = transpose(kernel)[1 of 2]\n[b, c] = bias\ns = scales[2 of 3]\n").get(),
              program.get());
  Tensors tensors = zeros(layout);
  EXPECT_EQ(tensors.at("kernel").shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(tensors.at("scales").shape, (std::vector<int64_t>{3}));
  tensors.at("kernel").values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  tensors.at("bias").values = {1, 2, 3, 4};
  tensors.at("scales").values = {1, 2, 3};
  const Tensors params = to_params(layout, tensors);
  EXPECT_EQ(params.at("W").values, (std::vector<double>{3, 7, 11, 4, 8, 12}));
  EXPECT_EQ(params.at("c").values, (std::vector<double>{3, 4}));
  EXPECT_EQ(params.at("s").values, (std::vector<double>{3}));
  const Tensors back = to_tensors(layout, params);
  EXPECT_EQ(back.at("kernel").values, (std::vector<double>{0, 0, 3, 4, 0, 0, 7, 8, 0, 0, 11, 12}));
}

TEST(CApiWeights, ParamsThatNoTensorFits) {
  const auto map = parse_map("W = transpose(k)\nb = transpose(v)\nc = k\ns = s\n");
  EXPECT_EQ(
      error_of(map.get(), program_of(3, 2).get()),
      "the arrays do not fit `C`:\n"
      "  param `b` [2] cannot be `transpose(v)`: it is not a matrix\n"
      "  param `c` [2] cannot be `k`: the tensor would be [2], and is [3, 2] for other params");
}

TEST(CApiWeights, Errors) {
  rnnc_weight_map* map = nullptr;
  EXPECT_EQ(rnnc_weight_map_parse("bad.map", "W = = w\n", &map), RNNC_INVALID_ARGUMENT);
  EXPECT_EQ(map, nullptr);
  EXPECT_EQ(std::string(rnnc_last_error()).find("`bad.map` is not a weight map that can be read:"),
            0u);
  EXPECT_EQ(rnnc_weight_map_shipped("torch/lsmt", &map), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(),
               "rnnc has no weight map `torch/lsmt` (did you mean `torch/lstm`?)");
  const Owned<rnnc_program> program = compile(shipped("lstm").get());
  EXPECT_NE(error_of(shipped_map("torch/gru").get(), program.get()).find("`LSTM` has no param"),
            std::string::npos);
}

}  // namespace
}  // namespace rnnc::test
