#include "tests/support/cells/char_model.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frontend/unit.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/program/run.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

const std::string kFolder = "examples/char_model/";

}  // namespace

Result<double> char_model_bits(const CompileOptions& options) {
  const std::string text = read_data(kFolder + "excerpt.txt");
  const std::string vocabulary = read_data(kFolder + "vocabulary.txt");
  const size_t steps = text.size() - 1;
  const size_t width = vocabulary.size();

  Unit unit("char_lm.rnn", read_data(kFolder + "char_lm.rnn"));
  const auto graph = unit.lower("CharLM", {});
  if (!graph) return fail("{}", unit.render());
  auto program = Program::compile(*graph, options);
  if (!program) return tl::unexpected(program.error());
  auto weights = read_safetensors(data_root() / kFolder / "char_lm.safetensors");
  if (!weights) return tl::unexpected(weights.error());

  std::vector<double> numbers(steps);
  for (size_t t = 0; t < steps; ++t) numbers[t] = static_cast<double>(vocabulary.find(text[t]));
  RunArgs args;
  args.params = *std::move(weights);
  args.inputs = {{"x", Array::from_doubles(numbers, {static_cast<int64_t>(steps), 1}, DType::i32)}};
  const auto result = Runner(*program).run(args);
  if (!result) return tl::unexpected(result.error());

  const std::vector<double> log_probability = result->outputs.at(0).array.to_doubles();
  double nats = 0;
  for (size_t t = 0; t < steps; ++t) {
    nats -= log_probability[t * width + vocabulary.find(text[t + 1])];
  }
  return nats / static_cast<double>(steps) / std::log(2.0);
}

double char_model_torch_bits() {
  return nlohmann::json::parse(read_data(kFolder + "torch_result.json"))["bits_per_character"];
}

}  // namespace rnnc::test
