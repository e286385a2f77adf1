// 1. Blocks go in an order that the seed decides: all at once in a cooperative launch, else a few
//    or a few clusters at a time. Their memory starts as NaN.
// 2. One thread runs until it waits, then another one, chosen at random. Who goes round in a loop
//    that waits has its next turn when nobody else can run.
// 3. What hardware may do early or late (asynchronous copies, relaxed stores, the start before the
//    launch before has ended) is done early or late by the seed.
// 4. If nobody can run, or all go round and nothing changes, the launch fails.
#include "tests/emulator/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "tests/emulator/block.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/random.h"

namespace rnnc::emulator {
namespace {

constexpr int kMostIdleTurns = 5000;
constexpr size_t kMostClustersAtOnce = 3;
constexpr unsigned kMostEarlyThreads = 1024;
constexpr size_t kMostLateStores = 64;

/// A relaxed store that only its thread knows of.
struct LateStore {
  std::byte* to;
  unsigned bytes;
  std::array<std::byte, 16> data;
  const Thread* thread;
  const Block* block;
  unsigned barriers_passed;  // of the block
  const Block* target;       // whose shared memory it is; null for device memory
  ByteBarrier* barrier;      // of the target, that counts its bytes

  bool overlaps(const std::byte* other, unsigned size) const {
    return to < other + size && other < to + bytes;
  }
  void apply() const {
    std::memcpy(to, data.data(), bytes);
    if (barrier == nullptr) return;
    barrier->bytes -= bytes;
    barrier->end_phase();
  }
};

size_t count(const Index& index) {
  return size_t{index.x} * index.y * index.z;
}

Index index_of(size_t number, const Index& size) {
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
          static_cast<unsigned>(number / size.x / size.y)};
}

void do_copy(const Copy& copy) {
  if (copy.inside) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    std::memset(copy.to, 0, copy.bytes);
  }
}

}  // namespace

