// Text in and out of the character model: makes the array of numbers that `rnnc run` reads, and
// turns the log-probabilities it writes into bits per character.
//
//     char_tool encode vocabulary.txt excerpt.txt x.npy
//     rnnc run char_lm.rnn --cell CharLM --weights … --input x=x.npy --output y=y.npy
//     char_tool score vocabulary.txt excerpt.txt y.npy
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/arrays/npy.h"

namespace {

using rnnc::Array;
using rnnc::Result;
using rnnc::Status;

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return rnnc::fail("cannot read {}", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The text as numbers: a character's number is its place in the vocabulary.
Result<std::vector<size_t>> number(const std::string& text, const std::string& vocabulary) {
  std::vector<size_t> numbers;
  for (char character : text) {
    const size_t place = vocabulary.find(character);
    if (place == std::string::npos) {
      return rnnc::fail("character {} of the text is not in the vocabulary", numbers.size());
    }
    numbers.push_back(place);
  }
  if (numbers.size() < 2) return rnnc::fail("the text needs at least two characters");
  return numbers;
}

/// [T, 1]. The last character has no successor to predict, so it is left out.
Status encode(const std::vector<size_t>& characters, const std::string& path) {
  const std::vector<double> numbers(characters.begin(), characters.end() - 1);
  return rnnc::write_npy(path,
                         Array::from_doubles(numbers, {std::ssize(numbers), 1}, rnnc::DType::i32));
}

/// Prints the mean of -log2 p(character t + 1).
Status score(const std::vector<size_t>& characters, size_t vocabulary, const std::string& path) {
  const Result<Array> array = rnnc::read_npy(path);
  if (!array) return tl::unexpected(array.error());
  const size_t steps = characters.size() - 1;
  if (array->shape !=
      std::vector<int64_t>{static_cast<int64_t>(steps), 1, static_cast<int64_t>(vocabulary)}) {
    return rnnc::fail("{} does not belong to this text: it should be [{}, 1, {}]", path, steps,
                      vocabulary);
  }
  const std::vector<double> log_probability = array->to_doubles();
  double nats = 0;
  for (size_t t = 0; t < steps; ++t) nats -= log_probability[t * vocabulary + characters[t + 1]];
  std::printf("%.4f\n", nats / static_cast<double>(steps) / std::log(2.0));
  return {};
}

Status run(const std::string& command, const std::string& vocabulary_path,
           const std::string& text_path, const std::string& array_path) {
  const Result<std::string> vocabulary = read_text(vocabulary_path);
  if (!vocabulary) return tl::unexpected(vocabulary.error());
  const Result<std::string> text = read_text(text_path);
  if (!text) return tl::unexpected(text.error());
  const auto characters = number(*text, *vocabulary);
  if (!characters) return tl::unexpected(characters.error());
  if (command == "encode") return encode(*characters, array_path);
  if (command == "score") return score(*characters, vocabulary->size(), array_path);
  return rnnc::fail("unknown command {}: encode or score", command);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: char_tool encode|score VOCABULARY TEXT ARRAY.npy\n");
    return 2;
  }
  const Status status = run(argv[1], argv[2], argv[3], argv[4]);
  if (!status) std::fprintf(stderr, "char_tool: %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
