#include "examples/training/run.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "examples/training/checkpoint.h"
#include "runtime/arrays/random_arrays.h"

namespace training {
namespace {

using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

/// A run and where it stands.
class Run {
 public:
  Run(const RunOptions& options, const Task& task, rnnc::Program& program, Trainer trainer,
      std::vector<NamedArray> params)
      : options_(options),
        task_(task),
        program_(program),
        trainer_(std::move(trainer)),
        params_(std::move(params)),
        adamw_(options.adamw, params_) {}

  Status resume() {
    const rnnc::Signature& signature = program_.signature();
    CheckpointSource source{.program = signature.name,
                            .params = host_params(signature),
                            .states = {},
                            .batch = task_.pieces.batch,
                            .data = task_.data_hash};
    if (task_.pieces.go_on) source.states = signature.states;
    Result<Checkpoint> checkpoint = read_checkpoint(options_.checkpoint, source);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    params_ = std::move(checkpoint->params);
    adamw_.step = checkpoint->step;
    adamw_.mean = std::move(checkpoint->mean);
    adamw_.variance = std::move(checkpoint->variance);
    position_ = checkpoint->position;
    return trainer_.load_states(checkpoint->states);
  }

  Status go() {
    auto reported_at = std::chrono::steady_clock::now();
    int64_t reported = adamw_.step;
    while (adamw_.step < options_.steps) {
      const Result<double> loss = step();
      if (!loss) return tl::unexpected(loss.error());
      const bool last = adamw_.step == options_.steps;
      if (adamw_.step != 1 && adamw_.step % options_.report != 0 && !last) continue;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - reported_at;
      const auto items = static_cast<double>((adamw_.step - reported) * task_.items);
      if (!options_.quiet) {
        std::printf("step %5lld  %.4f %s  %.0f %s/s\n", static_cast<long long>(adamw_.step),
                    *loss * task_.units_per_nat, task_.unit.c_str(), items / time.count(),
                    task_.item.c_str());
        std::fflush(stdout);
      }
      if (Status status = save(); !status) return status;
      reported_at = std::chrono::steady_clock::now();
      reported = adamw_.step;
    }
    const Result<std::string> held_out = task_.held_out(program_, params_);
    if (!held_out) return tl::unexpected(held_out.error());
    std::printf("held out    %s\n", held_out->c_str());
    return {};
  }

 private:
  /// The loss before the update.
  Result<double> step() {
    const Piece piece = task_.read(position_);
    Result<double> loss = trainer_.forward(params_, piece);
    if (!loss) return loss;
    if (!std::isfinite(*loss)) {
      return fail("the loss of step {} is {}: a smaller --lr may help", adamw_.step + 1, *loss);
    }
    Result<std::vector<NamedArray>> gradients = trainer_.backward();
    if (!gradients) return tl::unexpected(gradients.error());
    adamw_.update(params_, *gradients);
    return loss;
  }

  Status save() const {
    if (options_.checkpoint.empty()) return {};
    Result<std::vector<NamedArray>> states = trainer_.states();
    if (!states) return tl::unexpected(states.error());
    return write_checkpoint(options_.checkpoint, {.step = adamw_.step,
                                                  .position = position_,
                                                  .data = task_.data_hash,
                                                  .params = params_,
                                                  .mean = adamw_.mean,
                                                  .variance = adamw_.variance,
                                                  .states = *std::move(states)});
  }

  const RunOptions& options_;
  const Task& task_;
  rnnc::Program& program_;
  Trainer trainer_;
  std::vector<NamedArray> params_;
  AdamW adamw_;
  int64_t position_ = 0;
};

}  // namespace

uint32_t hash(std::string_view bytes) {
  uint32_t result = 0x811c9dc5;
  for (const char c : bytes) result = (result ^ static_cast<unsigned char>(c)) * 0x01000193;
  return result;
}

Status train(const RunOptions& options, const Task& task) {
  const Result<rnnc::Device> device = rnnc::Device::parse(options.device);
  if (!device) return tl::unexpected(device.error());
  const std::optional<rnnc::DType> dtype = rnnc::parse_dtype(options.dtype);
  if (!dtype) return fail("--dtype: {} is none of f64, f32, bf16 and f16", options.dtype);
  rnnc::CompileOptions compile{.dims = {options.dims.begin(), options.dims.end()},
                               .dtype = *dtype,
                               .device = *device,
                               .threads = options.threads};
  if (rnnc::size_of(*dtype) == 2) compile.param_dtype = rnnc::DType::f32;
  Result<rnnc::Program> program =
      compile_loss(options.model, options.cell, task.signature, std::move(compile));
  if (!program) return tl::unexpected(program.error());
  auto params = rnnc::random_weights(host_params(program->signature()), options.seed);
  if (!params) return tl::unexpected(params.error());
  Result<Trainer> trainer = Trainer::make(*program, task.pieces);
  if (!trainer) return tl::unexpected(trainer.error());
  int64_t size = 0;
  for (const NamedArray& param : *params) size += param.array.elements();
  Run run(options, task, *program, *std::move(trainer), *std::move(params));
  if (options.resume) {
    if (Status status = run.resume(); !status) return status;
  }
  if (!options.quiet) {
    std::printf("%s: %lld params; %s\n", program->signature().name.c_str(),
                static_cast<long long>(size), task.data_text.c_str());
  }
  return run.go();
}

}  // namespace training
