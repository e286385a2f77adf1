/// One launch of a kernel: a fiber for every thread, of which one runs at a time until it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulator/machine.h"

namespace rnnc::emulator {

struct Kernel {
  std::string name;
  Unit unit;
  KernelEntry entry;
};

struct KernelCall {
  const Kernel* kernel = nullptr;
  Index grid, block;
  unsigned shared_bytes = 0;
  std::vector<std::vector<std::byte>> parameters;
  unsigned cluster = 1;      // blocks of one, side by side along x
  bool cooperative = false;  // all blocks are there at once
  bool overlaps = false;     // may begin before the launch before it ends
};

class Launch {
 public:
  /// `seed` decides every order.
  Launch(const KernelCall& call, uint64_t seed);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Runs some blocks until they wait for earlier launches. At most once, before `run`.
  std::optional<std::string> begin_early();
  /// To the end. What went wrong, if something did.
  std::optional<std::string> run();

 private:
  class Runner;
  std::unique_ptr<Runner> runner_;
};

}  // namespace rnnc::emulator