class Launch::Runner final : private Machine {
 public:
  Runner(const KernelCall& call, uint64_t seed)
      : call_(call), unit_(call.kernel->unit), random_(seed) {
    for (std::vector<std::byte>& parameter : call_.parameters) {
      parameters_.push_back(parameter.data());
    }
    order_.resize(count(call.grid) / call.cluster);
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::shuffle(order_.begin(), order_.end(), random_);
  }
  ~Runner() {
    for (std::unique_ptr<Block>& block : blocks_) give_back(std::move(block));
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  std::optional<std::string> begin_early() {
    if (call_.cooperative) return std::nullopt;
    const auto threads = static_cast<unsigned>(count(call_.block)) * call_.cluster;
    for (unsigned there = 0; there + threads <= kMostEarlyThreads && next_ < order_.size();
         there += threads) {
      add_cluster();
    }
    run_threads();
    return fault_;
  }

  std::optional<std::string> run() {
    previous_ended_ = true;
    for (const std::unique_ptr<Block>& block : blocks_) {
      for (const std::unique_ptr<Thread>& thread : block->threads) {
        if (thread->waiting == Waiting::Previous) make_ready(*thread);
      }
    }
    do {
      const size_t together =
          call_.cooperative ? order_.size() : 1 + random_.below(kMostClustersAtOnce);
      while (clusters_.size() < together && next_ < order_.size()) add_cluster();
      run_threads();
      if (fault_) return fault_;
      for (std::unique_ptr<Block>& block : blocks_) give_back(std::move(block));
      blocks_.clear();
      clusters_.clear();
    } while (next_ < order_.size());
    for (const LateStore& store : late_stores_) store.apply();
    return std::nullopt;
  }

 private:
  // ---- Blocks and their threads. ----

  void add_cluster() {
    Cluster& cluster = *clusters_.emplace_back(std::make_unique<Cluster>());
    const size_t first = order_[next_++] * call_.cluster;
    for (unsigned rank = 0; rank < call_.cluster; ++rank) add_block(cluster, first + rank);
  }

  void add_block(Cluster& cluster, size_t index) {
    std::unique_ptr<Block> block = take_block();
    block->cluster = &cluster;
    std::fill_n(block->shared.begin(), call_.shared_bytes, 0xff);
    std::fill(block->shared.begin() + kDynamicShared, block->shared.begin() + *unit_.shared_end,
              0xff);
    const size_t threads = count(call_.block);
    block->alive = static_cast<unsigned>(threads);
    block->barriers_passed = 0;
    block->warps.resize((threads + 31) / 32);
    ThreadPlace place;
    place.block = index_of(index, call_.grid);
    place.block_size = call_.block;
    place.grid_size = call_.grid;
    place.cluster_rank = static_cast<unsigned>(cluster.blocks.size());
    place.cluster_size = call_.cluster;
    place.shared = block->shared.data();
    for (size_t i = 0; i < threads; ++i) {
      place.thread = index_of(i, call_.block);
      place.lane = i % 32;
      std::unique_ptr<Thread> thread = take_thread();
      thread->place = place;
      thread->block = block.get();
      Warp& warp = block->warps[i / 32];
      warp.lanes[place.lane] = thread.get();
      warp.exists |= 1U << place.lane;
      thread->fiber.start(
          [](void* runner) {
            auto& self = *static_cast<Runner*>(runner);
            self.call_.kernel->entry.run(self.parameters_.data());
            self.end_thread();
          },
          this);
      ready_.push_back(thread.get());
      block->threads.push_back(std::move(thread));
    }
    cluster.blocks.push_back(block.get());
    blocks_.push_back(std::move(block));
  }

  /// Until all have ended, or wait for the launch before.
  void run_threads() {
    *unit_.machine = this;
    idle_turns_ = 0;
    while (!fault_) {
      if (ready_.empty() && !find_work()) break;
      std::swap(ready_[random_.below(ready_.size())], ready_.back());
      now_ = ready_.back();
      ready_.pop_back();
      now_->waiting = Waiting::Nothing;
      *unit_.here = &now_->place;
      now_->fiber.resume();
    }
    if (fault_) return;
    for (const std::unique_ptr<Block>& block : blocks_) {
      for (const std::unique_ptr<Thread>& thread : block->threads) {
        const bool may_wait = !previous_ended_ && thread->waiting == Waiting::Previous;
        if (thread->waiting != Waiting::Ended && !may_wait) return deadlock();
      }
    }
  }

  /// When nobody can run: stores arrive, and who goes round has another turn.
  bool find_work() {
    if (!late_stores_.empty()) {
      apply_some(1 + random_.below(late_stores_.size()));
      if (paused_.empty()) return false;
    }
    if (paused_.empty()) return false;
    if (++idle_turns_ > kMostIdleTurns) {
      deadlock();
      return false;
    }
    ready_.swap(paused_);
    return true;
  }

  void deadlock() {
    fault_ = fmt::format("{} does not go on:{}", call_.kernel->name, describe_waiting(blocks_));
  }

  void make_ready(Thread& thread) {
    thread.waiting = Waiting::Nothing;
    ready_.push_back(&thread);
  }
  void wait(Waiting why) {
    Thread& self = *now_;
    self.waiting = why;
    self.fiber.wait();
  }

  void end_thread() {
    Thread& self = *now_;
    Block& block = *self.block;
    idle_turns_ = 0;
    --block.alive;
    Warp& warp = block.warps[static_cast<size_t>(number(self) / 32)];
    warp.ended |= 1U << self.place.lane;
    BlockBarrier& all = block.barriers[0];
    if (!all.waiting.empty() && all.wanted == 0 && all.waiting.size() == block.alive) pass(all);
    if (block.alive == 0) check_late_stores(block);
    self.waiting = Waiting::Ended;
    pass_if_complete(*block.cluster);
    wait(Waiting::Ended);
  }

  /// Of a block that ends, whose shared memory is there no longer.
  void check_late_stores(const Block& ended) {
    const auto is_late = [&](const LateStore& store) { return store.target == &ended; };
    const auto is_of_other = [&](const LateStore& store) {
      return is_late(store) && store.block != &ended;
    };
    if (std::ranges::any_of(late_stores_, is_of_other)) {
      fail("a block ends while others of its cluster write to its shared memory");
    }
    std::erase_if(late_stores_, is_late);
  }

  size_t number(const Thread& thread) const {
    const Index& at = thread.place.thread;
    return at.x + call_.block.x * (at.y + size_t{call_.block.y} * at.z);
  }

  // ---- Machine. ----

  void sync_block(unsigned barrier, unsigned threads) override {
    if (barrier >= 16 || threads % 32 != 0) fail("a barrier's number or threads are not possible");
    Block& block = *now_->block;
    BlockBarrier& here = block.barriers[barrier];
    if (here.waiting.empty()) here.wanted = threads;
    if (here.wanted != threads) fail("threads that meet at a barrier count differently");
    const size_t wanted = threads == 0 ? block.alive : threads;
    if (here.waiting.size() + 1 == wanted) {
      pass(here);
      ++block.barriers_passed;
      // Who comes last has no right to go on first.
      ready_.push_back(now_);
      return wait(Waiting::Nothing);
    }
    here.waiting.push_back(now_);
    now_->barrier = barrier;
    wait(Waiting::Block);
  }

  void pass(BlockBarrier& barrier) {
    for (Thread* thread : barrier.waiting) make_ready(*thread);
    barrier.waiting.clear();
  }

  void sync_cluster() override {
    Cluster& cluster = *now_->block->cluster;
    cluster.waiting.push_back(now_);
    now_->waiting = Waiting::Cluster;
    pass_if_complete(cluster);
    wait(now_->waiting);
  }

  /// Who comes last has no right to go on first, here too. Stores of threads that have ended may
  /// still be late.
  void pass_if_complete(Cluster& cluster) {
    if (cluster.waiting.empty() || cluster.waiting.size() != cluster.alive()) return;
    idle_turns_ = 0;
    apply_if([&](const LateStore& store) {
      return store.block->cluster == &cluster && store.thread->waiting == Waiting::Cluster;
    });
    for (Thread* thread : cluster.waiting) make_ready(*thread);
    cluster.waiting.clear();
    cluster.have_met = true;
  }

  void sync_warp(LaneWork& own) override {
    Thread& self = *now_;
    Warp& warp = self.block->warps[number(self) / 32];
    const unsigned lanes = own.lanes & warp.exists;
    const unsigned bit = 1U << self.place.lane;
    if ((lanes & bit) == 0) fail("a lane takes part in what names other lanes");
    if ((lanes & warp.ended) != 0) fail("lanes of a warp wait for one that has ended");
    self.work = &own;
    if (const unsigned others = warp.arrived & lanes; others != 0) {
      const LaneWork& other = *warp.lanes[static_cast<size_t>(std::countr_zero(others))]->work;
      if (other.work != own.work || other.lanes != own.lanes) {
        fail("lanes of a warp meet in different operations");
      }
    }
    warp.arrived |= bit;
    if ((warp.arrived & lanes) != lanes) return wait(Waiting::Warp);
    do_warp_work(warp, lanes);
    warp.arrived &= ~lanes;
    for (unsigned rest = lanes & ~bit; rest != 0; rest &= rest - 1) {
      make_ready(*warp.lanes[static_cast<size_t>(std::countr_zero(rest))]);
    }
  }

  void pause() override {
    paused_.push_back(now_);
    wait(Waiting::Pause);
  }

  void wait_for_previous() override {
    if (!previous_ended_) wait(Waiting::Previous);
  }

  bool is_shared(unsigned at, unsigned bytes) const {
    const bool dynamic = at + bytes <= call_.shared_bytes;
    const bool declared = at >= kDynamicShared && at + bytes <= *unit_.shared_end;
    return dynamic || declared;
  }
  unsigned char* shared(unsigned at, unsigned bytes, unsigned multiple) {
    if (!is_shared(at, bytes)) fail("an asynchronous copy ends outside of shared memory");
    if (at % multiple != 0) fail("an asynchronous copy's target is not aligned");
    return now_->place.shared + at;
  }
  void check_source(const void* from, unsigned multiple) {
    if (reinterpret_cast<uintptr_t>(from) % multiple != 0) {
      fail("an asynchronous copy's source is not aligned");
    }
  }

  void copy(unsigned to, const void* from, unsigned bytes, bool inside) override {
    check_source(from, bytes);
    const Copy copy = {shared(to, bytes, bytes), from, bytes, inside, now_->group};
    // Two bytes go through a register.
    if (bytes < 4 || random_.toss()) return do_copy(copy);
    now_->copies.push_back(copy);
  }
  void end_copies() override { ++now_->group; }
  void wait_copies(unsigned pending) override {
    std::vector<Copy>& copies = now_->copies;
    const unsigned end = now_->group < pending ? 0 : now_->group - pending;
    const auto late = std::ranges::find_if(copies, [end](const Copy& c) { return c.group >= end; });
    std::for_each(copies.begin(), late, do_copy);
    copies.erase(copies.begin(), late);
  }

  ByteBarrier& byte_barrier(unsigned barrier) {
    const auto found = now_->block->byte_barriers.find(barrier);
    if (found == now_->block->byte_barriers.end()) fail("a barrier of copies was not begun");
    return found->second;
  }
  void begin_barrier(unsigned barrier) override {
    shared(barrier, 8, 8);
    now_->block->byte_barriers[barrier] = {};
  }
  void expect(unsigned barrier, unsigned bytes) override {
    ByteBarrier& here = byte_barrier(barrier);
    if (here.arrived) fail("a barrier of copies expects more in a phase that goes on");
    here.arrived = true;
    here.bytes += bytes;
    here.end_phase();
  }
  void await(unsigned barrier, unsigned parity) override {
    while (byte_barrier(barrier).phase == (parity & 1)) {
      ByteBarrier& here = byte_barrier(barrier);
      if (here.arrived && !here.copies.empty()) {
        const size_t next = random_.below(here.copies.size());
        do_copy(here.copies[next]);
        here.bytes -= here.copies[next].bytes;
        here.copies.erase(here.copies.begin() + static_cast<ptrdiff_t>(next));
        here.end_phase();
        idle_turns_ = 0;
      }
      now_->barrier = barrier;
      paused_.push_back(now_);
      wait(Waiting::Bytes);
    }
  }
  void copy_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier) override {
    check_source(from, 16);
    if (bytes % 16 != 0) fail("a bulk copy is not of whole 16 bytes");
    ByteBarrier& here = byte_barrier(barrier);
    const Copy copy = {shared(to, bytes, 16), from, bytes, true, 0};
    if (random_.toss()) {
      here.copies.push_back(copy);
      return;
    }
    do_copy(copy);
    here.bytes -= bytes;
    here.end_phase();
  }

