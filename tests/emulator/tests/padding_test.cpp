// Programs whose products have padded rows, on the emulated GPU, whose memory is NaN until it is
// written: LSTMs of odd sizes in all types, streamed, with resident weights and without, in batches
// that the library multiplies step by step and in small ones.
#include <gtest/gtest.h>

#include "runtime/program/choose_plan.h"
#include "tests/gpu/graphs.h"
#include "tests/support/cells/networks.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {
namespace {

constexpr PassSet kByStep = PassSet::all().without(Pass::Resident);

struct Type {
  DType dtype;
  bool tf32;
  double tolerance;
};
constexpr Type kTypes[] = {{DType::f32, false, 2e-5},
                           {DType::f32, true, 1e-2},
                           {DType::bf16, false, 3e-2},
                           {DType::f16, false, 5e-3}};

CompileOptions options(const Type& type, PassSet passes) {
  return {.dtype = type.dtype,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .allow_tf32 = type.tf32,
          .chunk = 4,
          .passes = passes};
}

void check(const Graph& graph, int64_t batch, PassSet passes, std::span<const Type> types) {
  for (const Type& type : types) {
    SCOPED_TRACE(
        fmt::format("{}, batch {}, passes {}", to_string(type.dtype), batch, passes.to_string()));
    for (const SequenceFeatures features :
         {SequenceFeatures{}, SequenceFeatures{.lengths = true, .resets = true}}) {
      check_run(graph, options(type, passes), random_sequences(11, batch, features, true, 1),
                type.tolerance);
    }
  }
}

TEST(EmulatedPadding, ByStepInRnncsOwnKernels) {
  check(lstm_graph(33, 35), 3, kByStep, kTypes);
}

TEST(EmulatedPadding, ByStepInTheLibrary) {
  check(lstm_graph(33, 35), 34, kByStep.without(Pass::Epilogue), kTypes);
}

TEST(EmulatedPadding, BeforeResidentRecurrences) {
  check(lstm_graph(61, 33), 3, PassSet::all(), kTypes);
}

TEST(EmulatedPadding, InStacksAndBothDirections) {
  for (const char* name : {"Stack", "Both"}) {
    SCOPED_TRACE(name);
    check(network(name, 33), 3, PassSet::all(), std::span(kTypes).last(1));
    check(network(name, 33), 3, kByStep, std::span(kTypes).first(1));
  }
}

TEST(EmulatedPadding, PiecesGiveTheBitsOfOneRun) {
  check_pieces(network("Stack", 33), options(kTypes[3], kByStep), kTypes[3].tolerance);
}

}  // namespace
}  // namespace rnnc::test
