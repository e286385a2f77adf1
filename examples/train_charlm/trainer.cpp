#include "examples/train_charlm/trainer.h"

#include <algorithm>

#include "runtime/backend/backend.h"

namespace train_charlm {
namespace {

using rnnc::Array;
using rnnc::ArrayInfo;
using rnnc::DeviceArray;
using rnnc::DType;
using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

/// The first piece of a text begins with the declared initial states: a plan of its own, so that
/// the others pay nothing.
constexpr rnnc::SequenceFeatures kFresh = {.resets = true};

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

}  // namespace

Trainer::Trainer(rnnc::Program& program, int64_t batch, int64_t steps)
    : program_(&program),
      batch_(batch),
      steps_(steps),
      loss_gradient_(program.backend()),
      workspace_(program.backend()),
      reserve_(program.backend()),
      reset_(program.backend()) {}

Result<Trainer> Trainer::make(rnnc::Program& program, int64_t batch, int64_t steps) {
  Trainer trainer(program, batch, steps);
  Status status = trainer.prepare();
  if (status) status = trainer.allocate();
  if (!status) return tl::unexpected(status.error());
  return trainer;
}

Status Trainer::prepare() {
  rnnc::TrainingOptions training;
  training.given_states.assign(program_->signature().states.size(), true);
  for (const rnnc::SequenceFeatures features : {rnnc::SequenceFeatures{}, kFresh}) {
    Status status = program_->prepare_training(batch_, steps_, training, features);
    if (!status) return status;
    const auto sizes = program_->training_sizes(batch_, steps_, features);
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
  const std::vector<int64_t> rows = {steps_, batch_};
  Status status = allocate_all(backend, signature.inputs, rows, inputs_, input_pointers_);
  if (status) status = allocate_all(backend, signature.params, {}, params_, param_pointers_);
  if (status) status = allocate_all(backend, signature.params, {}, gradients_, param_gradients_);
  if (status) status = allocate_all(backend, signature.outputs, rows, outputs_, output_pointers_);
  if (status) status = allocate_all(backend, signature.states, {batch_}, states_, final_states_);
  if (status) status = workspace_.reserve(workspace_bytes_);
  if (status) status = reserve_.reserve(reserve_bytes_);
  // The mean's gradient by each loss; by other outputs it is zero.
  const auto count = static_cast<size_t>(steps_ * batch_);
  if (status) status = loss_gradient_.upload(std::vector<float>(count, 1.0F / count));
  std::vector<uint8_t> reset(count);
  std::fill_n(reset.begin(), batch_, uint8_t{1});
  if (status) status = reset_.upload(reset);
  initial_states_.assign(final_states_.begin(), final_states_.end());
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    if (signature.outputs[i].name == "loss") loss_ = i;
  }
  output_gradients_.assign(signature.outputs.size(), nullptr);
  output_gradients_[loss_] = loss_gradient_.get();
  return status;
}

Result<double> Trainer::forward(const std::vector<NamedArray>& params, const Piece& piece,
                                bool fresh) {
  Status status;
  for (size_t i = 0; status && i < params_.size(); ++i) {
    status = params_[i].upload(params[i].array, DType::f32);
  }
  for (size_t i = 0; status && i < inputs_.size(); ++i) {
    const bool is_target = program_->signature().inputs[i].name == "target";
    status = inputs_[i].upload(is_target ? piece.target : piece.x, DType::f32);
  }
  begins_ = fresh ? static_cast<const uint8_t*>(reset_.get()) : nullptr;
  if (status) {
    status = program_->forward({.steps = steps_,
                                .batch = batch_,
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
  const Result<Array> losses = outputs_[loss_].download(DType::f32, {steps_, batch_});
  if (!losses) return tl::unexpected(losses.error());
  double sum = 0;
  for (const double loss : losses->to_doubles()) sum += loss;
  return sum / static_cast<double>(steps_ * batch_);
}

Result<std::vector<NamedArray>> Trainer::backward() {
  Status status = program_->backward({.steps = steps_,
                                      .batch = batch_,
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
    Result<Array> gradient = gradients_[i].download(DType::f32, info.shape);
    if (!gradient) return tl::unexpected(gradient.error());
    gradients.push_back({info.name, *std::move(gradient)});
  }
  return gradients;
}

Result<std::vector<NamedArray>> Trainer::states() const {
  std::vector<NamedArray> states;
  for (size_t i = 0; i < states_.size(); ++i) {
    const ArrayInfo& info = program_->signature().states[i];
    Result<Array> state = states_[i].download(info.dtype, leading({batch_}, info));
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

}  // namespace train_charlm