  void publish(void* to, const void* from, unsigned bytes) override {
    publish(static_cast<std::byte*>(to), from, bytes, nullptr, nullptr);
  }
  void store_in_cluster(unsigned to, const void* from, unsigned bytes, unsigned barrier) override {
    constexpr unsigned kInBlock = (1U << kClusterRankShift) - 1;
    const unsigned rank = to >> kClusterRankShift;
    const unsigned at = to & kInBlock;
    Block& own = *now_->block;
    const Cluster& cluster = *own.cluster;
    if (rank > cluster.blocks.size()) fail("a store in a cluster has no address of one");
    Block& target = rank == 0 ? own : *cluster.blocks[rank - 1];
    if (&target != &own && !cluster.have_met) {
      fail("a block of the cluster that may not have begun is written to");
    }
    if (target.alive == 0) fail("a block of the cluster that has ended is written to");
    if (!is_shared(at, bytes)) fail("a store in a cluster ends outside of shared memory");
    if (at % bytes != 0) fail("a store in a cluster is not aligned");
    const auto counts = target.byte_barriers.find(barrier & kInBlock);
    if (barrier >> kClusterRankShift != rank || counts == target.byte_barriers.end()) {
      fail("a store in a cluster is counted by no barrier of the block");
    }
    publish(reinterpret_cast<std::byte*>(target.shared.data()) + at, from, bytes, &target,
            &counts->second);
  }
  void publish(std::byte* to, const void* from, unsigned bytes, const Block* target,
               ByteBarrier* barrier) {
    idle_turns_ = 0;
    LateStore store = {to,     bytes,  {}, now_, now_->block, now_->block->barriers_passed,
                       target, barrier};
    std::memcpy(store.data.data(), from, bytes);
    apply_if([&](const LateStore& other) { return other.overlaps(store.to, bytes); });
    if (late_stores_.size() == kMostLateStores) apply_some(kMostLateStores / 2);
    if (random_.toss()) {
      store.apply();
    } else {
      late_stores_.push_back(store);
    }
  }
  /// Of this thread, and of those that met it at a barrier since.
  void release() override {
    idle_turns_ = 0;
    const Block& block = *now_->block;
    apply_if([&](const LateStore& store) {
      return store.thread == now_ ||
             (store.block == &block && store.barriers_passed < block.barriers_passed);
    });
  }
  template <typename Condition>
  void apply_if(const Condition& condition) {
    std::erase_if(late_stores_, [&](const LateStore& store) {
      if (condition(store)) store.apply();
      return condition(store);
    });
  }
  void apply_some(size_t stores) {
    for (; stores > 0; --stores) {
      const size_t next = random_.below(late_stores_.size());
      late_stores_[next].apply();
      late_stores_.erase(late_stores_.begin() + static_cast<ptrdiff_t>(next));
    }
  }

