#include "tests/support/reference/plan_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace rnnc::test {
namespace {

constexpr std::byte kPoison{0xff};  // NaN in every type
/// Before and behind each array lies so much of it: more than a step of most.
constexpr size_t kPoisonBytes = 16384;

/// Arrays on the device, which end with it.
class DeviceArrays {
 public:
  explicit DeviceArrays(Backend& backend) : backend_(backend) {}
  DeviceArrays(const DeviceArrays&) = delete;
  DeviceArrays& operator=(const DeviceArrays&) = delete;
  ~DeviceArrays() {
    for (void* array : arrays_) backend_.release(array);
  }

  Result<void*> add(const std::vector<std::byte>& bytes) {
    std::vector<std::byte> all(bytes.size() + 2 * kPoisonBytes, kPoison);
    std::ranges::copy(bytes, all.begin() + kPoisonBytes);
    const Result<void*> memory = backend_.allocate(all.size());
    if (!memory) return memory;
    arrays_.push_back(*memory);
    if (Status status = backend_.upload(*memory, all.data(), all.size()); !status) {
      return tl::unexpected(status.error());
    }
    return static_cast<std::byte*>(*memory) + kPoisonBytes;
  }

 private:
  Backend& backend_;
  std::vector<void*> arrays_;
};

class PlanRun {
 public:
  PlanRun(Backend& backend, const Plan& plan, const InterpreterArgs& args,
          const SequenceArgs& sequences)
      : backend_(backend), plan_(plan), args_(args), sequences_(sequences), arrays_(backend) {}

  Result<InterpreterResult> run() {
    Result<std::unique_ptr<Executable>> executable = backend_.prepare(plan_);
    if (!executable) return tl::unexpected(executable.error());
    if (const std::string refusal = (*executable)->refusal(); !refusal.empty()) {
      return fail("{}", refusal);
    }
    return find_arrays()
        .and_then([&] { return find_workspace(); })
        .and_then([&] { return (*executable)->run(call_, /*run_once=*/true); })
        .and_then([&] { return backend_.synchronize(nullptr); })
        .and_then([&] { return results(); });
  }

 private:
  int64_t elements_of(const Buffer& buffer) const {
    const int64_t rows = buffer.extent == Extent::Invariant ? 1
                         : buffer.extent == Extent::Batch   ? plan_.batch
                                                            : plan_.batch * args_.steps;
    return rows * buffer.width;
  }

  /// The caller's initial value of a state, or of what it is an earlier value of, or null.
  const std::vector<double>* given(size_t state) const {
    if (state < args_.initial_states.size() && !args_.initial_states[state].empty()) {
      return &args_.initial_states[state];
    }
    const std::optional<uint32_t>& delay_of = plan_.states[state].delay_of;
    return delay_of ? given(*delay_of) : nullptr;
  }

  Status find_arrays() {
    device_.resize(plan_.buffers.size());
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& buffer = plan_.buffers[i];
      if (buffer.placement != Placement::Caller) continue;
      const std::vector<double>* values = nullptr;
      if (buffer.role == Role::Input) values = &args_.inputs[buffer.slot];
      if (buffer.role == Role::Param) values = &args_.params[buffer.slot];
      if (buffer.role == Role::InitialState) {
        values = given(buffer.slot);
        if (values == nullptr) continue;
      }
      std::vector<std::byte> bytes(static_cast<size_t>(elements_of(buffer)) * size_of(buffer.dtype),
                                   kPoison);
      if (values != nullptr) {
        convert(values->data(), DType::f64, bytes.data(), buffer.dtype, values->size());
      }
      const Result<void*> array = arrays_.add(bytes);
      if (!array) return tl::unexpected(array.error());
      device_[i] = *array;
      std::vector<const void*>& of_role = roles_[static_cast<size_t>(buffer.role)];
      of_role.resize(std::max<size_t>(of_role.size(), buffer.slot + 1));
      of_role[buffer.slot] = *array;
    }
    for (size_t role = 0; role < roles_.size(); ++role) {
      call_.arrays.set(static_cast<Role>(role), roles_[role]);
    }
    return {};
  }

  template <typename T>
  Result<const T*> copy(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return arrays_.add(bytes).map([](void* array) { return static_cast<const T*>(array); });
  }

  Status find_workspace() {
    call_.steps = args_.steps;
    const auto bytes = static_cast<size_t>(workspace_bytes(plan_, args_.steps));
    const Result<void*> workspace =
        arrays_.add(std::vector<std::byte>(bytes + kWorkspaceAlignment, kPoison));
    if (!workspace) return tl::unexpected(workspace.error());
    const auto address = reinterpret_cast<uintptr_t>(*workspace);
    call_.workspace = static_cast<std::byte*>(*workspace) +
                      (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
    if (!sequences_.lengths.empty()) {
      const std::vector<int32_t> lengths(sequences_.lengths.begin(), sequences_.lengths.end());
      const auto array = copy(lengths);
      if (!array) return tl::unexpected(array.error());
      call_.lengths = *array;
    }
    if (!sequences_.resets.empty()) {
      const auto array = copy(sequences_.resets);
      if (!array) return tl::unexpected(array.error());
      call_.reset = *array;
    }
    return {};
  }

  Result<InterpreterResult> results() {
    InterpreterResult result;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& buffer = plan_.buffers[i];
      auto* list = buffer.role == Role::Output       ? &result.outputs
                   : buffer.role == Role::FinalState ? &result.final_states
                   : buffer.role == Role::Result     ? &result.results
                                                     : nullptr;
      if (list == nullptr) continue;
      const auto count = static_cast<size_t>(elements_of(buffer));
      std::vector<std::byte> bytes(count * size_of(buffer.dtype));
      if (Status status = backend_.download(bytes.data(), device_[i], bytes.size()); !status) {
        return tl::unexpected(status.error());
      }
      list->resize(std::max<size_t>(list->size(), buffer.slot + 1));
      std::vector<double>& values = (*list)[buffer.slot];
      values.resize(count);
      convert(bytes.data(), buffer.dtype, values.data(), DType::f64, count);
    }
    return result;
  }

  Backend& backend_;
  const Plan& plan_;
  const InterpreterArgs& args_;
  const SequenceArgs& sequences_;
  DeviceArrays arrays_;
  std::vector<void*> device_;  // per buffer
  std::array<std::vector<const void*>, kCallerRoles> roles_;
  Call call_;
};

}  // namespace

Result<InterpreterResult> run_plan(Backend& backend, const Plan& plan, const InterpreterArgs& args,
                                   const SequenceArgs& sequences) {
  return PlanRun(backend, plan, args, sequences).run();
}

}  // namespace rnnc::test
