// Steps are in the order of their age, the newest first. Each sequence's turn by as many places as
// it has steps past its end, in place, by three reversals.
#include "runtime/cpu/turned_history.h"

#include <algorithm>

#include "ir/plan/state_steps.h"

namespace rnnc::cpu {
namespace {

struct Steps {
  std::byte* first = nullptr;  // of sequence 0: its newest
  int64_t bytes = 0;
  int64_t apart = 0;     // bytes from a step to the next older one
  int64_t sequence = 0;  // bytes from a sequence to the next
};

void reverse(const Steps& steps, std::byte* first, int64_t begin, int64_t end) {
  for (--end; begin < end; ++begin, --end) {
    std::byte* const newer = first + begin * steps.apart;
    std::swap_ranges(newer, newer + steps.bytes, first + end * steps.apart);
  }
}

/// The step that comes first then is as old as a sequence has steps past its end.
void turn(const PlainCall& of, const Steps& steps, int64_t count) {
  if (of.call.lengths == nullptr) return;
  for (int64_t b = 0; b < of.plan.batch; ++b) {
    const int64_t length = int64_t{of.call.lengths[b]} - of.call.piece.first_step;
    const int64_t past = of.call.steps - std::clamp<int64_t>(length, 0, of.call.steps);
    std::byte* const first = steps.first + b * steps.sequence;
    reverse(steps, first, 0, past % count);
    reverse(steps, first, past % count, count);
    reverse(steps, first, 0, count);
  }
}

int64_t element_bytes(const PlainCall& of, const Access& access) {
  return static_cast<int64_t>(size_of(of.plan.buffers[access.buffer].dtype));
}

}  // namespace

void turn_initial(const PlainCall& call, const StatePlan& state, Position position) {
  const Plan& plan = call.plan;
  if (!state.turns || !plan.descending) return;
  const StateTurn one = turn_of(plan, state, state.init_given);  // of the earliest step
  const int64_t length = plan.kernels[state.init_given.kernel].length;
  for (Access access : state.init_given.accesses) {
    const Buffer& buffer = plan.buffers[access.buffer];
    if (buffer.role == Role::InitialState) continue;
    const int64_t element = element_bytes(call, access);
    int64_t apart = one.apart * element;
    if (buffer.extent == Extent::Chunk) {
      access.delay = 2;
      std::byte* const older = call.addresses.locate(access, position);
      access.delay = 1;
      apart = older - call.addresses.locate(access, position);
    } else {
      access.column -= one.place * one.apart;  // as in the caller's array
    }
    std::byte* const newest = call.addresses.locate(access, position);
    turn(call, {newest, length * element, apart, access.stride * element}, one.steps);
  }
}

void turn_final(const PlainCall& call, const StatePlan& state) {
  const Plan& plan = call.plan;
  if (!state.turns || plan.descending) return;
  const StateTurn one = turn_of(plan, state, state.write_final);  // of the earliest step
  Access access = state.write_final.accesses[one.caller];
  access.column -= one.place * one.apart;
  const int64_t element = element_bytes(call, access);
  turn(call,
       {call.addresses.locate(access, {}), plan.kernels[state.write_final.kernel].length * element,
        one.apart * element, access.stride * element},
       one.steps);
}

}  // namespace rnnc::cpu
