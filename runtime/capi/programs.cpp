// Programs and their calls.
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "passes/options/pass_set.h"
#include "runtime/capi/border.h"
#include "runtime/capi/handles.h"
#include "runtime/explain/explain_program.h"
#include "runtime/program/program.h"

using rnnc::ArrayInfo;
using rnnc::DType;
using rnnc::Program;
using rnnc::Result;
using rnnc::Signature;
using rnnc::Status;
using rnnc::capi::call;
using rnnc::capi::check_given;
using rnnc::capi::give;
using rnnc::capi::number_of;
using rnnc::capi::read_struct;
using rnnc::capi::write_struct;

namespace rnnc::capi {

Result<DimBindings> bindings_of(const rnnc_dim* dims, size_t count) {
  DimBindings bindings;
  if (count > 0 && dims == nullptr) return fail("`dims` is NULL, and there are {}", count);
  for (size_t i = 0; i < count; ++i) {
    if (dims[i].name == nullptr) return fail("the name of dim {} is NULL", i);
    if (!bindings.emplace(dims[i].name, dims[i].value).second) {
      return fail("dim `{}` is given twice", dims[i].name);
    }
  }
  return bindings;
}

namespace {

constexpr std::array kDTypes = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32};

rnnc_dtype to_c(DType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype);
  return static_cast<rnnc_dtype>(found - kDTypes.begin());
}

Result<CompileOptions> options_of(const rnnc_options* given, DimBindings dims) {
  CompileOptions options{.dims = std::move(dims)};
  if (given == nullptr) return options;
  rnnc_options own;
  if (Status status = read_struct(given, "options", own); !status) {
    return tl::unexpected(status.error());
  }
  const uint32_t dtype = number_of(own.dtype);
  if (dtype >= kDTypes.size() || kDTypes[dtype] == DType::i32)
    return fail("there is no dtype {}", dtype);
  options.dtype = kDTypes[dtype];
  if (own.device != nullptr) {
    const Result<Device> device = Device::parse(own.device);
    if (!device) return tl::unexpected(device.error());
    options.device = *device;
  }
  if (own.passes != nullptr) {
    const Result<PassSet> passes = PassSet::parse(own.passes);
    if (!passes) return tl::unexpected(passes.error());
    options.passes = *passes;
  }
  if (own.f32_params != 0) options.param_dtype = DType::f32;
  options.allow_tf32 = own.tf32 != 0;
  options.threads = own.threads;
  options.openmp = own.openmp != 0;
  options.reverse = own.reverse != 0;
  options.chunk = own.chunk;
  if (own.cache_directory != nullptr) options.cache_directory = own.cache_directory;
  options.tune = own.tune != 0;
  options.allocator = {own.allocate, own.release, own.context};
  options.spare_multiprocessors = own.spare_multiprocessors;
  return options;
}

Result<const std::vector<ArrayInfo>*> arrays_of(const Signature& signature, uint32_t role) {
  switch (role) {
    case RNNC_INPUT:
      return &signature.inputs;
    case RNNC_PARAM:
      return &signature.params;
    case RNNC_STATE:
      return &signature.states;
    case RNNC_OUTPUT:
      return &signature.outputs;
  }
  return fail("there is no role {}", role);
}

std::vector<bool> flags(const uint8_t* given, size_t count) {
  return given == nullptr ? std::vector<bool>() : std::vector<bool>(given, given + count);
}

/// A list of as many pointers as there are arrays, or none.
template <typename Pointer>
std::span<Pointer const> list(Pointer const* given, const std::vector<ArrayInfo>& arrays) {
  return given == nullptr ? std::span<Pointer const>() : std::span(given, arrays.size());
}

