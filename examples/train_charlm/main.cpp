// Trains a character model that is written in rnnc's language, in a C++ program that embeds rnnc.
//
//     train_charlm [MODEL.rnn] --text FILE --steps 1000 --checkpoint FILE [--resume]
#include <numbers>

#include "examples/train_charlm/char_text.h"
#include "examples/training/command_line.h"
#include "runtime/base/files.h"
#include "runtime/program/run.h"

namespace train_charlm {
namespace {

using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;
using training::Piece;

constexpr double kBitsPerNat = std::numbers::log2e;

struct Options : training::RunOptions {
  Options() {
    model = RNNC_EXAMPLES "/train_charlm/char_lm.rnn";
    steps = 400;
  }
  std::string text = RNNC_EXAMPLES "/char_model/excerpt.txt";
  int64_t batch = 16, length = 64;
};

/// Bits per character of the held-out text, read as one sequence.
Result<std::string> evaluate(rnnc::Program& program, const CharText& text,
                             const std::vector<NamedArray>& params) {
  constexpr int64_t kSteps = 1024;
  const int64_t length = stream_length(text.held_out(), 1);
  rnnc::Runner runner(program);
  if (Status status = runner.load_params(params); !status) return tl::unexpected(status.error());
  rnnc::RunArgs args;
  double nats = 0;
  for (int64_t begin = 0; begin < length; begin += kSteps) {
    const Piece piece = text.piece(text.held_out(), 1, begin, std::min(kSteps, length - begin));
    args.inputs.clear();
    for (const rnnc::ArrayInfo& input : program.signature().inputs) {
      const rnnc::Array& array = input.name == "target" ? piece.target : piece.x;
      args.inputs.push_back({input.name, training::as_input(array, input)});
    }
    Result<rnnc::RunResult> result = runner.run(args);
    if (!result) return tl::unexpected(result.error());
    for (const NamedArray& output : result->outputs) {
      if (output.name != "loss") continue;
      for (const double loss : output.array.to_doubles()) nats += loss;
    }
    args.initial_states = std::move(result->final_states);
  }
  return fmt::format("{:.4f} bits per character", nats / static_cast<double>(length) * kBitsPerNat);
}

training::Task task_of(const Options& options, const CharText& text) {
  const auto width = static_cast<int64_t>(text.vocabulary().size());
  return {.signature = {.inputs = {{"x", width, "a one-hot character", true},
                                   {"target", width, "a one-hot character", true}},
                        .in_pieces = true,
                        .dims = {{"V", width}}},
          .pieces = {.batch = options.batch, .steps = options.length, .go_on = true},
          .read =
              [&](int64_t& position) {
                const int64_t end = stream_length(text.training(), options.batch);
                if (position > end - options.length) position = 0;
                const Piece piece =
                    text.piece(text.training(), options.batch, position, options.length);
                position += options.length;
                return piece;
              },
          .data_hash = training::hash(text.text()),
          .data_text = fmt::format("{} characters of {} kinds to train on, {} held out",
                                   text.training().size(), width, text.held_out().size()),
          .unit = "bits per character",
          .units_per_nat = kBitsPerNat,
          .item = "tokens",
          .items = options.batch * options.length,
          .held_out =
              [&](rnnc::Program& program, const std::vector<NamedArray>& params) {
                return evaluate(program, text, params);
              }};
}

Status train(const Options& options) {
  Result<std::string> bytes = rnnc::read_file(options.text);
  if (!bytes) return tl::unexpected(bytes.error());
  const CharText text(*std::move(bytes));
  if (stream_length(text.training(), options.batch) < options.length ||
      stream_length(text.held_out(), 1) < 1) {
    return fail("{} has {} characters: too few for --batch {} and --length {}", options.text,
                text.text().size(), options.batch, options.length);
  }
  return training::train(options, task_of(options, text));
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a character model: a .rnn file whose output `loss` is to fall");
  app.add_option("model", options.model, "a .rnn file with inputs x and target, output loss");
  app.add_option("--text", options.text, "what to read; its last tenth is held out");
  app.add_option("--batch", options.batch, "streams of the text that are read side by side")
      ->check(training::kPositive)
      ->capture_default_str();
  app.add_option("--length", options.length, "characters of each between updates")
      ->check(training::kPositive)
      ->capture_default_str();
  training::add_options(app, options);
  return training::run_command(app, "train_charlm", argc, argv, [&] { return train(options); });
}

}  // namespace
}  // namespace train_charlm

int main(int argc, char** argv) {
  return train_charlm::main_of(argc, argv);
}
