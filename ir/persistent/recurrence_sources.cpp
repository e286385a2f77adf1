#include "ir/persistent/recurrence_sources.h"

#include "ir/persistent/recurrence_gathers.h"

namespace rnnc {
namespace {

class SourceFinder {
 public:
  SourceFinder(const Plan& plan, std::span<const FusedLaunch> phases, const RecurrenceSide& side)
      : plan_(plan), phases_(phases), side_(side) {
    for (size_t p = side.begin; p < side.end; ++p) {
      const std::vector<Kernel::Argument>& arguments = kernel_of(p).arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        const Access& access = phases[p].accesses[i];
        if (!arguments[i].written) continue;
        stored_.emplace(RecurrencePlace(access.buffer, access.column), p - side.begin);
      }
    }
  }

  RecurrenceSources run() {
    for (size_t p = side_.begin; p < side_.end; ++p) {
      std::vector<RecurrenceSource>& sources = result_.sources.emplace_back();
      for (uint32_t i = 0; i < kernel_of(p).arguments.size(); ++i) {
        sources.push_back(source_of(p, i));
      }
    }
    return std::move(result_);
  }

 private:
  const Kernel& kernel_of(size_t p) const { return plan_.kernels[phases_[p].kernel]; }

  RecurrenceSource source_of(size_t p, uint32_t i) {
    const Kernel::Argument& argument = kernel_of(p).arguments[i];
    const Access& access = phases_[p].accesses[i];
    if (argument.product) return RecurrenceSource::Product;
    if (is_gathered(plan_, phases_, p, i)) return RecurrenceSource::Gather;
    const RecurrencePlace place(access.buffer, access.column);
    const auto found = stored_.find(place);
    if (argument.written || found == stored_.end() || access.delay > 1) {
      const bool is_fixed = plan_.buffers[access.buffer].extent == Extent::Invariant;
      return is_fixed ? RecurrenceSource::Invariant : RecurrenceSource::Memory;
    }
    const size_t phase = p - side_.begin;
    const bool is_stored_earlier = found->second < phase;  // in the same step
    const bool before = access.delay == 1 && is_stored_earlier;
    RecurrenceCarry& carry = result_.carries[place];
    carry.phase = found->second;
    carry.before = carry.before || before;
    if (access.delay > 0 || !is_stored_earlier) {
      carry.initial = true;
      carry.initial_phase = phase;
      carry.initial_argument = i;
    }
    return before ? RecurrenceSource::Before : RecurrenceSource::Last;
  }

  const Plan& plan_;
  std::span<const FusedLaunch> phases_;
  RecurrenceSide side_;
  std::map<RecurrencePlace, size_t> stored_;  // by which phase
  RecurrenceSources result_;
};

}  // namespace

RecurrenceSources sources_of(const Plan& plan, std::span<const FusedLaunch> phases,
                             const RecurrenceSide& side) {
  return SourceFinder(plan, phases, side).run();
}

}  // namespace rnnc