Result<TrainingOptions> training_of(const rnnc_shape& shape, const Signature& signature) {
  constexpr std::array kResiduals = {ResidualChoice::Auto, ResidualChoice::Least,
                                     ResidualChoice::All};
  const uint32_t residuals = number_of(shape.residuals);
  if (residuals >= kResiduals.size()) return fail("there is no choice {} of residuals", residuals);
  return TrainingOptions{
      .params = flags(shape.wanted_params, signature.params.size()),
      .inputs = flags(shape.wanted_inputs, signature.inputs.size()),
      .initial_states = flags(shape.wanted_initial_states, signature.states.size()),
      .given_states = flags(shape.given_states, signature.states.size()),
      .residuals = kResiduals[residuals],
      .outputs = shape.outputs != 0,
      .checkpoint = shape.checkpoint,
      .accumulate = shape.accumulate != 0};
}

SequenceFeatures features_of(const rnnc_shape& shape) {
  return {.lengths = shape.lengths != 0, .resets = shape.resets != 0};
}

Status prepare(Program& program, const rnnc_shape& shape) {
  if (shape.training == 0) return program.prepare(shape.batch, shape.steps, features_of(shape));
  const Result<TrainingOptions> training = training_of(shape, program.signature());
  if (!training) return tl::unexpected(training.error());
  return program.prepare_training(shape.batch, shape.steps, *training, features_of(shape));
}

/// `text_of(program, shape, form)` as C's text.
template <typename TextOf>
rnnc_status text_of_shape(rnnc_program* handle, const rnnc_shape* given, std::string_view name,
                          const char* form, rnnc_text** out, const TextOf& text_of) {
  return call([&] {
    return give(out, "text", [&]() -> Result<rnnc_text*> {
      const Status known = check_given({{handle, "program"}, {form, name}});
      if (!known) return tl::unexpected(known.error());
      rnnc_shape shape;
      const Status complete = read_struct(given, "shape", shape);
      if (!complete) return tl::unexpected(complete.error());
      Program& program = handle->program;
      explain::CallShape calls{shape.batch, shape.steps, features_of(shape)};
      if (shape.training != 0) {
        Result<TrainingOptions> training = training_of(shape, program.signature());
        if (!training) return tl::unexpected(training.error());
        calls.training = *std::move(training);
      }
      Result<std::string> text = text_of(program, calls, form);
      if (!text) return tl::unexpected(text.error());
      return new rnnc_text{*std::move(text)};
    });
  });
}

Result<rnnc_sizes> sizes_of(const Program& program, const rnnc_shape& shape) {
  if (shape.training == 0) {
    const Result<size_t> bytes =
        program.workspace_size(shape.batch, shape.steps, features_of(shape));
    if (!bytes) return tl::unexpected(bytes.error());
    return rnnc_sizes{.struct_size = sizeof(rnnc_sizes),
                      .forward_workspace = *bytes,
                      .backward_workspace = 0,
                      .zeros = 0,
                      .reserve = 0};
  }
  const Result<TrainingSizes> sizes =
      program.training_sizes(shape.batch, shape.steps, features_of(shape));
  if (!sizes) return tl::unexpected(sizes.error());
  return rnnc_sizes{.struct_size = sizeof(rnnc_sizes),
                    .forward_workspace = sizes->forward_workspace,
                    .backward_workspace = sizes->backward_workspace,
                    .zeros = sizes->zeros,
                    .reserve = sizes->reserve};
}

Result<rnnc_reserve_bound> bound_of(const Program& program, const rnnc_shape& shape) {
  const Result<TrainingOptions> training = training_of(shape, program.signature());
  if (!training) return tl::unexpected(training.error());
  const auto bound = program.reserve_bound(*training, features_of(shape));
  if (!bound) return tl::unexpected(bound.error());
  return rnnc_reserve_bound{.struct_size = sizeof(rnnc_reserve_bound),
                            .fixed = bound->fixed,
                            .per_step = bound->per_step,
                            .per_sequence = bound->per_sequence,
                            .per_row = bound->per_row};
}

