#include "tests/api/training_calls.h"

#include <algorithm>
#include <functional>

namespace rnnc::test {
namespace {

std::vector<int64_t> with_rows(std::vector<int64_t> rows, const ArrayInfo& info) {
  rows.insert(rows.end(), info.shape.begin(), info.shape.end());
  return rows;
}

std::vector<bool> some_of(Random& random, size_t count) {
  std::vector<bool> some(count);
  for (size_t i = 0; i < count; ++i) some[i] = random.one_in(2);
  return some;
}

/// Those that are wanted, of lists that may be left empty.
std::vector<bool> complete(const std::vector<bool>& wanted, size_t count, bool otherwise) {
  return wanted.empty() ? std::vector<bool>(count, otherwise) : wanted;
}

/// An option list, now and then left to its default.
std::vector<bool> odd_list(Random& random, size_t count) {
  return some_of(random, random.one_in(3)   ? static_cast<size_t>(random.below(5))
                         : random.one_in(3) ? 0
                                            : count);
}

TrainingOptions right_options(Random& random, const Signature& signature) {
  constexpr ResidualChoice kChoices[] = {ResidualChoice::All, ResidualChoice::Least,
                                         ResidualChoice::Auto};
  TrainingOptions options;
  if (random.one_in(2)) options.params = some_of(random, signature.params.size());
  if (random.one_in(2)) options.inputs = some_of(random, signature.inputs.size());
  if (random.one_in(2)) options.given_states = some_of(random, signature.states.size());
  if (random.one_in(2)) options.initial_states = options.given_states;
  options.residuals = random.pick(kChoices);
  if (signature.streams && random.one_in(2)) options.checkpoint = random.below(5);
  options.outputs = random.one_in(2);
  options.accumulate = random.one_in(3);
  return options;
}

/// What no call should get as far as touching, aligned; odd addresses lie in it.
alignas(16) char nowhere[16];

/// A list of `count` pointers, or of none, with one less or more, or one that is null or points
/// between elements. `nulls`: none, and null, would be wrong. False: nothing is wrong with it.
template <typename Pointer>
bool spoil_list(Random& random, std::vector<Pointer*>& list, size_t count, bool nulls) {
  const int64_t way = list.empty() ? 0 : random.below(4);
  if (way == 0) {
    list.resize(list.size() + (list.size() + 1 == count ? 2 : 1), nullptr);
    return true;
  }
  if (way == 1) {
    list.pop_back();
    return nulls || !list.empty();
  }
  Pointer*& pointer = random.pick(list);
  if (way == 2) {
    pointer = nullptr;
    return nulls;
  }
  pointer = nowhere + 3;
  return true;
}

/// A list of gradients that are wanted or not.
bool spoil_wanted(Random& random, std::vector<void*>& list) {
  if (list.empty() || random.one_in(3)) {
    list.push_back(nullptr);
    return true;
  }
  void*& pointer = random.pick(list);
  pointer = pointer != nullptr ? nullptr : static_cast<void*>(nowhere);
  return true;
}

bool spoil_sizes(Random& random, TrainingCall& call) {
  constexpr int64_t kSteps[] = {-1, 0, int64_t{1} << 40, INT64_MAX};
  (random.one_in(2) ? call.steps : call.batch) = random.pick(kSteps);
  return true;
}

bool spoil_reserve(Random& random, TrainingCall& call) {
  if (call.sizes.reserve == 0) return false;
  if (random.one_in(2)) {
    call.reserve_pointer = nullptr;
  } else {
    call.reserve_bytes = call.sizes.reserve - 1;
  }
  return true;
}

bool spoil_lengths(TrainingCall& call) {
  if (call.lengths_pointer == nullptr) return false;
  call.lengths_pointer = reinterpret_cast<const int32_t*>(nowhere + 6);
  return true;
}

/// Given, but not what the shape was prepared for, or the other way round.
bool spoil_initial_states(Random& random, TrainingCall& call) {
  if (call.initial_states.empty()) return spoil_list(random, call.initial_states, 0, false);
  const void*& state = random.pick(call.initial_states);
  state = state != nullptr ? nullptr : static_cast<const void*>(nowhere);
  return true;
}

bool spoil_forward(Random& random, const Signature& signature, TrainingCall& call) {
  switch (random.below(9)) {
    case 0:
      return spoil_sizes(random, call);
    case 1:
      return spoil_list(random, call.inputs, signature.inputs.size(), true);
    case 2:
      return spoil_list(random, call.params, signature.params.size(), true);
    case 3:
      return spoil_list(random, call.outputs, signature.outputs.size(), true);
    case 4:
      return spoil_list(random, call.final_states, signature.states.size(), false);
    case 5:
      return spoil_initial_states(random, call);
    case 6:
      return spoil_reserve(random, call);
    case 7:
      if (call.sizes.forward_workspace == 0) return false;
      call.workspace_bytes = call.sizes.forward_workspace - 1;
      return true;
    default:
      return spoil_lengths(call);
  }
}

bool spoil_backward(Random& random, const Signature& signature, TrainingCall& call) {
  switch (random.below(12)) {
    case 0:
      return spoil_sizes(random, call);
    case 1:
      return spoil_list(random, call.inputs, signature.inputs.size(), true);
    case 2:
      return spoil_list(random, call.params, signature.params.size(), true);
    case 3:
      return spoil_list(random, call.output_gradients, signature.outputs.size(), false);
    case 4:
      return spoil_list(random, call.final_gradients, signature.states.size(), false);
    case 5:
      return spoil_wanted(random, call.param_gradients);
    case 6:
      return spoil_wanted(random, call.input_gradients);
    case 7:
      return spoil_wanted(random, call.initial_gradients);
    case 8:
      return spoil_reserve(random, call);
    case 9:
      if (call.sizes.backward_workspace == 0) return false;
      call.workspace_bytes = call.sizes.backward_workspace - 1;
      return true;
    case 10:
      if (!call.options.outputs || call.options.checkpoint > 0) return false;
      return spoil_list(random, call.outputs, signature.outputs.size(), true);
    default:
      return spoil_lengths(call);
  }
}

/// That a call which must be refused is, in words, and writes nothing.
Status check_refused(const char* what, const TrainingCall& call,
                     const std::function<Status()>& make) {
  const std::vector<std::byte> before = call.written();
  const std::vector<char> reserve = call.reserve;
  const Status status = make();
  if (status) return fail("{} was not refused", what);
  if (status.error().message.empty()) return fail("{}: an error without words", what);
  const bool same = call.written() == before && call.reserve == reserve;
  return same ? Status() : fail("{} was refused, but wrote", what);
}

}  // namespace

TrainingCall::TrainingCall(Random& random, const Signature& signature)
    : steps(1 + random.below(6)),
      batch(1 + random.below(3)),
      max_steps(steps + random.below(3)),
      features{random.one_in(4), random.one_in(4)},
      options(right_options(random, signature)) {
  const std::vector<int64_t> rows = {steps, batch};
  const auto make = [&](const std::vector<ArrayInfo>& infos, const std::vector<int64_t>& leading,
                        std::vector<Array>& arrays, auto& pointers,
                        const std::function<bool(size_t)>& wanted) {
    for (size_t i = 0; i < infos.size(); ++i) {
      arrays.push_back(array_of(random, with_rows(leading, infos[i]), infos[i].dtype));
      // What vectors hold stays where it is when the arrays themselves move.
      pointers.push_back(wanted(i) ? arrays.back().data.data() : nullptr);
    }
  };
  const auto all = [](size_t) { return true; };
  const auto any = [&](size_t) { return random.one_in(2); };
  const auto in = [](const std::vector<bool>& list) {
    return [&list](size_t i) { return list[i]; };
  };
  const std::vector<bool> given = complete(options.given_states, signature.states.size(), false);
  const std::vector<bool> of_params = complete(options.params, signature.params.size(), true);
  const std::vector<bool> of_inputs = complete(options.inputs, signature.inputs.size(), false);
  const std::vector<bool> of_initial =
      complete(options.initial_states, signature.states.size(), false);
  make(signature.inputs, rows, read, inputs, all);
  make(signature.params, {}, read, params, all);
  make(signature.states, {batch}, read, initial_states, in(given));
  make(signature.outputs, rows, read, output_gradients, any);
  make(signature.states, {batch}, read, final_gradients, any);
  make(signature.outputs, rows, results, outputs, all);
  make(signature.states, {batch}, results, final_states, any);
  make(signature.params, {}, results, param_gradients, in(of_params));
  make(signature.inputs, rows, results, input_gradients, in(of_inputs));
  make(signature.states, {batch}, results, initial_gradients, in(of_initial));
  if (random.one_in(4)) output_gradients.clear();
  if (random.one_in(4)) final_gradients.clear();
  if (random.one_in(4)) final_states.clear();
  results_before = results;
  for (int64_t b = 0; b < batch; ++b) {
    lengths.push_back(static_cast<int32_t>(random.one_in(4) ? random.number(9) : steps));
  }
  for (int64_t i = 0; i < steps * batch; ++i) reset.push_back(random.one_in(4) ? 1 : 0);
  if (features.lengths) lengths_pointer = lengths.data();
}

Status TrainingCall::prepare(Program& program, bool anew) {
  TrainingOptions others = options;
  others.accumulate = !options.accumulate;
  Status status;
  if (anew) status = program.prepare_training(batch, max_steps, others, features);
  if (status) status = program.prepare_training(batch, max_steps, options, features);
  if (!status) return status;
  const Result<TrainingSizes> needed = program.training_sizes(batch, steps, features);
  if (!needed) return tl::unexpected(needed.error());
  sizes = *needed;
  workspace.assign(std::max(sizes.forward_workspace, sizes.backward_workspace + sizes.zeros), 1);
  reserve.assign(std::max(sizes.reserve, size_t{1}), 1);
  workspace_bytes = workspace.size();
  reserve_pointer = reserve.data();
  reserve_bytes = reserve.size();
  return {};
}

Status TrainingCall::run(Program& program) {
  restore();
  Status status = program.forward(forward());
  return status ? program.backward(backward()) : status;
}

ForwardArgs TrainingCall::forward() {
  return {.steps = steps,
          .batch = batch,
          .inputs = inputs,
          .params = params,
          .outputs = outputs,
          .initial_states = initial_states,
          .final_states = final_states,
          .workspace = workspace.data(),
          .workspace_bytes = workspace_bytes,
          .lengths = lengths_pointer,
          .reset = features.resets ? reset.data() : nullptr,
          .reserve = reserve_pointer,
          .reserve_bytes = reserve_bytes};
}

BackwardArgs TrainingCall::backward() {
  return {.steps = steps,
          .batch = batch,
          .inputs = inputs,
          .params = params,
          .outputs = outputs,
          .output_gradients = output_gradients,
          .final_state_gradients = final_gradients,
          .param_gradients = param_gradients,
          .input_gradients = input_gradients,
          .initial_state_gradients = initial_gradients,
          .workspace = workspace.data(),
          .workspace_bytes = workspace_bytes,
          .lengths = lengths_pointer,
          .reset = features.resets ? reset.data() : nullptr,
          .reserve = reserve_pointer,
          .reserve_bytes = reserve_bytes};
}

std::vector<std::byte> TrainingCall::written() const {
  std::vector<std::byte> bytes;
  for (const Array& array : results) {
    bytes.insert(bytes.end(), array.data.begin(), array.data.end());
  }
  return bytes;
}

/// Into the same memory, which the lists point to.
void TrainingCall::restore() {
  for (size_t i = 0; i < results.size(); ++i) {
    std::ranges::copy(results_before[i].data, results[i].data.begin());
  }
}

Status TrainingCalls::call(Program& program) {
  switch (random_.below(6)) {
    case 0:
      return prepare_oddly(program);
    case 1:
      return query(program);
    case 2:
      return call_forward_wrongly(program);
    case 3:
      return call_backward_wrongly(program);
    case 4:
      return call_in_wrong_order(program);
    default:
      return compare(program);
  }
}

Status TrainingCalls::prepare_oddly(Program& program) {
  const Signature& signature = program.signature();
  TrainingOptions options{.params = odd_list(random_, signature.params.size()),
                          .inputs = odd_list(random_, signature.inputs.size()),
                          .initial_states = odd_list(random_, signature.states.size()),
                          .given_states = odd_list(random_, signature.states.size()),
                          .outputs = random_.one_in(2),
                          .checkpoint = random_.one_in(3) ? random_.number(4) : 0,
                          .accumulate = random_.one_in(2)};
  const int64_t batch = random_.size(4), steps = random_.size(8);
  const SequenceFeatures features{random_.one_in(4), random_.one_in(4)};
  const Status status = program.prepare_training(batch, steps, options, features);
  const auto wrong = [](const std::vector<bool>& list, size_t count) {
    return !list.empty() && list.size() != count;
  };
  bool refused = batch < 1 || steps < 1 || options.checkpoint < 0 ||
                 (options.checkpoint > 0 && !signature.streams) ||
                 wrong(options.params, signature.params.size()) ||
                 wrong(options.inputs, signature.inputs.size()) ||
                 wrong(options.initial_states, signature.states.size()) ||
                 wrong(options.given_states, signature.states.size());
  if (!refused) {
    const std::vector<bool> given = complete(options.given_states, signature.states.size(), false);
    const std::vector<bool> of = complete(options.initial_states, signature.states.size(), false);
    for (size_t i = 0; i < of.size(); ++i) refused = refused || (of[i] && !given[i]);
  }
  if (status && refused) return fail("odd options of training were not refused");
  if (!status && status.error().message.empty()) return fail("an error without words");
  const Result<TrainingSizes> sizes = program.training_sizes(batch, steps, features);
  if (status && !sizes) return fail("a shape that was prepared has no sizes");
  const Result<ReserveBound> bound = program.reserve_bound(options, features);
  if (!bound && bound.error().message.empty()) return fail("an error without words");
  if (status && !bound) return fail("a shape that was prepared has no bound of its reserve");
  if (status && sizes->reserve > bound->at(batch, steps)) return fail("a reserve passes its bound");
  return {};
}

Status TrainingCalls::query(Program& program) {
  const int64_t batch = random_.size(4), steps = random_.size(8);
  const SequenceFeatures features{random_.one_in(4), random_.one_in(4)};
  const Result<TrainingSizes> sizes = program.training_sizes(batch, steps, features);
  const Result<TrainingPlans> plans = program.training_plans(batch, steps, features);
  if (sizes.has_value() != plans.has_value()) return fail("sizes without plans");
  if (!plans) return plans.error().message.empty() ? fail("an error without words") : Status();
  return plans->forward.plan != nullptr && plans->backward.plan != nullptr
             ? Status()
             : fail("a shape without plans");
}

/// One of its own, so that nobody has called it wrongly.
Result<Program*> TrainingCalls::other_program() {
  if (!other_) {
    Result<Program> made = Program::compile(graph_, options_);
    if (!made) return tl::unexpected(made.error());
    other_ = *std::move(made);
  }
  return &*other_;
}

/// A right call gives what it gives in another program, and gives it twice.
Status TrainingCalls::compare(Program& program) {
  const Result<Program*> other = other_program();
  if (!other) return tl::unexpected(other.error());
  TrainingCall call(random_, program.signature());
  Status status = call.prepare(**other, true);
  if (status) status = call.run(**other);
  if (!status) return fail("a right training call: {}", status.error().message);
  const std::vector<std::byte> expected = call.written();
  status = call.prepare(program, true);
  if (status) status = call.run(program);
  if (!status) return fail("a right training call after wrong ones: {}", status.error().message);
  if (call.written() != expected) return fail("a right training call gave other bits");
  if (call.options.accumulate) return {};
  status = program.backward(call.backward());
  if (!status) return fail("a second backward call: {}", status.error().message);
  return call.written() == expected ? Status() : fail("a second backward call gave other bits");
}

Status TrainingCalls::call_forward_wrongly(Program& program) {
  TrainingCall call(random_, program.signature());
  if (Status status = call.prepare(program, false); !status) return status;
  if (!spoil_forward(random_, program.signature(), call)) return {};
  return check_refused("a wrong forward call", call,
                       [&] { return program.forward(call.forward()); });
}

/// Then the right one gives what it would have given.
Status TrainingCalls::call_backward_wrongly(Program& program) {
  TrainingCall call(random_, program.signature());
  Status status = call.prepare(program, false);
  if (status) status = call.run(program);
  if (!status) return fail("a right training call: {}", status.error().message);
  const std::vector<std::byte> expected = call.written();
  call.restore();
  status = program.forward(call.forward());
  for (int64_t times = 1 + random_.below(3); status && times > 0; --times) {
    TrainingCall wrong = call;  // whose lists point to the call's memory
    if (!spoil_backward(random_, program.signature(), wrong)) continue;
    status = check_refused("a wrong backward call", call,
                           [&] { return program.backward(wrong.backward()); });
  }
  if (status) status = program.backward(call.backward());
  if (!status) return status;
  return call.written() == expected ? Status()
                                    : fail("a right backward call after wrong ones: other bits");
}

/// Reserves that no forward call filled, or one of another program, over other steps, or before the
/// shape was prepared anew.
Status TrainingCalls::call_in_wrong_order(Program& program) {
  TrainingCall call(random_, program.signature());
  if (Status status = call.prepare(program, true); !status) return status;
  const auto refused = [&](const char* what) {
    return check_refused(what, call, [&] { return program.backward(call.backward()); });
  };
  switch (random_.below(4)) {
    case 0:
      return refused("a backward call before any forward call");
    case 1: {
      const Result<Program*> other = other_program();
      if (!other) return tl::unexpected(other.error());
      TrainingCall theirs = call;
      Status status = theirs.prepare(**other, false);
      if (status) status = theirs.run(**other);
      call.reserve_pointer = theirs.reserve_pointer;
      return status ? refused("a backward call with another program's reserve") : status;
    }
    case 2: {
      if (call.steps == 1) return {};
      Status status = program.forward(call.forward());
      --call.steps;
      return status ? refused("a backward call over other steps than the forward call") : status;
    }
    default: {
      Status status = program.forward(call.forward());
      if (status) status = call.prepare(program, true);
      return status ? refused("a backward call after preparing anew") : status;
    }
  }
}

}  // namespace rnnc::test
