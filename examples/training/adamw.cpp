#include "examples/training/adamw.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "frontend/unit.h"
#include "runtime/backend/backend.h"

namespace training {
namespace {

using rnnc::Array;
using rnnc::DType;
using rnnc::fail;
using rnnc::Program;
using rnnc::Result;
using rnnc::Status;

/// The shares are what a step alone decides: of the gradient, by its norm; of the learning rate and
/// the root, by the moments, which start at zero.
constexpr const char* kText = R"(
/// Moves N params at a time.
cell Step[N](w: [N], g: [N]) -> updated {
  param gradient_share, rate, root_share, keep, beta1, beta2, epsilon: []
  state mean: [N]
  state variance: [N]

  gradient = gradient_share * g[t]
  mean[t] = beta1 * mean[t-1] + (1 - beta1) * gradient
  variance[t] = beta2 * variance[t-1] + (1 - beta2) * gradient * gradient
  updated = keep * w[t] - rate * mean[t] / (root_share * sqrt(variance[t]) + epsilon)
}

cell Squares[N](g: [N]) -> squares { squares = sum(g[t] * g[t]) }
)";

/// Bytes from one of a step's numbers to the next.
constexpr int64_t kStride = 256;

Result<Program> compile(const char* cell, const rnnc::CompileOptions& of, DType dtype) {
  rnnc::Unit unit("adamw.rnn", kText);
  const std::optional<rnnc::Graph> graph = unit.lower(cell, {});
  if (!graph) return fail("{}", unit.render());
  return Program::compile(*graph, {.dims = {{"N", ArrayRows::kWidth}},
                                   .dtype = dtype,
                                   .device = of.device,
                                   .threads = of.threads});
}

}  // namespace

AdamW::AdamW(const AdamWOptions& options, Program step, Program squares,
             const std::vector<rnnc::ArrayInfo>& params)
    : options_(options),
      step_(std::move(step)),
      squares_(std::move(squares)),
      mean_(step_.backend(), params),
      variance_(step_.backend(), params),
      numbers_(step_.backend()),
      sums_(step_.backend()),
      workspace_(step_.backend()) {}

Result<AdamW> AdamW::make(const AdamWOptions& options, const rnnc::CompileOptions& program,
                          const std::vector<rnnc::ArrayInfo>& params) {
  const DType dtype = params.empty() ? DType::f32 : params[0].dtype;
  Result<Program> step = compile("Step", program, dtype);
  if (!step) return tl::unexpected(step.error());
  Result<Program> squares = compile("Squares", program, dtype);
  if (!squares) return tl::unexpected(squares.error());
  AdamW adamw(options, *std::move(step), *std::move(squares), params);
  if (Status status = adamw.prepare(); !status) return tl::unexpected(status.error());
  return adamw;
}

Status AdamW::prepare() {
  const int64_t rows = mean_.rows();
  if (rows == 0) return {};
  for (Program* program : {&step_, &squares_}) {
    if (Status status = program->prepare(rows, 1); !status) return status;
    const Result<size_t> bytes = program->workspace_size(rows, 1);
    if (!bytes) return tl::unexpected(bytes.error());
    workspace_bytes_ = std::max(workspace_bytes_, *bytes);
  }
  const rnnc::Signature& signature = step_.signature();
  Status status = mean_.allocate();
  if (status) status = variance_.allocate();
  if (status) status = workspace_.reserve(workspace_bytes_);
  if (status) status = numbers_.reserve(signature.params.size() * kStride);
  return status ? sums_.reserve(static_cast<size_t>(rows) * sizeof(double)) : status;
}

/// The Euclidean norm of all gradients together (Pascanu et al. 2013, arXiv:1211.5063).
Result<double> AdamW::norm_of(const ArrayRows& gradients) {
  const void* input = gradients.get();
  void* output = sums_.get();
  Status status = squares_.forward({.steps = 1,
                                    .batch = gradients.rows(),
                                    .inputs = {&input, 1},
                                    .outputs = {&output, 1},
                                    .workspace = workspace_.get(),
                                    .workspace_bytes = workspace_bytes_});
  if (status) status = squares_.backend().synchronize(nullptr);
  if (!status) return tl::unexpected(status.error());
  const Result<Array> sums =
      sums_.download(squares_.signature().outputs[0].dtype, {gradients.rows()});
  if (!sums) return tl::unexpected(sums.error());
  double squares = 0;
  for (const double sum : sums->to_doubles()) squares += sum;
  return std::sqrt(squares);
}

/// The step's params, in one copy.
Status AdamW::load_numbers(double gradient_share) {
  const auto count = static_cast<double>(steps_);
  const std::map<std::string, double> values = {
      {"gradient_share", gradient_share},
      {"rate", options_.learning_rate / (1 - std::pow(options_.beta1, count))},
      {"root_share", 1 / std::sqrt(1 - std::pow(options_.beta2, count))},
      {"keep", 1 - options_.learning_rate * options_.weight_decay},
      {"beta1", options_.beta1},
      {"beta2", options_.beta2},
      {"epsilon", options_.epsilon}};
  const std::vector<rnnc::ArrayInfo>& params = step_.signature().params;
  const auto stride = static_cast<size_t>(kStride) / rnnc::size_of(params[0].dtype);
  std::vector<double> numbers(params.size() * stride);
  for (size_t i = 0; i < params.size(); ++i) numbers[i * stride] = values.at(params[i].name);
  return numbers_.upload(Array::from_doubles(numbers, {std::ssize(numbers)}, params[0].dtype),
                         params[0].dtype);
}

Status AdamW::update(const ArrayRows& params, const ArrayRows& gradients, double scale,
                     ArrayRows& updated) {
  if (params.rows() == 0) return {};
  double share = 1 / scale;
  if (options_.clip > 0) {
    const Result<double> norm = norm_of(gradients);
    if (!norm) return tl::unexpected(norm.error());
    if (*norm * share > options_.clip) share = options_.clip / *norm;
  }
  ++steps_;
  if (Status status = load_numbers(share); !status) return status;
  std::vector<const void*> numbers;
  for (size_t i = 0; i < step_.signature().params.size(); ++i) {
    numbers.push_back(static_cast<std::byte*>(numbers_.get()) + i * kStride);
  }
  const void* inputs[] = {params.get(), gradients.get()};
  void* output = updated.get();
  const void* moments[] = {mean_.get(), variance_.get()};
  void* new_moments[] = {mean_.get(), variance_.get()};
  return step_.forward({.steps = 1,
                        .batch = params.rows(),
                        .inputs = inputs,
                        .params = numbers,
                        .outputs = {&output, 1},
                        .initial_states = moments,
                        .final_states = new_moments,
                        .workspace = workspace_.get(),
                        .workspace_bytes = workspace_bytes_});
}

}  // namespace training