Status forward(Program& program, const rnnc_forward_args& own) {
  const Signature& signature = program.signature();
  return program.forward({.steps = own.steps,
                          .batch = own.batch,
                          .inputs = list(own.inputs, signature.inputs),
                          .params = list(own.params, signature.params),
                          .outputs = list(own.outputs, signature.outputs),
                          .initial_states = list(own.initial_states, signature.states),
                          .final_states = list(own.final_states, signature.states),
                          .reuse_params = own.reuse_params != 0,
                          .workspace = own.workspace,
                          .workspace_bytes = own.workspace_bytes,
                          .stream = own.stream,
                          .lengths = own.lengths,
                          .reset = own.reset,
                          .reserve = own.reserve,
                          .reserve_bytes = own.reserve_bytes});
}

Status backward(Program& program, const rnnc_backward_args& own) {
  const Signature& signature = program.signature();
  return program.backward(
      {.steps = own.steps,
       .batch = own.batch,
       .inputs = list(own.inputs, signature.inputs),
       .params = list(own.params, signature.params),
       .outputs = list(own.outputs, signature.outputs),
       .output_gradients = list(own.output_gradients, signature.outputs),
       .final_state_gradients = list(own.final_state_gradients, signature.states),
       .param_gradients = list(own.param_gradients, signature.params),
       .input_gradients = list(own.input_gradients, signature.inputs),
       .initial_state_gradients = list(own.initial_state_gradients, signature.states),
       .reuse_params = own.reuse_params != 0,
       .workspace = own.workspace,
       .workspace_bytes = own.workspace_bytes,
       .stream = own.stream,
       .lengths = own.lengths,
       .reset = own.reset,
       .reserve = own.reserve,
       .reserve_bytes = own.reserve_bytes,
       .foreign_reserve = own.foreign_reserve != 0});
}

/// With a program and a struct of the caller's, complete.
template <typename Struct, typename Work>
rnnc_status with_struct(const rnnc_program* program, const Struct* given, std::string_view name,
                        const Work& work) {
  return call([&]() -> Status {
    if (Status status = check_given({{program, "program"}}); !status) return status;
    Struct own;
    if (Status status = read_struct(given, name, own); !status) return status;
    return work(own);
  });
}

}  // namespace
}  // namespace rnnc::capi

rnnc_status rnnc_program_compile(const rnnc_graph* graph, const rnnc_dim* dims, size_t count,
                                 const rnnc_options* options, rnnc_program** program) {
  return call([&] {
    return give(program, "program", [&]() -> Result<rnnc_program*> {
      const Status given = check_given({{graph, "graph"}});
      if (!given) return tl::unexpected(given.error());
      Result<rnnc::DimBindings> bindings = rnnc::capi::bindings_of(dims, count);
      if (!bindings) return tl::unexpected(bindings.error());
      const Result<rnnc::CompileOptions> own =
          rnnc::capi::options_of(options, *std::move(bindings));
      if (!own) return tl::unexpected(own.error());
      Result<Program> compiled = Program::compile(graph->graph, *own);
      if (!compiled) return tl::unexpected(compiled.error());
      return new rnnc_program{*std::move(compiled)};
    });
  });
}

void rnnc_program_free(rnnc_program* program) {
  delete program;
}

rnnc_status rnnc_program_count(const rnnc_program* program, rnnc_role role, size_t* count) {
  return call([&] {
    return give(count, "count", [&]() -> Result<size_t> {
      const Status given = check_given({{program, "program"}});
      if (!given) return tl::unexpected(given.error());
      const auto arrays = rnnc::capi::arrays_of(program->program.signature(), number_of(role));
      if (!arrays) return tl::unexpected(arrays.error());
      return (*arrays)->size();
    });
  });
}

rnnc_status rnnc_program_array(const rnnc_program* program, rnnc_role role, size_t index,
                               rnnc_array* array) {
  return call([&]() -> Status {
    if (Status given = check_given({{program, "program"}}); !given) return given;
    const auto arrays = rnnc::capi::arrays_of(program->program.signature(), number_of(role));
    if (!arrays) return tl::unexpected(arrays.error());
    if (index >= (*arrays)->size()) {
      return rnnc::fail("there is no array {}: the program has {} of this role", index,
                        (*arrays)->size());
    }
    const ArrayInfo& info = (**arrays)[index];
    return write_struct(array, "array",
                        {.struct_size = 0,
                         .name = info.name.c_str(),
                         .dtype = rnnc::capi::to_c(info.dtype),
                         .rank = static_cast<int32_t>(info.shape.size()),
                         .shape = info.shape.data()});
  });
}

