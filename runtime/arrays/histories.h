/// Histories among given states (docs/language.md, "Streaming").
#pragma once

#include <vector>

#include "runtime/arrays/array.h"
#include "runtime/arrays/signature.h"

namespace rnnc {

/// What values of single steps, `h@2` and so on, are where `states` has them as one, `h@history`
/// [B, steps, ...] with the earliest first; other arrays, and sets of them with gaps, as they are.
/// Headers without data give headers.
std::vector<NamedArray> join_histories(const std::vector<ArrayInfo>& states,
                                       std::vector<NamedArray> given);

/// Adds the histories of states that are given without: at all earlier steps, the state itself.
std::vector<NamedArray> fill_histories(const std::vector<ArrayInfo>& states,
                                       std::vector<NamedArray> given);

}  // namespace rnnc
