/// Threads of a launch and what those of a block share.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/machine.h"

namespace rnnc::emulator {

struct Block;
struct Cluster;

/// An asynchronous copy that has not been done yet.
struct Copy {
  unsigned char* to;
  const void* from;
  unsigned bytes;
  bool inside;     // else zeros
  unsigned group;  // of the thread's
};

enum class Waiting : uint8_t { Nothing, Block, Warp, Cluster, Pause, Bytes, Previous, Ended };

struct Thread {
  ThreadPlace place;
  Fiber fiber;
  Block* block = nullptr;
  Waiting waiting = Waiting::Nothing;
  unsigned barrier = 0;  // that it waits for
  LaneWork* work = nullptr;
  std::vector<Copy> copies;
  unsigned group = 0;  // of copies, the current one
};

struct Warp {
  unsigned exists = 0;  // lanes, as bits
  unsigned ended = 0;
  unsigned arrived = 0;
  std::array<Thread*, 32> lanes = {};
};

/// What __syncthreads and bar.sync wait at.
struct BlockBarrier {
  unsigned wanted = 0;
  std::vector<Thread*> waiting;
};

/// An mbarrier for one arrival a phase.
struct ByteBarrier {
  bool arrived = false;
  long long bytes = 0;  // expected and not there
  unsigned phase = 0;
  std::vector<Copy> copies;

  void end_phase() {
    if (!arrived || bytes != 0) return;
    arrived = false;
    phase ^= 1;
  }
};

struct Block {
  Cluster* cluster = nullptr;
  std::vector<unsigned char> shared;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;
  std::array<BlockBarrier, 16> barriers;
  std::map<unsigned, ByteBarrier> byte_barriers;
  unsigned alive = 0;
  unsigned barriers_passed = 0;
};

/// Blocks that are there together, by rank; one without clusters.
struct Cluster {
  std::vector<Block*> blocks;
  std::vector<Thread*> waiting;  // for all others
  bool have_met = false;         // so that all have begun

  size_t alive() const {
    size_t threads = 0;
    for (const Block* block : blocks) threads += block->alive;
    return threads;
  }
};

/// Blocks and threads are kept for later ones: memory that is new is slow.
std::unique_ptr<Block> take_block();
void give_back(std::unique_ptr<Block> block);
std::unique_ptr<Thread> take_thread();

/// Threads that wait, in words, those that do so alike together.
std::string describe_waiting(const std::vector<std::unique_ptr<Block>>& blocks);

/// Does what the lanes of a warp have come together for.
void do_warp_work(Warp& warp, unsigned lanes);

}  // namespace rnnc::emulator