  /// Time goes on with each look.
  unsigned long long nanoseconds() override { return nanoseconds_ += 100; }

  [[noreturn]] void fail(const char* why) override {
    const Index& thread = now_->place.thread;
    const Index& block = now_->place.block;
    fault_ = fmt::format("{}: {} (thread ({}, {}, {}) of block ({}, {}, {}))", call_.kernel->name,
                         why, thread.x, thread.y, thread.z, block.x, block.y, block.z);
    for (;;) now_->fiber.wait();
  }

  KernelCall call_;
  const Unit& unit_;
  std::vector<void*> parameters_;
  Random random_;
  std::vector<size_t> order_;                       // of clusters
  size_t next_ = 0;                                 // in the order
  std::vector<std::unique_ptr<Block>> blocks_;      // that are there
  std::vector<std::unique_ptr<Cluster>> clusters_;  // of these
  std::vector<Thread*> ready_;
  std::vector<Thread*> paused_;
  Thread* now_ = nullptr;
  std::vector<LateStore> late_stores_;
  bool previous_ended_ = false;
  int idle_turns_ = 0;  // in which everybody went round, and nothing changed
  unsigned long long nanoseconds_ = 0;
  std::optional<std::string> fault_;
};

Launch::Launch(const KernelCall& call, uint64_t seed)
    : runner_(std::make_unique<Runner>(call, seed)) {}
Launch::~Launch() = default;
std::optional<std::string> Launch::begin_early() {
  return runner_->begin_early();
}
std::optional<std::string> Launch::run() {
  return runner_->run();
}

}  // namespace rnnc::emulator
