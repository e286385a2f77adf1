#include "examples/training/trainer.h"

#include <algorithm>

#include "runtime/backend/backend.h"

namespace training {
namespace {

using rnnc::Array;
using rnnc::ArrayInfo;
using rnnc::DeviceArray;
using rnnc::DType;
using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

/// Pieces that begin with the declared initial states while others go on: a plan of its own, so that
/// the others pay nothing.
constexpr rnnc::SequenceFeatures kFresh = {.resets = true};

/// f16 has no numbers below 6e-8, where many gradients of a mean are (Micikevicius et al. 2018,
/// arXiv:1710.03740).
constexpr double kHalfScale = 1024;

std::vector<int64_t> leading(std::vector<int64_t> shape, const ArrayInfo& info) {
  shape.insert(shape.end(), info.shape.begin(), info.shape.end());
  return shape;
}

/// Device memory for each array of a list, all zero.
template <typename Pointer>
Status allocate_all(rnnc::Backend& backend, const std::vector<ArrayInfo>& infos,
                    const std::vector<int64_t>& rows, std::vector<DeviceArray>& arrays,
                    std::vector<Pointer>& pointers) {
  for (const ArrayInfo& info : infos) {
    DeviceArray& array = arrays.emplace_back(backend);
    Status status = array.upload(Array::zeros(info.dtype, leading(rows, info)), info.dtype);
    if (!status) return status;
    pointers.push_back(array.get());
  }
  return {};
}

void scale(Array& array, double factor) {
  std::vector<double> values = array.to_doubles();
  for (double& value : values) value *= factor;
  array = Array::from_doubles(values, array.shape, array.dtype);
}

}  // namespace

std::vector<ArrayInfo> host_params(const rnnc::Signature& signature) {
  std::vector<ArrayInfo> params = signature.params;
  for (ArrayInfo& param : params) param.dtype = rnnc::compute_type(param.dtype);
  return params;
}

Trainer::Trainer(rnnc::Program& program, const PieceShape& shape)
    : program_(&program),
      shape_(shape),
      loss_gradient_(program.backend()),
      workspace_(program.backend()),
      reserve_(program.backend()),
      reset_(program.backend()) {}

Result<Trainer> Trainer::make(rnnc::Program& program, const PieceShape& shape) {
  Trainer trainer(program, shape);
  Status status = trainer.prepare();
  if (status) status = trainer.allocate();
  if (status) status = trainer.give_loss_gradients();
  if (!status) return tl::unexpected(status.error());
  return trainer;
}

Status Trainer::prepare() {
  rnnc::TrainingOptions training;
  training.given_states.assign(program_->signature().states.size(), shape_.go_on);
  std::vector<rnnc::SequenceFeatures> plans = {{}};
  if (shape_.go_on) plans.push_back(kFresh);
  for (const rnnc::SequenceFeatures features : plans) {
    Status status = program_->prepare_training(shape_.batch, shape_.steps, training, features);
    if (!status) return status;
    const auto sizes = program_->training_sizes(shape_.batch, shape_.steps, features);
    if (!sizes) return tl::unexpected(sizes.error());
    workspace_bytes_ = std::max(
        {workspace_bytes_, sizes->forward_workspace, sizes->backward_workspace + sizes->zeros});
    reserve_bytes_ = std::max({reserve_bytes_, sizes->reserve, size_t{1}});
  }
  return {};
}

Status Trainer::allocate() {
  rnnc::Backend& backend = program_->backend();
  const rnnc::Signature& signature = program_->signature();
  const std::vector<int64_t> rows = {shape_.steps, shape_.batch};
  Status status = allocate_all(backend, signature.inputs, rows, inputs_, input_pointers_);
  if (status) status = allocate_all(backend, signature.params, {}, params_, param_pointers_);
  if (status) status = allocate_all(backend, signature.params, {}, gradients_, param_gradients_);
  if (status) status = allocate_all(backend, signature.outputs, rows, outputs_, output_pointers_);
  if (status) status = workspace_.reserve(workspace_bytes_);
  if (status) status = reserve_.reserve(reserve_bytes_);
  if (!status || !shape_.go_on) return status;
  status = allocate_all(backend, signature.states, {shape_.batch}, states_, final_states_);
  initial_states_.assign(final_states_.begin(), final_states_.end());
  std::vector<uint8_t> reset(static_cast<size_t>(shape_.steps * shape_.batch));
  std::fill_n(reset.begin(), shape_.batch, uint8_t{1});
  return status ? reset_.upload(reset) : status;
}

/// Those of the mean by each loss; by other outputs it is zero.
Status Trainer::give_loss_gradients() {
  const std::vector<ArrayInfo>& outputs = program_->signature().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name == "loss") loss_ = i;
  }
  const DType dtype = outputs[loss_].dtype;
  if (dtype == DType::f16) loss_scale_ = kHalfScale;
  const int64_t count = shape_.steps * shape_.batch, first = first_counted();
  std::vector<double> each(static_cast<size_t>(count));
  std::fill(each.begin() + first, each.end(), loss_scale_ / static_cast<double>(count - first));
  output_gradients_.assign(outputs.size(), nullptr);
  Status status = loss_gradient_.upload(
      Array::from_doubles(each, {shape_.steps, shape_.batch}, DType::f64), dtype);
  output_gradients_[loss_] = loss_gradient_.get();
  return status;
}

