#include "tests/support/reference/plan_arrays.h"

#include <algorithm>
#include <utility>

namespace rnnc {
namespace {

constexpr std::byte kPoison{0xff};  // NaN in every type

}  // namespace

PlanArrays::PlanArrays(const Plan& plan, const InterpreterArgs& args)
    : plan_(plan),
      args_(args),
      workspace_(static_cast<size_t>(workspace_bytes(plan, args.steps)), kPoison),
      program_memory_(static_cast<size_t>(plan.program_bytes), kPoison) {
  RNNC_CHECK(args.batch == plan.batch);
  clear_pads();
  for (const Buffer& buffer : plan.buffers) caller_.push_back(caller_array(buffer));
}

void PlanArrays::clear_pads() {
  for (const Buffer& buffer : plan_.buffers) {
    if (!ends_in_zeros(buffer)) continue;
    const auto element = static_cast<int64_t>(size_of(buffer.dtype));
    std::byte* const begin = program_memory_.data() + buffer.offset;
    const int64_t row = buffer.width * element;
    for (int64_t end = row; end <= byte_size(plan_, buffer); end += row) {
      std::fill(begin + end - buffer.pad * element, begin + end, std::byte{0});
    }
  }
}

const std::vector<double>* PlanArrays::given(size_t state) const {
  if (state < args_.initial_states.size() && !args_.initial_states[state].empty()) {
    return &args_.initial_states[state];
  }
  const std::optional<uint32_t>& delay_of = plan_.states[state].delay_of;
  return delay_of ? given(*delay_of) : nullptr;
}

std::byte* PlanArrays::memory(const Buffer& buffer) {
  switch (buffer.placement) {
    case Placement::Workspace:
      return workspace_.data() + workspace_offset(plan_, buffer, args_.steps);
    case Placement::Program:
      return program_memory_.data() + buffer.offset;
    case Placement::Caller:
      break;
  }
  return caller_[static_cast<size_t>(&buffer - plan_.buffers.data())].data();
}

PlanArrays::Place PlanArrays::locate(const Access& access, Position at, int64_t row) {
  const Buffer& buffer = plan_.buffers[access.buffer];
  const int64_t element = first_element(plan_, access, at, args_.steps) + row * access.stride;
  return {buffer.dtype, memory(buffer) + element * static_cast<int64_t>(size_of(buffer.dtype))};
}

double load(const PlanArrays::Place& place, int64_t index) {
  double value = 0;
  const auto size = static_cast<int64_t>(size_of(place.dtype));
  convert(place.data + index * size, place.dtype, &value, DType::f64, 1);
  return value;
}

void store(const PlanArrays::Place& place, int64_t index, double value) {
  const auto size = static_cast<int64_t>(size_of(place.dtype));
  convert(&value, DType::f64, place.data + index * size, place.dtype, 1);
}

// ---- The caller's arrays ----

std::vector<std::byte> PlanArrays::caller_array(const Buffer& buffer) const {
  if (buffer.placement != Placement::Caller) return {};
  const std::vector<double>* values = nullptr;
  if (buffer.role == Role::Input) values = &args_.inputs[buffer.slot];
  if (buffer.role == Role::Param) values = &args_.params[buffer.slot];
  if (buffer.role == Role::InitialState) values = given(buffer.slot);
  const int64_t rows = buffer.extent == Extent::Invariant ? 1
                       : buffer.extent == Extent::Batch   ? plan_.batch
                                                          : plan_.batch * args_.steps;
  const auto count = static_cast<size_t>(rows * buffer.width);
  std::vector<std::byte> array(count * size_of(buffer.dtype), kPoison);
  if (values == nullptr || values->empty()) return array;
  RNNC_CHECK(values->size() == count, "{}: {} elements, not {}", buffer.name, values->size(),
             count);
  convert(values->data(), DType::f64, array.data(), buffer.dtype, count);
  return array;
}

InterpreterResult PlanArrays::results() const {
  InterpreterResult result;
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    const bool wanted = buffer.role == Role::Output || buffer.role == Role::FinalState ||
                        buffer.role == Role::Result;
    if (!wanted) continue;
    const std::vector<std::byte>& array = caller_[i];
    std::vector<double> values(array.size() / size_of(buffer.dtype));
    convert(array.data(), buffer.dtype, values.data(), DType::f64, values.size());
    auto& list = buffer.role == Role::Output       ? result.outputs
                 : buffer.role == Role::FinalState ? result.final_states
                                                   : result.results;
    if (list.size() <= buffer.slot) list.resize(buffer.slot + 1);
    list[buffer.slot] = std::move(values);
  }
  return result;
}

}  // namespace rnnc
