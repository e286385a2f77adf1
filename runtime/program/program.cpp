#include "runtime/program/program.h"

#include <algorithm>
#include <map>

#include "runtime/backend/backend.h"
#include "runtime/backend/kernel_cache.h"
#include "runtime/base/call.h"
#include "runtime/base/describe.h"
#include "runtime/program/check_args.h"
#include "runtime/program/planner.h"
#include "runtime/program/prepared_shape.h"
#include "runtime/program/training.h"

namespace rnnc {
namespace {

constexpr std::string_view kMovedFrom = "this program was moved from: it has nothing to run";

template <typename Args>
SequenceFeatures features_of(const Args& args) {
  return {.lengths = args.lengths != nullptr, .resets = args.reset != nullptr};
}

PreparedPlan describe(const ChosenPlan& chosen) {
  const PlanChoice& choice = chosen.choice;
  return {&chosen.plan, choice.passes, choice.tile_rank, choice.spare_registers, choice.strategy};
}

}  // namespace

struct Program::Impl {
  /// Whose weights the last call ran on.
  struct Params {
    uint64_t count = 0;                 // of the calls that brought others than the one before
    std::vector<const void*> pointers;  // of the last

    /// Takes note of a call's.
    void bring(std::span<const void* const> given, bool promised) {
      if (count > 0 && promised && std::ranges::equal(given, pointers)) return;
      ++count;
      std::ranges::copy(given, pointers.begin());
    }
  };
  /// Which calls filled which reserves: as many as are kept at once, and more.
  class Reserves {
   public:
    void fill(const void* reserve, uint64_t training, int64_t steps) {
      last_ = (last_ + 1) % kMost;
      filled_[last_] = {reserve, training, steps};
    }
    bool holds(const void* reserve, uint64_t training, int64_t steps) const {
      for (size_t i = 0; i < kMost; ++i) {  // mostly the last
        const Filled& filled = filled_[(last_ + kMost - i) % kMost];
        if (filled.reserve != reserve) continue;
        return filled.training == training && filled.steps == steps;
      }
      return false;
    }

   private:
    struct Filled {
      const void* reserve = nullptr;
      uint64_t training = 0;
      int64_t steps = 0;
    };
    static constexpr size_t kMost = 4096;
    std::vector<Filled> filled_ = std::vector<Filled>(kMost);
    size_t last_ = 0;
  };
  template <typename Prepared>
  using Shapes = std::map<int64_t, std::map<SequenceFeatures, Prepared>>;  // by batch size

  Planner planner;
  const Signature& signature;
  KernelCache cache;
  std::unique_ptr<Backend> backend;  // before what it made, so that it goes last
  Shapes<PreparedShape> shapes;
  Shapes<PreparedTraining> trained;
  /// What others of their shapes took the place of, for captured CUDA graphs.
  Shapes<std::vector<PreparedShape>> replaced_shapes;
  Shapes<std::vector<PreparedTraining>> replaced_trained;
  Reserves reserves;
  Params params;
  CallState calls;

  explicit Impl(Planner made)
      : planner(std::move(made)),
        signature(planner.signature()),
        cache(planner.options().cache_directory, planner.options().cache_limit),
        params{.count = 0, .pointers = std::vector<const void*>(signature.params.size())} {}

