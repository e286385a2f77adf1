/// A GPU that takes and times plans as it is told, for tests of what preparing makes of that.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph/text.h"
#include "runtime/backend/backend.h"
#include "runtime/program/choose_plan.h"
#include "tests/support/cells/elman_graph.h"

namespace rnnc::test {

/// A dense recurrence that the resident pass takes.
inline Graph dense_recurrence() {
  Result<Graph> graph = parse_graph(elman_text("I, H"));
  return graph.value();
}

inline CompileOptions resident_options() {
  return {.dims = {{"I", 32}, {"H", 512}},
          .dtype = DType::bf16,
          .device = {.kind = Device::Kind::cuda, .index = 0},
          .passes = PassSet::all()};
}

class FakeGpu : public Backend {
 public:
  /// Why it refuses a plan with these tiles; empty: it does not.
  std::function<std::string(const std::vector<std::string>&)> refuse = [](const auto&) {
    return "";
  };
  /// Seconds of a call, by tiles.
  std::function<double(const std::vector<std::string>&)> seconds = [](const auto&) { return 1e-3; };
  std::string name = "a GPU";
  size_t memory = size_t{1} << 30;
  std::vector<std::vector<std::string>> prepared;  // tiles of each plan
  int timed = 0;                                   // calls

  Result<std::unique_ptr<Executable>> prepare(Plan plan) override {
    prepared.push_back(tiles_of(plan));
    return std::make_unique<FakeExecutable>(*this, std::move(plan));
  }
  Machine machine() const override { return h200_machine(); }
  std::string identity() const override { return name; }

  Result<void*> allocate(size_t bytes) override {
    if (bytes > memory) return fail("too little memory on a GPU");
    return std::malloc(bytes);
  }
  void release(void* bytes) override { std::free(bytes); }
  Status upload(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
    return {};
  }
  Status download(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
    return {};
  }
  Status copy(void* to, const void* from, size_t bytes, Stream /*stream*/) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status clear(void* device, size_t bytes, Stream /*stream*/) override {
    std::memset(device, 0, bytes);
    return {};
  }
  Status synchronize(Stream /*stream*/) override { return {}; }
  Result<double> time(const std::function<Status()>& work, Stream /*stream*/) override {
    if (Status status = work(); !status) return tl::unexpected(status.error());
    ++timed;
    return seconds(running_);
  }

 private:
  class FakeExecutable : public Executable {
   public:
    FakeExecutable(FakeGpu& gpu, Plan plan)
        : gpu_(gpu), plan_(std::move(plan)), tiles_(tiles_of(plan_)) {}
    Status run(const Call& call, bool /*run_once*/) override {
      gpu_.running_ = tiles_;
      for (const Buffer& buffer : plan_.buffers) {
        const bool is_needed =
            buffer.placement == Placement::Caller && buffer.role != Role::InitialState;
        if (is_needed && call.arrays.at(buffer.role, buffer.slot) == nullptr) {
          return fail("the call has no array for {}", buffer.name);
        }
      }
      return {};
    }
    std::string refusal() const override { return tiles_.empty() ? "" : gpu_.refuse(tiles_); }

   private:
    FakeGpu& gpu_;
    const Plan plan_;
    const std::vector<std::string> tiles_;
  };

  std::vector<std::string> running_;  // tiles of the last call
};

}  // namespace rnnc::test
