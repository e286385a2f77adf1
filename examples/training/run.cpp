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
  Run(const RunOptions& options, const Task& task, rnnc::Program& program, Trainer trainer)
      : options_(options), task_(task), program_(program), trainer_(std::move(trainer)) {}

  Status begin() {
    const rnnc::Signature& signature = program_.signature();
    auto params = rnnc::random_weights(signature.params, options_.seed);
    if (!params) return tl::unexpected(params.error());
    Trained first;
    first.params = *std::move(params);
    return trainer_.load(first);
  }

  Status resume() {
    const rnnc::Signature& signature = program_.signature();
    CheckpointSource source{.program = signature.name,
                            .params = signature.params,
                            .states = {},
                            .batch = task_.pieces.batch,
                            .data = task_.data_hash};
    if (task_.pieces.go_on) source.states = signature.states;
    const Result<Checkpoint> checkpoint = read_checkpoint(options_.checkpoint, source);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    position_ = checkpoint->position;
    return trainer_.load(*checkpoint);
  }

  Status go() {
    auto reported_at = std::chrono::steady_clock::now();
    int64_t reported = trainer_.steps();
    while (trainer_.steps() < options_.steps) {
      const Result<double> loss = step();
      if (!loss) return tl::unexpected(loss.error());
      const int64_t steps = trainer_.steps();
      const bool last = steps == options_.steps;
      if (steps != 1 && steps % options_.report != 0 && !last) continue;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - reported_at;
      const auto items = static_cast<double>((steps - reported) * task_.items);
      if (!options_.quiet) {
        std::printf("step %5lld  %.4f %s  %.0f %s/s\n", static_cast<long long>(steps),
                    *loss * task_.units_per_nat, task_.unit.c_str(), items / time.count(),
                    task_.item.c_str());
        std::fflush(stdout);
      }
      if (Status status = save(); !status) return status;
      reported_at = std::chrono::steady_clock::now();
      reported = steps;
    }
    const Result<std::vector<NamedArray>> params = trainer_.params();
    if (!params) return tl::unexpected(params.error());
    const Result<std::string> held_out = task_.held_out(program_, *params);
    if (!held_out) return tl::unexpected(held_out.error());
    std::printf("held out    %s\n", held_out->c_str());
    return {};
  }

 private:
  /// The loss before the update.
  Result<double> step() {
    Result<double> loss = trainer_.update(task_.read(position_));
    if (loss && !std::isfinite(*loss)) {
      return fail("the loss of step {} is {}: a smaller --lr may help", trainer_.steps() + 1,
                  *loss);
    }
    return loss;
  }

  Status save() {
    if (options_.checkpoint.empty()) return {};
    Result<Trained> trained = trainer_.trained();
    if (!trained) return tl::unexpected(trained.error());
    Checkpoint checkpoint{*std::move(trained)};
    checkpoint.position = position_;
    checkpoint.data = task_.data_hash;
    return write_checkpoint(options_.checkpoint, checkpoint);
  }

  const RunOptions& options_;
  const Task& task_;
  rnnc::Program& program_;
  Trainer trainer_;
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
  Result<Trainer> trainer = Trainer::make(*program, task.pieces, options.adamw);
  if (!trainer) return tl::unexpected(trainer.error());
  int64_t size = 0;
  for (const rnnc::ArrayInfo& param : program->signature().params) size += param.elements();
  Run run(options, task, *program, *std::move(trainer));
  Status status = options.resume ? run.resume() : run.begin();
  if (!status) return status;
  if (!options.quiet) {
    std::printf("%s: %lld params; %s\n", program->signature().name.c_str(),
                static_cast<long long>(size), task.data_text.c_str());
  }
  return run.go();
}

}  // namespace training
