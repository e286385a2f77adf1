// Embeds rnnc in a C++ program: loads the character model and lets it write, one step at a time.
//
//     embed_cpp [FOLDER_OF_CHAR_MODEL] [CHARACTERS] [SEED] [TEMPERATURE]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <rnnc/rnnc.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Values = std::vector<float>;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Arrays of f32 by name, from a safetensors file: the length of a JSON header, the header, and the
/// arrays where it says. Good enough for a file that is known to be right.
std::map<std::string, Values> read_weights(const std::string& path) {
  const std::string file = read_file(path);
  uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), sizeof length);
  const std::string header = file.substr(sizeof length, length);
  const std::string arrays = file.substr(sizeof length + length);
  const std::regex entry(R"re("([^"]+)":\{"dtype":"F32",[^}]*"data_offsets":\[(\d+),(\d+)\])re");
  std::map<std::string, Values> weights;
  for (std::sregex_iterator found(header.begin(), header.end(), entry), end; found != end;
       ++found) {
    const size_t from = std::stoul((*found)[2]);
    const size_t bytes = std::stoul((*found)[3]) - from;
    Values& array = weights[(*found)[1]];
    array.resize(bytes / sizeof(float));
    std::memcpy(array.data(), arrays.substr(from, bytes).data(), bytes);
  }
  return weights;
}

/// What calls take: a pointer to each array.
template <typename Pointer>
std::vector<Pointer> pointers_to(std::vector<Values>& arrays) {
  std::vector<Pointer> pointers;
  for (Values& array : arrays) pointers.push_back(array.data());
  return pointers;
}

/// The character model, with the state that it is in.
class Writer {
 public:
  explicit Writer(const std::string& folder)
      : program_(
            rnnc::Program::compile(rnnc::Unit::read(folder + "/char_lm.rnn").lower("CharLM"))) {
    rnnc::Shape shape;
    shape.batch = shape.steps = 1;
    program_.prepare(shape);
    workspace_.resize(program_.sizes(shape).forward_workspace);
    auto weights = read_weights(folder + "/char_lm.safetensors");
    for (const rnnc::Array& param : program_.arrays(RNNC_PARAM)) {
      Values& values = weights[param.name];
      if (values.size() != param.elements()) throw std::runtime_error("no weights " + param.name);
      params_.push_back(std::move(values));
    }
    for (const rnnc::Array& state : program_.arrays(RNNC_STATE)) {
      states_.emplace_back(state.elements());
      next_states_.emplace_back(state.elements());
    }
    output_.resize(program_.arrays(RNNC_OUTPUT)[0].elements());
  }

  /// The log-probability of each character to come after this one.
  const Values& read(size_t character) {
    const auto number = static_cast<int32_t>(character);
    const void* inputs[] = {&number};
    void* outputs[] = {output_.data()};
    const auto params = pointers_to<const void*>(params_);
    const auto states = pointers_to<const void*>(states_);
    const auto next_states = pointers_to<void*>(next_states_);
    rnnc::ForwardArgs args;
    args.steps = args.batch = 1;
    args.inputs = inputs;
    args.params = params.data();
    args.outputs = outputs;
    if (!first_) args.initial_states = states.data();
    args.final_states = next_states.data();
    args.reuse_params = first_ ? 0 : 1;
    args.workspace = workspace_.data();
    args.workspace_bytes = workspace_.size();
    program_.forward(args);
    states_.swap(next_states_);
    first_ = false;
    return output_;
  }

 private:
  rnnc::Program program_;
  std::vector<char> workspace_;
  std::vector<Values> params_, states_, next_states_;
  Values output_;
  bool first_ = true;
};

/// A character drawn from softmax(log_probability / temperature).
size_t draw(const Values& log_probability, double temperature, std::mt19937& random) {
  std::vector<double> weights;
  for (const float p : log_probability) weights.push_back(std::exp(p / temperature));
  return std::discrete_distribution<size_t>(weights.begin(), weights.end())(random);
}

void write(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "examples/char_model";
  const int characters = argc > 2 ? std::atoi(argv[2]) : 400;
  std::mt19937 random(argc > 3 ? static_cast<uint32_t>(std::atoi(argv[3])) : 1);
  const double temperature = argc > 4 ? std::atof(argv[4]) : 0.6;
  const std::string vocabulary = read_file(folder + "/vocabulary.txt");
  Writer writer(folder);
  size_t character = vocabulary.find('\n');
  for (int n = 0; n < characters; ++n) {
    character = draw(writer.read(character), temperature, random);
    std::putchar(vocabulary[character]);
  }
  std::putchar('\n');
}

}  // namespace

int main(int argc, char** argv) {
  try {
    write(argc, argv);
  } catch (const std::exception& error) {  // rnnc::Error is one
    std::fprintf(stderr, "embed_cpp: %s\n", error.what());
    return 1;
  }
}