rnnc_status rnnc_program_streams(const rnnc_program* program, int32_t* streams) {
  return call([&] {
    return give(streams, "streams", [&]() -> Result<int32_t> {
      const Status given = check_given({{program, "program"}});
      if (!given) return tl::unexpected(given.error());
      return program->program.signature().streams ? 1 : 0;
    });
  });
}

rnnc_status rnnc_program_prepare(rnnc_program* program, const rnnc_shape* shape) {
  return rnnc::capi::with_struct(program, shape, "shape", [&](const rnnc_shape& own) {
    return rnnc::capi::prepare(program->program, own);
  });
}

rnnc_status rnnc_program_sizes(rnnc_program* program, const rnnc_shape* shape, rnnc_sizes* sizes) {
  return rnnc::capi::with_struct(program, shape, "shape", [&](const rnnc_shape& own) -> Status {
    const Result<rnnc_sizes> found = rnnc::capi::sizes_of(program->program, own);
    if (found) return write_struct(sizes, "sizes", *found);
    const Status known = write_struct(sizes, "sizes", {});
    return known ? tl::unexpected(found.error()) : known;
  });
}

rnnc_status rnnc_program_forget(rnnc_program* program, const rnnc_shape* shape) {
  if (shape == nullptr) {
    return call([&]() -> Status {
      Status given = check_given({{program, "program"}});
      return given ? program->program.forget() : given;
    });
  }
  return rnnc::capi::with_struct(program, shape, "shape", [&](const rnnc_shape& own) {
    return program->program.forget(own.batch, rnnc::capi::features_of(own));
  });
}

rnnc_status rnnc_program_reserve_bound(rnnc_program* program, const rnnc_shape* shape,
                                       rnnc_reserve_bound* bound) {
  return rnnc::capi::with_struct(program, shape, "shape", [&](const rnnc_shape& own) -> Status {
    Status known = write_struct(bound, "bound", {});
    if (!known) return known;
    const auto found = rnnc::capi::bound_of(program->program, own);
    return found ? write_struct(bound, "bound", *found) : tl::unexpected(found.error());
  });
}

rnnc_status rnnc_program_notes(rnnc_program* program, rnnc_text** notes) {
  return call([&] {
    return give(notes, "notes", [&]() -> Result<rnnc_text*> {
      const Status given = check_given({{program, "program"}});
      if (!given) return tl::unexpected(given.error());
      std::string text;
      for (const std::string& note : program->program.notes()) text += note + "\n";
      return new rnnc_text{std::move(text)};
    });
  });
}

rnnc_status rnnc_program_explain(rnnc_program* program, const rnnc_shape* shape, const char* format,
                                 rnnc_text** text) {
  return rnnc::capi::text_of_shape(program, shape, "format", format, text,
                                   rnnc::explain::explain_program);
}

rnnc_status rnnc_program_emit(rnnc_program* program, const rnnc_shape* shape, const char* form,
                              rnnc_text** text) {
  return rnnc::capi::text_of_shape(program, shape, "form", form, text, rnnc::explain::emit_program);
}

rnnc_status rnnc_forward(rnnc_program* program, const rnnc_forward_args* args) {
  return rnnc::capi::with_struct(program, args, "args", [&](const rnnc_forward_args& own) {
    return rnnc::capi::forward(program->program, own);
  });
}

rnnc_status rnnc_backward(rnnc_program* program, const rnnc_backward_args* args) {
  return rnnc::capi::with_struct(program, args, "args", [&](const rnnc_backward_args& own) {
    return rnnc::capi::backward(program->program, own);
  });
}