Result<double> Trainer::forward(const std::vector<NamedArray>& params, const Piece& piece) {
  const rnnc::Signature& signature = program_->signature();
  Status status;
  for (size_t i = 0; status && i < params_.size(); ++i) {
    status = params_[i].upload(params[i].array, signature.params[i].dtype);
  }
  for (size_t i = 0; status && i < inputs_.size(); ++i) {
    const ArrayInfo& input = signature.inputs[i];
    status = inputs_[i].upload(input.name == "target" ? piece.target : piece.x, input.dtype);
  }
  const bool resets = shape_.go_on && piece.fresh;
  begins_ = resets ? static_cast<const uint8_t*>(reset_.get()) : nullptr;
  if (status) {
    status = program_->forward({.steps = shape_.steps,
                                .batch = shape_.batch,
                                .inputs = input_pointers_,
                                .params = param_pointers_,
                                .outputs = output_pointers_,
                                .initial_states = initial_states_,
                                .final_states = final_states_,
                                .workspace = workspace_.get(),
                                .workspace_bytes = workspace_bytes_,
                                .reset = begins_,
                                .reserve = reserve_.get(),
                                .reserve_bytes = reserve_bytes_});
  }
  if (status) status = program_->backend().synchronize(nullptr);
  if (!status) return tl::unexpected(status.error());
  const Result<Array> losses =
      outputs_[loss_].download(signature.outputs[loss_].dtype, {shape_.steps, shape_.batch});
  if (!losses) return tl::unexpected(losses.error());
  const std::vector<double> all = losses->to_doubles();
  double sum = 0;
  for (auto loss = all.begin() + first_counted(); loss != all.end(); ++loss) sum += *loss;
  return sum / static_cast<double>(shape_.steps * shape_.batch - first_counted());
}

Result<std::vector<NamedArray>> Trainer::backward() {
  Status status = program_->backward({.steps = shape_.steps,
                                      .batch = shape_.batch,
                                      .inputs = input_pointers_,
                                      .params = param_pointers_,
                                      .output_gradients = output_gradients_,
                                      .param_gradients = param_gradients_,
                                      .reuse_params = true,
                                      .workspace = workspace_.get(),
                                      .workspace_bytes = workspace_bytes_,
                                      .reset = begins_,
                                      .reserve = reserve_.get(),
                                      .reserve_bytes = reserve_bytes_});
  if (status) status = program_->backend().synchronize(nullptr);
  if (!status) return tl::unexpected(status.error());
  std::vector<NamedArray> gradients;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const ArrayInfo& info = program_->signature().params[i];
    Result<Array> gradient = gradients_[i].download(info.dtype, info.shape);
    if (!gradient) return tl::unexpected(gradient.error());
    if (loss_scale_ != 1) scale(*gradient, 1 / loss_scale_);
    gradients.push_back({info.name, *std::move(gradient)});
  }
  return gradients;
}

Result<std::vector<NamedArray>> Trainer::states() const {
  std::vector<NamedArray> states;
  for (size_t i = 0; i < states_.size(); ++i) {
    const ArrayInfo& info = program_->signature().states[i];
    Result<Array> state = states_[i].download(info.dtype, leading({shape_.batch}, info));
    if (!state) return tl::unexpected(state.error());
    states.push_back({info.name, *std::move(state)});
  }
  return states;
}

Status Trainer::load_states(const std::vector<NamedArray>& states) {
  for (size_t i = 0; i < states_.size(); ++i) {
    Status status = states_[i].upload(states[i].array, program_->signature().states[i].dtype);
    if (!status) return status;
  }
  return {};
}

}  // namespace training