  Result<const PreparedShape*> find(int64_t batch, int64_t steps, SequenceFeatures features) const;
  Result<const PreparedTraining*> find_training(int64_t batch, int64_t steps,
                                                SequenceFeatures features) const;
  Status check_args(const ForwardArgs& args, size_t workspace_bytes) const;
  Status prepare(const PlanShape& shape);
  Status prepare_training(const PlanShape& shape, const TrainingOptions& options);
  template <typename Prepared>
  void put(const PlanShape& shape, Prepared prepared, Shapes<Prepared>& all,
           Shapes<std::vector<Prepared>>& replaced);
  void forget(int64_t batch, SequenceFeatures features);
  void forget();
  Status forward(const ForwardArgs& args);
  Status train(const ForwardArgs& args);
  Status backward(const BackwardArgs& args);
  std::vector<std::string> notes() const;
};

Result<const PreparedShape*> Program::Impl::find(int64_t batch, int64_t steps,
                                                 SequenceFeatures features) const {
  if (Status status = planner.check_size(batch, steps); !status) {
    return tl::unexpected(status.error());
  }
  const auto missing = [&](std::string_view reason) {
    return fail_as(ErrorKind::NotPrepared, "batch {}{} is {}: prepare it for {} steps first", batch,
                   to_text(features), reason, steps);
  };
  const auto found = shapes.find(batch);
  if (found == shapes.end()) return missing("not prepared");
  const auto prepared = found->second.find(features);
  if (prepared == found->second.end()) return missing("not prepared");
  if (steps > prepared->second.max_steps) {
    return missing(
        fmt::format("prepared for up to {} steps, not {}", prepared->second.max_steps, steps));
  }
  return &prepared->second;
}

Result<const PreparedTraining*> Program::Impl::find_training(int64_t batch, int64_t steps,
                                                             SequenceFeatures features) const {
  if (Status status = planner.check_size(batch, steps); !status) {
    return tl::unexpected(status.error());
  }
  const auto missing = [&](std::string_view reason) {
    return fail_as(ErrorKind::NotPrepared,
                   "batch {}{} is {}: prepare training of {} steps of it first", batch,
                   to_text(features), reason, steps);
  };
  const auto found = trained.find(batch);
  if (found == trained.end()) return missing("not prepared for training");
  const auto prepared = found->second.find(features);
  if (prepared == found->second.end()) return missing("not prepared for training");
  if (steps <= prepared->second.max_steps()) return &prepared->second;
  return missing(fmt::format("prepared for training up to {} steps, not {}",
                             prepared->second.max_steps(), steps));
}

Status Program::Impl::check_args(const ForwardArgs& args, size_t workspace_bytes) const {
  const Status checks[] = {
      check_lengths(args.lengths),
      check_pointers("input", args.inputs, signature.inputs),
      check_pointers("param", args.params, signature.params),
      check_pointers("output", args.outputs, signature.outputs),
      check_count("initial states", args.initial_states.size(), signature.states.size()),
      check_count("final states", args.final_states.size(), signature.states.size()),
  };
  for (const Status& status : checks) {
    if (!status) return status;
  }
  const Status aligned[] = {
      check_alignment("input", args.inputs, signature.inputs),
      check_alignment("param", args.params, signature.params),
      check_alignment("output", args.outputs, signature.outputs),
      check_alignment("initial state", args.initial_states, signature.states),
      check_alignment("final state", args.final_states, signature.states),
  };
  for (const Status& status : aligned) {
    if (!status) return status;
  }
  if (planner.options().device.kind == Device::Kind::cpu) {
    const Status integers =
        check_integers(args.inputs, signature.inputs, args.steps, args.batch, args.lengths);
    if (!integers) return integers;
  }
  return check_workspace(args.workspace, args.workspace_bytes, workspace_bytes);
}

Status Program::Impl::prepare(const PlanShape& shape) {
  const auto& [batch, max_steps, features] = shape;
  if (Status status = planner.check_size(batch, max_steps); !status) return status;
  if (find(batch, max_steps, features)) return {};
  const Result<ShapePlanner> of_shape = planner.at(shape, backend->machine());
  if (!of_shape) return tl::unexpected(of_shape.error());
  Result<Plan> plan = of_shape->plan(planner.choice());
  if (!plan) return tl::unexpected(plan.error());
  auto& variants = shapes[batch];
  const auto known = variants.find(features);
  const bool same = known != variants.end() && known->second.chunk == plan->chunk;
  if (same && known->second.max_steps > 1) {
    known->second.max_steps = max_steps;
    return {};
  }
  Result<PreparedShape> prepared = prepare_shape(*of_shape, *std::move(plan), *backend, cache);
  if (!prepared) return tl::unexpected(prepared.error());
  put(shape, *std::move(prepared), shapes, replaced_shapes);
  return {};
}

Status Program::Impl::prepare_training(const PlanShape& shape, const TrainingOptions& options) {
  const auto& [batch, max_steps, features] = shape;
  if (Status status = planner.check_size(batch, max_steps); !status) return status;
  const Result<TrainingOptions> complete = planner.complete(options);
  if (!complete) return tl::unexpected(complete.error());
  const Result<const PreparedTraining*> known = find_training(batch, max_steps, features);
  if (known && (*known)->options() == *complete) return {};
  Result<PreparedTraining> prepared =
      PreparedTraining::make(planner, shape, *complete, *backend, cache);
  if (!prepared) return tl::unexpected(prepared.error());
  put(shape, *std::move(prepared), trained, replaced_trained);
  return {};
}

template <typename Prepared>
void Program::Impl::put(const PlanShape& shape, Prepared prepared, Shapes<Prepared>& all,
                        Shapes<std::vector<Prepared>>& replaced) {
  auto& variants = all[shape.batch];
  const auto known = variants.find(shape.features);
  if (known == variants.end()) {
    variants.emplace(shape.features, std::move(prepared));
    return;
  }
  std::swap(known->second, prepared);
  if (planner.options().device.kind == Device::Kind::cpu) return;  // there are no graphs
  replaced[shape.batch][shape.features].push_back(std::move(prepared));
}

void Program::Impl::forget(int64_t batch, SequenceFeatures features) {
  const auto erase = [&](auto& all) {
    const auto found = all.find(batch);
    if (found != all.end()) found->second.erase(features);
  };
  erase(shapes);
  erase(trained);
  erase(replaced_shapes);
  erase(replaced_trained);
}

void Program::Impl::forget() {
  shapes.clear();
  trained.clear();
  replaced_shapes.clear();
  replaced_trained.clear();
}

Status Program::Impl::forward(const ForwardArgs& args) {
  if (args.reserve != nullptr || args.reserve_bytes != 0) return train(args);
  const SequenceFeatures features = features_of(args);
  const Result<const PreparedShape*> found = find(args.batch, args.steps, features);
  if (!found) return tl::unexpected(found.error());
  const size_t workspace_bytes = (*found)->workspace_bytes(args.steps);
  if (Status status = check_args(args, workspace_bytes); !status) return status;
  const auto given = [&args](size_t state) {
    return !args.initial_states.empty() && args.initial_states[state] != nullptr;
  };
  if (Status status = check_given_histories(planner.graph(), given); !status) return status;
  PreparedShape& prepared = shapes.find(args.batch)->second.find(features)->second;
  choose_initial_states(planner.graph(), args.initial_states, prepared.initial_states);
  params.bring(args.params, args.reuse_params);
  return prepared.run(make_call(args, prepared.initial_states), params.count);
}

/// A forward call that fills a reserve.
Status Program::Impl::train(const ForwardArgs& args) {
  const SequenceFeatures features = features_of(args);
  const Result<const PreparedTraining*> found = find_training(args.batch, args.steps, features);
  if (!found) return tl::unexpected(found.error());
  const size_t workspace_bytes = (*found)->sizes(args.steps).forward_workspace;
  if (Status status = check_args(args, workspace_bytes); !status) return status;
  if (Status status = (*found)->check(args); !status) return status;
  PreparedTraining& training = trained.find(args.batch)->second.find(features)->second;
  params.bring(args.params, args.reuse_params);
  reserves.fill(args.reserve, 0, 0);
  Status status = training.forward(args, params.count);
  if (status) reserves.fill(args.reserve, training.id(), args.steps);
  return status;
}

Status Program::Impl::backward(const BackwardArgs& args) {
  const SequenceFeatures features = features_of(args);
  const Result<const PreparedTraining*> found = find_training(args.batch, args.steps, features);
  if (!found) return tl::unexpected(found.error());
  if (Status status = (*found)->check(args); !status) return status;
  PreparedTraining& training = trained.find(args.batch)->second.find(features)->second;
  if (!args.foreign_reserve && !reserves.holds(args.reserve, training.id(), args.steps)) {
    return fail(
        "no forward call of {} at batch {}{} has filled this reserve over {} steps since the shape "
        "was prepared for training",
        quote(signature.name), args.batch, to_text(features), args.steps);
  }
  params.bring(args.params, args.reuse_params);
  return training.backward(args, params.count);
}

std::vector<std::string> Program::Impl::notes() const {
  std::vector<std::string> notes;
  if (const Status usable = cache.check(); !usable) notes.push_back(usable.error().message);
  const auto add = [&](const std::string& note) {
    if (!note.empty() && std::ranges::count(notes, note) == 0) notes.push_back(note);
  };
  for (const auto& [batch, variants] : shapes) {
    for (const auto& [features, prepared] : variants) add(prepared.chosen.note);
  }
  for (const auto& [batch, variants] : trained) {
    for (const auto& [features, prepared] : variants) {
      add(prepared.forward_plan().note);
      add(prepared.backward_plan().note);
      for (const std::string& note : prepared.notes()) add(note);
    }
  }
  return notes;
}

Program::Program(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

Result<Program> Program::compile(const Graph& graph, const CompileOptions& options) {
  return without_exceptions("compile", graph.name, [&]() -> Result<Program> {
    Result<Planner> planner = Planner::make(graph, options);
    if (!planner) return tl::unexpected(planner.error());
    auto impl = std::make_shared<Impl>(*std::move(planner));
    Result<std::unique_ptr<Backend>> backend = make_backend(impl->planner.options(), impl->cache);
    if (!backend) return tl::unexpected(backend.error());
    impl->backend = std::move(*backend);
    return Program(std::move(impl));
  });
}

const Signature& Program::signature() const {
  static const Signature none;
  return impl_ == nullptr ? none : impl_->signature;
}
const CompileOptions& Program::options() const {
  static const CompileOptions none;
  return impl_ == nullptr ? none : impl_->planner.options();
}
const Planner* Program::planner() const {
  return impl_ == nullptr ? nullptr : &impl_->planner;
}
Backend& Program::backend() {
  return impl_ == nullptr ? no_backend() : *impl_->backend;
}

Status Program::prepare(int64_t batch, int64_t max_steps, SequenceFeatures features) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "prepare", impl_->signature.name,
                    [&] { return impl_->prepare({batch, max_steps, features}); });
}

