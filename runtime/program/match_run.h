/// The named arrays of a run, in a program's order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/arrays/match_arrays.h"
#include "runtime/arrays/run_args.h"
#include "runtime/arrays/signature.h"
#include "runtime/backend/options.h"

namespace rnnc {

/// How a run's arrays are run.
struct RunShape {
  int64_t steps = 0;  // T; 0: there was no run
  int64_t batch = 0;
  int64_t piece = 0;  // steps of a forward call, at most T
  SequenceFeatures features;
};

/// The arrays of one run, matched.
struct Matched {
  RunShape shape;
  std::vector<const Array*> inputs, params, initial_states;
};

/// `arrays` with the sizes in `leading` in front, those not known yet under their letters.
std::vector<ExpectedArray> expect(const std::vector<ArrayInfo>& arrays,
                                  std::vector<std::optional<int64_t>> leading);

/// All that is wrong with some arrays, behind what is wrong with others.
void append(std::vector<std::string>& problems, const ArrayMatch& match);

/// An error says all that is wrong with the arrays. `with_params`: all params must be there.
Result<Matched> match_run(const Signature& signature, const RunArgs& args, bool with_params);

}  // namespace rnnc
