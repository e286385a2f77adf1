// Embeds rnnc in a C++ program: loads the character model and lets it write, one step at a time.
//
//     embed_cpp FOLDER_OF_CHAR_MODEL [cpu|cuda] [CHARACTERS] [SEED] [TEMPERATURE]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "frontend/unit.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/program/run.h"

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "embed_cpp: cannot read %s\n", path.c_str());
    std::exit(1);
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Ends the program with rnnc's message if `result` is an error.
template <typename T>
T value_of(rnnc::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "embed_cpp: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// A character drawn from softmax(log_probability / temperature).
size_t draw(std::vector<double> log_probability, double temperature, std::mt19937& random) {
  for (double& p : log_probability) p = std::exp(p / temperature);
  return std::discrete_distribution<size_t>(log_probability.begin(), log_probability.end())(random);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "examples/char_model";
  const std::string device = argc > 2 ? argv[2] : "cpu";
  const int characters = argc > 3 ? std::atoi(argv[3]) : 400;
  std::mt19937 random(argc > 4 ? static_cast<uint32_t>(std::atoi(argv[4])) : 1);
  const double temperature = argc > 5 ? std::atof(argv[5]) : 0.6;
  const std::string vocabulary = read_text(folder + "/vocabulary.txt");

  // Compile the network from its source, then load its weights.
  rnnc::Unit unit("char_lm.rnn", read_text(folder + "/char_lm.rnn"));
  const auto graph = unit.lower("CharLM", {});
  if (!graph) {
    std::fputs(unit.render().c_str(), stderr);
    return 1;
  }
  rnnc::CompileOptions options;
  options.device = value_of(rnnc::Device::parse(device));
  rnnc::Program program = value_of(rnnc::Program::compile(*graph, options));
  rnnc::Runner runner(program);
  value_of(runner.load_params(value_of(rnnc::read_safetensors(folder + "/char_lm.safetensors"))));

  // Each step reads the last character and the states, and gives the next character's odds.
  const auto V = static_cast<int64_t>(vocabulary.size());
  rnnc::RunArgs step;
  size_t character = vocabulary.find('\n');
  for (int n = 0; n < characters; ++n) {
    std::vector<double> one_hot(vocabulary.size());
    one_hot[character] = 1;
    step.inputs = {{"x", rnnc::Array::from_doubles(one_hot, {1, 1, V}, rnnc::DType::f32)}};
    rnnc::RunResult result = value_of(runner.run(step));
    character = draw(result.outputs[0].array.to_doubles(), temperature, random);
    std::putchar(vocabulary[character]);
    step.initial_states = std::move(result.final_states);
  }
  std::putchar('\n');
}
