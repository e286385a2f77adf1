// Trains a character model that is written in rnnc's language, in a C++ program that embeds rnnc.
//
//     train_charlm [MODEL.rnn] --text FILE --steps 1000 --checkpoint FILE [--resume]
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>

#include "examples/train_charlm/adamw.h"
#include "examples/train_charlm/char_text.h"
#include "examples/train_charlm/checkpoint.h"
#include "examples/train_charlm/model.h"
#include "examples/train_charlm/trainer.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/base/files.h"
#include "runtime/program/run.h"

namespace train_charlm {
namespace {

using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

constexpr double kBitsPerNat = std::numbers::log2e;

struct Options {
  std::string model = RNNC_EXAMPLES "/train_charlm/char_lm.rnn";
  std::string text = RNNC_EXAMPLES "/char_model/excerpt.txt";
  std::string cell, device = "cpu", checkpoint;
  std::map<std::string, int64_t> dims;
  int64_t steps = 400, batch = 16, length = 64, report = 50;
  int threads = 0;
  uint64_t seed = 1;
  AdamWOptions adamw;
  bool resume = false, quiet = false;
};

/// Bits per character of the held-out text, read as one sequence.
Result<double> evaluate(rnnc::Program& program, const CharText& text,
                        const std::vector<NamedArray>& params) {
  constexpr int64_t kSteps = 1024;
  const int64_t length = stream_length(text.held_out(), 1);
  rnnc::Runner runner(program);
  if (Status status = runner.load_params(params); !status) return tl::unexpected(status.error());
  rnnc::RunArgs args;
  double nats = 0;
  for (int64_t begin = 0; begin < length; begin += kSteps) {
    Piece piece = text.piece(text.held_out(), 1, begin, std::min(kSteps, length - begin));
    args.inputs = {{"x", std::move(piece.x)}, {"target", std::move(piece.target)}};
    Result<rnnc::RunResult> result = runner.run(args);
    if (!result) return tl::unexpected(result.error());
    for (const NamedArray& output : result->outputs) {
      if (output.name != "loss") continue;
      for (const double loss : output.array.to_doubles()) nats += loss;
    }
    args.initial_states = std::move(result->final_states);
  }
  return nats / static_cast<double>(length) * kBitsPerNat;
}

/// A training run and where it stands.
class Training {
 public:
  Training(const Options& options, const CharText& text, rnnc::Program& program, Trainer trainer,
           std::vector<NamedArray> params)
      : options_(options),
        text_(text),
        program_(program),
        trainer_(std::move(trainer)),
        params_(std::move(params)),
        adamw_(options.adamw, params_) {}

  Status resume() {
    Result<Checkpoint> checkpoint =
        read_checkpoint(options_.checkpoint, program_.signature(), options_.batch, text_.hash());
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    params_ = std::move(checkpoint->params);
    adamw_.step = checkpoint->step;
    adamw_.mean = std::move(checkpoint->mean);
    adamw_.variance = std::move(checkpoint->variance);
    position_ = checkpoint->position;
    return trainer_.load_states(checkpoint->states);
  }

  Status run() {
    auto reported_at = std::chrono::steady_clock::now();
    int64_t reported = adamw_.step;
    while (adamw_.step < options_.steps) {
      const Result<double> loss = step();
      if (!loss) return tl::unexpected(loss.error());
      const bool last = adamw_.step == options_.steps;
      if (adamw_.step != 1 && adamw_.step % options_.report != 0 && !last) continue;
      const auto now = std::chrono::steady_clock::now();
      const double seconds = std::chrono::duration<double>(now - reported_at).count();
      const int64_t tokens = (adamw_.step - reported) * options_.batch * options_.length;
      if (!options_.quiet) {
        std::printf("step %5lld  %.4f bits per character  %.0f tokens/s\n",
                    static_cast<long long>(adamw_.step), *loss * kBitsPerNat,
                    static_cast<double>(tokens) / seconds);
        std::fflush(stdout);
      }
      if (Status status = save(); !status) return status;
      reported_at = std::chrono::steady_clock::now();
      reported = adamw_.step;
    }
    const Result<double> bits = evaluate(program_, text_, params_);
    if (!bits) return tl::unexpected(bits.error());
    std::printf("held out    %.4f bits per character\n", *bits);
    return {};
  }

 private:
  /// The loss before the update.
  Result<double> step() {
    const int64_t end = stream_length(text_.training(), options_.batch);
    if (position_ > end - options_.length) position_ = 0;
    const Piece piece = text_.piece(text_.training(), options_.batch, position_, options_.length);
    const Result<double> loss = trainer_.forward(params_, piece, position_ == 0);
    if (!loss) return loss;
    if (!std::isfinite(*loss)) {
      return fail("the loss of step {} is {}: a smaller --lr may help", adamw_.step + 1, *loss);
    }
    Result<std::vector<NamedArray>> gradients = trainer_.backward();
    if (!gradients) return tl::unexpected(gradients.error());
    adamw_.update(params_, *gradients);
    position_ += options_.length;
    return loss;
  }

