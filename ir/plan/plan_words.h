/// The words of a plan's text form, for who writes it and who reads it.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ir/plan/plan.h"

namespace rnnc {

template <typename T>
struct Word {
  T value;
  std::string_view text;  // with one space between several
};

inline constexpr Word<Placement> kPlacementWords[] = {{Placement::Caller, "caller"},
                                                      {Placement::Workspace, "workspace"},
                                                      {Placement::Program, "program"}};

inline constexpr Word<Role> kRoleWords[] = {{Role::Input, "input"},
                                            {Role::Param, "param"},
                                            {Role::Output, "output"},
                                            {Role::InitialState, "initial state"},
                                            {Role::FinalState, "final state"},
                                            {Role::Result, "result"},
                                            {Role::Temporary, "temporary"}};

inline constexpr Word<Extent> kExtentWords[] = {{Extent::Invariant, "invariant"},
                                                {Extent::Batch, "batch"},
                                                {Extent::Steps, "steps"},
                                                {Extent::Chunk, "chunk"}};

inline constexpr Word<Semiring> kSemiringWords[] = {
    {Semiring::SumProduct, "sum"}, {Semiring::MaxPlus, "max"}, {Semiring::MinPlus, "min"}};

inline constexpr Word<Domain> kDomainWords[] = {{Domain::Once, "once"},
                                                {Domain::Sequence, "sequence"},
                                                {Domain::Step, "step"},
                                                {Domain::Last, "last"}};

inline constexpr Word<RecurrenceClass> kRecurrenceWords[] = {
    {RecurrenceClass::None, "none"},
    {RecurrenceClass::Linear, "linear"},
    {RecurrenceClass::Elementwise, "elementwise"},
    {RecurrenceClass::Block, "block"},
    {RecurrenceClass::Dense, "dense"}};

/// The launches of a state, in their order.
struct StateLaunchWord {
  std::string_view text;
  ElementwiseLaunch StatePlan::* launch;
};
inline constexpr StateLaunchWord kStateLaunchWords[] = {{"given", &StatePlan::init_given},
                                                        {"declared", &StatePlan::init_declared},
                                                        {"final", &StatePlan::write_final},
                                                        {"hidden", &StatePlan::hide}};

inline constexpr Word<Hiding> kHidingWords[] = {
    {Hiding::None, ""}, {Hiding::Resets, "hiding"}, {Hiding::ReversedResets, "hiding in reverse"}};

/// The value's word; each value of an enum has one.
template <typename T, size_t size>
constexpr std::string_view word_of(const Word<T> (&words)[size], T value) {
  return std::ranges::find(words, value, &Word<T>::value)->text;
}

/// A name stands as it is up to one of the characters that follow it, or in quotes where that would
/// not be understood. A colon within a word (`W[3:7]`) is part of it.
bool is_plain(std::string_view name, std::string_view delimiters);
inline constexpr std::string_view kNameEnds = ":";        // of plans, buffers, kernels
inline constexpr std::string_view kStageNameEnds = "(:";  // likewise of stages
inline constexpr std::string_view kStateNameEnds = "(,:";

}  // namespace rnnc
