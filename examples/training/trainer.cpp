#include "examples/training/trainer.h"

#include <algorithm>
#include <cmath>

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

/// Pieces that begin with the declared initial states while others go on: a plan of its own, so
/// that the others pay nothing.
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

/// In the other's type.
Status copy_by_host(const ArrayRows& from, ArrayRows& to) {
  const Result<std::vector<NamedArray>> arrays = from.download();
  return arrays ? to.upload(*arrays) : tl::unexpected(arrays.error());
}

}  // namespace

Array as_input(const Array& array, const ArrayInfo& input) {
  if (array.dtype != DType::i32 || input.shape.empty()) return array;
  const int64_t width = input.shape[0];
  Array ones = Array::zeros(DType::f32, leading(array.shape, input));
  const auto* numbers = reinterpret_cast<const int32_t*>(array.data.data());
  auto* values = reinterpret_cast<float*>(ones.data.data());
  for (int64_t i = 0; i < array.elements(); ++i) values[i * width + numbers[i]] = 1;
  return ones;
}

Trainer::Trainer(rnnc::Program& program, const PieceShape& shape, AdamW adamw)
    : program_(&program),
      shape_(shape),
      adamw_(std::move(adamw)),
      params_{{program.backend(), adamw_.mean().infos()},
              {program.backend(), adamw_.mean().infos()}},
      gradients_(program.backend(), adamw_.mean().infos()),
      rounded_params_(program.backend(), program.signature().params),
      rounded_gradients_(program.backend(), program.signature().params),
      loss_gradient_(program.backend()),
      workspace_(program.backend()),
      reserve_(program.backend()),
      reset_(program.backend()) {}

Result<Trainer> Trainer::make(rnnc::Program& program, const PieceShape& shape,
                              const AdamWOptions& options) {
  std::vector<ArrayInfo> params = program.signature().params;
  bool is_rounded = false;
  for (ArrayInfo& param : params) {
    is_rounded |= rnnc::size_of(param.dtype) == 2;
    param.dtype = rnnc::compute_type(param.dtype);
  }
  Result<AdamW> adamw = AdamW::make(options, program.options(), params);
  if (!adamw) return tl::unexpected(adamw.error());
  Trainer trainer(program, shape, *std::move(adamw));
  trainer.is_rounded_ = is_rounded;
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
  if (status) status = params_[0].allocate();
  if (status) status = params_[1].allocate();
  if (status) status = gradients_.allocate();
  if (status && is_rounded_) status = rounded_params_.allocate();
  if (status && is_rounded_) status = rounded_gradients_.allocate();
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

Status Trainer::load_inputs(const Piece& piece) {
  const std::vector<ArrayInfo>& inputs = program_->signature().inputs;
  Status status;
  for (size_t i = 0; status && i < inputs.size(); ++i) {
    const Array& array = inputs[i].name == "target" ? piece.target : piece.x;
    status = inputs_[i].upload(as_input(array, inputs[i]), inputs[i].dtype);
  }
  return status;
}

/// Both halves, of which the losses and the gradients are left.
Status Trainer::run(bool fresh) {
  const bool resets = shape_.go_on && fresh;
  const uint8_t* begins = resets ? static_cast<const uint8_t*>(reset_.get()) : nullptr;
  const std::vector<void*> params = (is_rounded_ ? rounded_params_ : params_[current_]).pointers();
  const std::vector<const void*> param_pointers(params.begin(), params.end());
  Status status = program_->forward({.steps = shape_.steps,
                                     .batch = shape_.batch,
                                     .inputs = input_pointers_,
                                     .params = param_pointers,
                                     .outputs = output_pointers_,
                                     .initial_states = initial_states_,
                                     .final_states = final_states_,
                                     .workspace = workspace_.get(),
                                     .workspace_bytes = workspace_bytes_,
                                     .reset = begins,
                                     .reserve = reserve_.get(),
                                     .reserve_bytes = reserve_bytes_});
  if (!status) return status;
  const std::vector<void*> gradients = (is_rounded_ ? rounded_gradients_ : gradients_).pointers();
  return program_->backward({.steps = shape_.steps,
                             .batch = shape_.batch,
                             .inputs = input_pointers_,
                             .params = param_pointers,
                             .output_gradients = output_gradients_,
                             .param_gradients = gradients,
                             .reuse_params = true,
                             .workspace = workspace_.get(),
                             .workspace_bytes = workspace_bytes_,
                             .reset = begins,
                             .reserve = reserve_.get(),
                             .reserve_bytes = reserve_bytes_});
}

Result<double> Trainer::mean_loss() const {
  if (Status status = program_->backend().synchronize(nullptr); !status) {
    return tl::unexpected(status.error());
  }
  const Result<Array> losses = outputs_[loss_].download(program_->signature().outputs[loss_].dtype,
                                                        {shape_.steps, shape_.batch});
  if (!losses) return tl::unexpected(losses.error());
  const std::vector<double> all = losses->to_doubles();
  double sum = 0;
  for (auto loss = all.begin() + first_counted(); loss != all.end(); ++loss) sum += *loss;
  return sum / static_cast<double>(shape_.steps * shape_.batch - first_counted());
}

Result<double> Trainer::update(const Piece& piece) {
  Status status = load_inputs(piece);
  if (status && is_rounded_) status = copy_by_host(params_[current_], rounded_params_);
  if (status) status = run(piece.fresh);
  if (!status) return tl::unexpected(status.error());
  Result<double> loss = mean_loss();
  if (!loss || !std::isfinite(*loss)) return loss;
  if (is_rounded_) status = copy_by_host(rounded_gradients_, gradients_);
  const size_t next = 1 - current_;
  if (status) {
    status = adamw_.update(params_[current_], gradients_, loss_scale_, params_[next]);
  }
  if (!status) return tl::unexpected(status.error());
  current_ = next;
  return loss;
}

Status Trainer::load(const Trained& trained) {
  Status status;
  const auto load_rows = [&](ArrayRows& rows, const std::vector<NamedArray>& arrays) {
    if (status && !arrays.empty()) status = rows.upload(arrays);
  };
  load_rows(params_[current_], trained.params);
  load_rows(adamw_.mean(), trained.mean);
  load_rows(adamw_.variance(), trained.variance);
  for (size_t i = 0; status && i < trained.states.size(); ++i) {
    status = states_[i].upload(trained.states[i].array, program_->signature().states[i].dtype);
  }
  adamw_.steps() = trained.step;
  return status;
}

Result<Trained> Trainer::trained() {
  Trained trained;
  trained.step = adamw_.steps();
  for (const auto& [rows, arrays] :
       {std::pair{&params_[current_], &trained.params}, std::pair{&adamw_.mean(), &trained.mean},
        std::pair{&adamw_.variance(), &trained.variance}}) {
    Result<std::vector<NamedArray>> downloaded = rows->download();
    if (!downloaded) return tl::unexpected(downloaded.error());
    *arrays = *std::move(downloaded);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    const ArrayInfo& info = program_->signature().states[i];
    Result<Array> state = states_[i].download(info.dtype, leading({shape_.batch}, info));
    if (!state) return tl::unexpected(state.error());
    trained.states.push_back({info.name, *std::move(state)});
  }
  return trained;
}

}  // namespace training
