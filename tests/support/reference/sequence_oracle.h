/// What lengths and resets mean, said with plain runs of the interpreter: every sequence by itself,
/// and every segment between resets as a sequence of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/interpreter.h"

namespace rnnc {

/// Runs a bound Graph as its source says it, without masks (passes/graph/sequence_features.h), on
/// sequences of these lengths ([B], within 0 to T; empty: all are T), begun anew where `resets`
/// ([T, B], empty: never) is not zero.
///
/// The first segment starts from the given initial states unless it begins with a reset, the others
/// from the declared ones. A layer in reverse meets the last segment first: that one gets its given
/// states. Outputs past a sequence's end are zero, final states those at its own end.
InterpreterResult interpret_sequences(const Graph& graph, const InterpreterArgs& args,
                                      const std::vector<int64_t>& lengths,
                                      const std::vector<uint8_t>& resets);

}  // namespace rnnc