std::vector<std::string> Program::notes() const {
  if (impl_ == nullptr) return {std::string(kMovedFrom)};
  const auto notes =
      call_alone(impl_->calls, "describe", impl_->signature.name,
                 [this]() -> Result<std::vector<std::string>> { return impl_->notes(); });
  return notes ? *notes : std::vector{notes.error().message};
}

Result<PreparedPlan> Program::prepared(int64_t batch, int64_t steps,
                                       SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "describe", impl_->signature.name, [&]() -> Result<PreparedPlan> {
    const Result<const PreparedShape*> prepared = impl_->find(batch, steps, features);
    if (!prepared) return tl::unexpected(prepared.error());
    return describe((*prepared)->chosen);
  });
}

Result<size_t> Program::workspace_size(int64_t batch, int64_t steps,
                                       SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "describe", impl_->signature.name, [&]() -> Result<size_t> {
    const Result<const PreparedShape*> prepared = impl_->find(batch, steps, features);
    if (!prepared) return tl::unexpected(prepared.error());
    return (*prepared)->workspace_bytes(steps);
  });
}

Status Program::prepare_training(int64_t batch, int64_t max_steps, const TrainingOptions& training,
                                 SequenceFeatures features) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "prepare", impl_->signature.name, [&] {
    return impl_->prepare_training({batch, max_steps, features}, training);
  });
}

