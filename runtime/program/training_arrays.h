/// The arrays of a `Runner` that trains.
#pragma once

#include <vector>

#include "runtime/backend/backward_args.h"
#include "runtime/backend/launch_times.h"
#include "runtime/program/device_arrays.h"
#include "runtime/program/training_options.h"

namespace rnnc {

/// What a training run has besides a forward one's.
struct TrainingArrays {
  std::vector<DeviceArray> outputs, final_states;           // gradients of a loss
  std::vector<DeviceArray> params, inputs, initial_states;  // their gradients
  DeviceArray reserve;
  TrainingOptions options;
  BackwardArgs args;
  std::vector<const void*> output_pointers, final_pointers;  // null where zero
  std::vector<void*> param_pointers, input_pointers, initial_pointers;
  LaunchTimes* times = nullptr;  // of the backward call

  TrainingArrays(Backend& backend, const Signature& signature)
      : outputs(make_arrays(backend, signature.outputs.size())),
        final_states(make_arrays(backend, signature.states.size())),
        params(make_arrays(backend, signature.params.size())),
        inputs(make_arrays(backend, signature.inputs.size())),
        initial_states(make_arrays(backend, signature.states.size())),
        reserve(backend) {}
};

}  // namespace rnnc