  Status save() const {
    if (options_.checkpoint.empty()) return {};
    Result<std::vector<NamedArray>> states = trainer_.states();
    if (!states) return tl::unexpected(states.error());
    return write_checkpoint(options_.checkpoint, {.step = adamw_.step,
                                                  .position = position_,
                                                  .text = text_.hash(),
                                                  .params = params_,
                                                  .mean = adamw_.mean,
                                                  .variance = adamw_.variance,
                                                  .states = *std::move(states)});
  }

  const Options& options_;
  const CharText& text_;
  rnnc::Program& program_;
  Trainer trainer_;
  std::vector<NamedArray> params_;
  AdamW adamw_;
  int64_t position_ = 0;
};

Status train(const Options& options) {
  Result<std::string> bytes = rnnc::read_file(options.text);
  if (!bytes) return tl::unexpected(bytes.error());
  const CharText text(*std::move(bytes));
  if (stream_length(text.training(), options.batch) < options.length ||
      stream_length(text.held_out(), 1) < 1) {
    return fail("{} has {} characters: too few for --batch {} and --length {}", options.text,
                text.training().size() + text.held_out().size(), options.batch, options.length);
  }
  const Result<rnnc::Device> device = rnnc::Device::parse(options.device);
  if (!device) return tl::unexpected(device.error());
  Result<rnnc::Program> program =
      compile_loss(options.model, options.cell, static_cast<int64_t>(text.vocabulary().size()),
                   {.dims = {options.dims.begin(), options.dims.end()},
                    .device = *device,
                    .threads = options.threads});
  if (!program) return tl::unexpected(program.error());
  auto params = rnnc::random_weights(program->signature().params, options.seed);
  if (!params) return tl::unexpected(params.error());
  Result<Trainer> trainer = Trainer::make(*program, options.batch, options.length);
  if (!trainer) return tl::unexpected(trainer.error());
  int64_t size = 0;
  for (const NamedArray& param : *params) size += param.array.elements();
  if (!options.quiet) {
    std::printf("%s: %lld params; %zu characters of %zu kinds to train on, %zu held out\n",
                program->signature().name.c_str(), static_cast<long long>(size),
                text.training().size(), text.vocabulary().size(), text.held_out().size());
  }
  Training training(options, text, *program, *std::move(trainer), *std::move(params));
  if (options.resume) {
    if (Status status = training.resume(); !status) return status;
  }
  return training.run();
}

/// CLI11's own of these would show the greatest double.
const CLI::Validator kPositive(
    [](std::string& text) {
      return std::strtod(text.c_str(), nullptr) > 0 ? "" : text + " is not greater than 0";
    },
    "");
const CLI::Validator kNotNegative(
    [](std::string& text) {
      return std::strtod(text.c_str(), nullptr) >= 0 ? "" : text + " is less than 0";
    },
    "");

/// NAME=NUMBER of --dim.
std::pair<std::string, int64_t> dim_of(const std::string& text) {
  const size_t equals = text.find('=');
  int64_t value = 0;
  if (equals == std::string::npos || !CLI::detail::lexical_cast(text.substr(equals + 1), value)) {
    throw CLI::ValidationError("--dim", text + " is not of the form NAME=NUMBER");
  }
  return {text.substr(0, equals), value};
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a character model: a .rnn file whose output `loss` is to fall");
  app.add_option("model", options.model, "a .rnn file with inputs x and target, output loss");
  app.add_option("--cell", options.cell, "of the file; the last one if not given");
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) options.dims.insert(dim_of(text));
         },
         "NAME=NUMBER, such as H=256; may be repeated")
      ->allow_extra_args(false);
  app.add_option_function<int64_t>(
      "--hidden", [&](int64_t size) { options.dims["H"] = size; }, "short for --dim H=NUMBER");
  app.add_option("--text", options.text, "what to read; its last tenth is held out");
  app.add_option("--steps", options.steps, "updates, those before --resume included")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--batch", options.batch, "streams of the text that are read side by side")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--length", options.length, "characters of each between updates")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--lr", options.adamw.learning_rate, "learning rate")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--weight-decay", options.adamw.weight_decay, "of all params")
      ->check(kNotNegative)
      ->capture_default_str();
  app.add_option("--clip", options.adamw.clip, "greatest norm of the gradients; 0: any")
      ->check(kNotNegative)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first params")->capture_default_str();
  app.add_option("--device", options.device, "cpu, cuda or cuda:1")->capture_default_str();
  app.add_option("--threads", options.threads, "on the CPU; 0: all")->check(kNotNegative);
  app.add_option("--report", options.report, "steps between lines and checkpoints")
      ->check(kPositive)
      ->capture_default_str();
  auto* checkpoint = app.add_option("--checkpoint", options.checkpoint,
                                    "a .safetensors file that is kept up to date");
  app.add_flag("--resume", options.resume, "go on from the checkpoint")->needs(checkpoint);
  app.add_flag("--quiet", options.quiet, "print the held-out text's bits only");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("train_charlm: error: {}\n  see train_charlm --help\n", error.what());
  });
  CLI11_PARSE(app, argc, argv);
  const Status status = train(options);
  if (!status) std::fprintf(stderr, "train_charlm: error: %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}

}  // namespace
}  // namespace train_charlm

int main(int argc, char** argv) {
  return train_charlm::main_of(argc, argv);
}