Result<ReserveBound> Program::reserve_bound(const TrainingOptions& training,
                                            SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "describe", impl_->signature.name, [&]() -> Result<ReserveBound> {
    const Result<TrainingOptions> complete = impl_->planner.complete(training);
    if (!complete) return tl::unexpected(complete.error());
    return rnnc::reserve_bound(impl_->planner, features, *complete, impl_->backend->machine());
  });
}

Status Program::forget(int64_t batch, SequenceFeatures features) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "change", impl_->signature.name, [&]() -> Status {
    impl_->forget(batch, features);
    return {};
  });
}

Status Program::forget() {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "change", impl_->signature.name, [&]() -> Status {
    impl_->forget();
    return {};
  });
}

Result<TrainingSizes> Program::training_sizes(int64_t batch, int64_t steps,
                                              SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "describe", impl_->signature.name,
                    [&]() -> Result<TrainingSizes> {
                      const auto training = impl_->find_training(batch, steps, features);
                      if (!training) return tl::unexpected(training.error());
                      return (*training)->sizes(steps);
                    });
}

Result<TrainingPlans> Program::training_plans(int64_t batch, int64_t steps,
                                              SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "describe", impl_->signature.name,
                    [&]() -> Result<TrainingPlans> {
                      const auto training = impl_->find_training(batch, steps, features);
                      if (!training) return tl::unexpected(training.error());
                      return TrainingPlans{describe((*training)->forward_plan()),
                                           describe((*training)->backward_plan())};
                    });
}

Status Program::backward(const BackwardArgs& args) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "run", impl_->signature.name,
                    [&] { return impl_->backward(args); });
}

Status Program::forward(const ForwardArgs& args) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->calls, "run", impl_->signature.name,
                    [&] { return impl_->forward(args); });
}

}  // namespace rnnc
