/// What all functions of the emulated runtime share: the one device, and how they come to it.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "tests/emulator/emulator.h"
#include "tests/emulator/memory.h"
#include "tests/emulator/queue.h"

namespace rnnc::emulator {

inline constexpr unsigned kMostThreads = 1024;
inline constexpr unsigned kMostCluster = 16;
inline constexpr unsigned kThreadsPerMultiprocessor = 2048;
inline constexpr size_t kReservedShared = 1024;  // of every block

struct Device {
  std::recursive_mutex mutex;
  DeviceMemory memory;
  Queue queue;
  std::vector<std::string> faults;
};
Device& device();

cudaError_t& last_error();

/// Every call of the runtime goes through here.
template <typename Body>
cudaError_t call(const Body& body) {
  const std::scoped_lock lock(device().mutex);
  const cudaError_t error = body(device());
  if (error != cudaSuccess) last_error() = error;
  return error;
}

/// What a capture forbids.
template <typename Body>
cudaError_t unsafe_call(const Body& body) {
  return call([&](Device& here) {
    return here.queue.may_be_unsafe() ? body(here) : cudaErrorStreamCaptureUnsupported;
  });
}

}  // namespace rnnc::emulator
