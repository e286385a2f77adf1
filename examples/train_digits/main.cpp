// Trains a network that is written in rnnc's language to read digits row by row, in a C++ program
// that embeds rnnc.
//
//     train_digits [MODEL.rnn] --steps 660 --checkpoint FILE [--resume]
#include <algorithm>

#include "examples/train_digits/digits.h"
#include "examples/training/command_line.h"
#include "runtime/program/run.h"

namespace train_digits {
namespace {

using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

struct Options : training::RunOptions {
  Options() {
    model = RNNC_EXAMPLES "/train_digits/digits.rnn";
    steps = 1000;
    adamw.learning_rate = 0.005;
    report = 100;
  }
  std::string images = RNNC_EXAMPLES "/train_digits/digits.npy";
  int64_t batch = 64;
};

/// How many of the held-out images the network takes for what they are, after the last row.
Result<std::string> evaluate(rnnc::Program& program, const Digits& digits,
                             const std::vector<NamedArray>& params) {
  training::Piece piece = digits.piece(digits.held_out());
  rnnc::RunArgs args;
  args.params = params;
  args.inputs = {{"x", std::move(piece.x)}, {"target", std::move(piece.target)}};
  const Result<rnnc::RunResult> result = rnnc::Runner(program).run(args);
  if (!result) return tl::unexpected(result.error());
  const size_t count = digits.held_out().size();
  size_t right = 0;
  for (const NamedArray& output : result->outputs) {
    if (output.name != "logits") continue;
    const std::vector<double> logits = output.array.to_doubles();  // [8, B, 10]
    for (size_t i = 0; i < count; ++i) {
      const auto first = logits.end() - static_cast<int64_t>(count - i) * kClasses;
      const int64_t greatest = std::max_element(first, first + kClasses) - first;
      if (greatest == digits.digit(digits.held_out()[i])) ++right;
    }
  }
  return fmt::format("{:.2f} % of {} images are read right",
                     100.0 * static_cast<double>(right) / static_cast<double>(count), count);
}

training::Task task_of(const Options& options, const Digits& digits) {
  return {.signature = {.inputs = {{"x", kColumns, "a row of pixels"},
                                   {"target", kClasses, "a one-hot digit"}},
                        .outputs = {{"logits", kClasses, "one of each digit"}}},
          .pieces = {.batch = options.batch, .steps = kRows, .last_counts = true},
          .read = [&](int64_t& position) { return digits.next(options.batch, position); },
          .data_hash = digits.hash(),
          .data_text = fmt::format("{} images to train on, {} held out", digits.training().size(),
                                   digits.held_out().size()),
          .item = "images",
          .items = options.batch,
          .held_out =
              [&](rnnc::Program& program, const std::vector<NamedArray>& params) {
                return evaluate(program, digits, params);
              }};
}

Status train(const Options& options) {
  const Result<Digits> digits = Digits::read(options.images);
  if (!digits) return tl::unexpected(digits.error());
  if (std::ssize(digits->training()) < options.batch) {
    return fail("{} has {} images to train on: too few for --batch {}", options.images,
                digits->training().size(), options.batch);
  }
  return training::train(options, task_of(options, *digits));
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a network to read digits, a .rnn file whose output `loss` is to fall");
  app.add_option("model", options.model,
                 "a .rnn file with inputs x and target, outputs logits and loss");
  app.add_option("--images", options.images, "an .npy file; a fifth of it is held out");
  app.add_option("--batch", options.batch, "images between updates")
      ->check(training::kPositive)
      ->capture_default_str();
  training::add_options(app, options);
  return training::run_command(app, "train_digits", argc, argv, [&] { return train(options); });
}

}  // namespace
}  // namespace train_digits

int main(int argc, char** argv) {
  return train_digits::main_of(argc, argv);
}
