#include "runtime/explain/describe_launch.h"

#include <algorithm>
#include <set>

#include "passes/reroll/reroll.h"

namespace rnnc::explain {

class LaunchDescriber::Names final : public LaunchNames {
 public:
  Names(const LaunchDescriber& all, const Stage& stage)
      : LaunchNames(all.plan_, stage, all.machine_ == Machine::Kind::Cpu), all_(all) {}

  std::string value(const Access& access, int64_t count) const override {
    return all_.value(stage(), access, count);
  }
  std::vector<std::string> weights_in(const Access& weight, int64_t count) const override {
    return all_.weights_in(weight, count);
  }

 private:
  const LaunchDescriber& all_;
};

LaunchDescriber::LaunchDescriber(const Plan& plan, Machine::Kind machine)
    : plan_(plan), machine_(machine) {
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Once) continue;
    for (const Launch& launch : stage.launches) {
      for (WeightPart& part : weight_parts(Names(*this, stage), launch)) {
        parts_[part.buffer].push_back(std::move(part));
      }
    }
  }
}

LaunchInfo LaunchDescriber::describe(const Stage& stage, const Launch& launch) const {
  LaunchInfo info{rnnc::describe(Names(*this, stage), launch)};
  const bool is_named = !info.writes.empty();
  for (const Touch& touch : outer_touches(stage, launch)) {
    if (touch.write && is_named) continue;
    add_once(touch.write ? info.writes : info.reads, value(stage, touch.access, touch.count));
  }
  if (!info.copies) add_hoisted(stage, info);
  std::string written_out = why_written_out(plan_, launch, machine_);
  if (!written_out.empty()) info.notes.push_back({"written out", std::move(written_out)});
  return info;
}

std::vector<Touch> LaunchDescriber::outer_touches(const Stage& stage, const Launch& launch) const {
  std::vector<Touch> all = touches(plan_, launch);
  if (place_of(launch) != Where::Recurrence) return all;
  std::set<BufferId> written;
  for (const Touch& touch : all) {
    if (touch.write) written.insert(touch.access.buffer);
  }
  std::erase_if(all, [&](const Touch& touch) {
    return !touch.write && written.contains(touch.access.buffer) && delay(stage, touch.access) == 0;
  });
  return all;
}

std::vector<Touch> LaunchDescriber::touches_of_step(const Stage& stage,
                                                    const Launch& launch) const {
  std::vector<Touch> all = outer_touches(stage, launch);
  std::erase_if(all, [&](const Touch& touch) {
    return !touch.write && (delay(stage, touch.access) > 0 ||
                            plan_.buffers[touch.access.buffer].role == Role::InitialState);
  });
  return all;
}

std::vector<std::string> LaunchDescriber::weights_in(const Access& weight, int64_t count) const {
  std::vector<std::string> names;
  if (const auto found = parts_.find(weight.buffer); found != parts_.end()) {
    for (const WeightPart& part : found->second) {
      const bool inside = part.begin < weight.column + count && part.end > weight.column;
      if (!inside) continue;
      for (const std::string& name : part.names) add_once(names, name);
    }
  }
  if (names.empty()) names.push_back(plan_.buffers[weight.buffer].name);
  return names;
}

std::string LaunchDescriber::value(const Stage& stage, const Access& access, int64_t count) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  if (buffer.extent == Extent::Invariant) return join_names(weights_in(access, count));
  if (buffer.extent == Extent::Batch) return buffer.name;
  const int64_t steps = delay(stage, access);
  if (steps > 0) return fmt::format("{}[t-{}]", buffer.name, steps);
  // What is earlier by its name: "saved c[t-1]".
  return buffer.name.ends_with(']') && buffer.name.find("[t-") != std::string::npos
             ? buffer.name
             : buffer.name + "[t]";
}

int64_t LaunchDescriber::delay(const Stage& stage, const Access& access) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  // What stages of other lags wrote lies chunks back.
  const int64_t chunks =
      buffer.extent == Extent::Chunk ? int64_t{stage.lag} - int64_t{buffer.lag} : 0;
  return access.delay - chunks * plan_.chunk;
}

void LaunchDescriber::add_hoisted(const Stage& stage, LaunchWords& words) const {
  if (stage.domain == Domain::Last) return;
  if (stage.domain == Domain::Once) {
    words.notes.push_back({"hoisted", "of params alone: once a call, and kept while they stay"});
  } else if (stage.domain == Domain::Sequence && stage.recurrence == RecurrenceClass::None &&
             plan_.chunk > 1) {
    words.notes.push_back(
        {"hoisted",
         fmt::format("waits for no step: all {} steps of a chunk at once", plan_.chunk)});
  }
}

}  // namespace rnnc::explain
