#include "tests/emulator/block.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "ir/base/dtype.h"

namespace rnnc::emulator {
namespace {

std::vector<std::unique_ptr<Block>>& idle_blocks() {
  static std::vector<std::unique_ptr<Block>> blocks;
  return blocks;
}
std::vector<std::unique_ptr<Thread>>& idle_threads() {
  static std::vector<std::unique_ptr<Thread>> threads;
  return threads;
}

std::string text(const Index& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

std::string reason(const Thread& thread) {
  switch (thread.waiting) {
    case Waiting::Block:
      return fmt::format("wait for their block at barrier {}", thread.barrier);
    case Waiting::Warp:
      return fmt::format("wait for lanes {:08x} of their warp", thread.work->lanes);
    case Waiting::Cluster:
      return "wait for their cluster";
    case Waiting::Pause:
      return "go round in a loop that waits";
    case Waiting::Bytes:
      return fmt::format("wait for bytes at the barrier at {}", thread.barrier);
    case Waiting::Previous:
      return "wait for earlier launches";
    case Waiting::Nothing:
      return "run";
    case Waiting::Ended:
      break;
  }
  return "have ended";
}

/// Element `half` of a word.
template <WarpWork Work>
float element(unsigned word, unsigned half) {
  if (Work == WarpWork::MultiplyTf32) {
    return std::bit_cast<float>(word & 0xffffe000U);  // what hardware reads
  }
  const auto bits = static_cast<uint16_t>(word >> (16 * half));
  return Work == WarpWork::MultiplyBf16 ? float_from_bf16(bits) : float_from_f16(bits);
}

/// mma.sync m16n8k16 of 16-bit elements or m16n8k8 of tf32: lane 4 * i + j has rows i and i + 8 of
/// a, row i of b transposed, and of the sums columns 2j and 2j + 1. Its words along k are j and
/// j + 4.
template <WarpWork Work>
void multiply(const std::array<LaneWork*, 32>& lanes) {
  constexpr unsigned kPerWord = Work == WarpWork::MultiplyTf32 ? 1 : 2;
  constexpr unsigned kDepth = 8 * kPerWord;
  float a[16][kDepth];
  using Row [[gnu::vector_size(8 * sizeof(float))]] = float;
  float b[kDepth][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const LaneWork& own = *lanes[lane];
    const unsigned i = lane / 4;
    for (unsigned half = 0; half < kPerWord; ++half) {
      const unsigned low = lane % 4 * kPerWord + half;
      const unsigned high = low + 4 * kPerWord;
      a[i][low] = element<Work>(*own.a[0], half);
      a[i + 8][low] = element<Work>(*own.a[1], half);
      a[i][high] = element<Work>(*own.a[2], half);
      a[i + 8][high] = element<Work>(*own.a[3], half);
      b[low][i] = element<Work>(*own.b[0], half);
      b[high][i] = element<Work>(*own.b[1], half);
    }
  }
  Row columns[kDepth];
  std::memcpy(columns, b, sizeof(b));
  float sums[16][8];
  for (unsigned i = 0; i < 16; ++i) {
    Row row = {};
    for (unsigned k = 0; k < kDepth; ++k) row += a[i][k] * columns[k];
    std::memcpy(sums[i], &row, sizeof(row));
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    float* const sum = lanes[lane]->sum;
    for (unsigned j = 0; j < 4; ++j) sum[j] += sums[lane / 4 + j / 2 * 8][lane % 4 * 2 + j % 2];
  }
}

/// rnnc_multiply_parts of ptx.cuh, whose three products follow one another in a warp: of the small
/// parts with the large ones to the small sums, of the large ones to the large sums.
void multiply_parts(const std::array<LaneWork*, 32>& lanes) {
  struct Parts {
    unsigned a[2][4], b[2][2];  // large, small
  };
  const auto split = [](unsigned word, unsigned& large, unsigned& small) {
    large = (word + 0x1000U) & 0xffffe000U;
    small = std::bit_cast<unsigned>(std::bit_cast<float>(word) - std::bit_cast<float>(large));
  };
  std::array<Parts, 32> parts;
  std::array<LaneWork, 32> works;
  std::array<LaneWork*, 32> pointers;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const LaneWork& own = *lanes[lane];
    Parts& here = parts[lane];
    for (unsigned i = 0; i < 4; ++i) split(*own.a[i], here.a[0][i], here.a[1][i]);
    for (unsigned i = 0; i < 2; ++i) split(*own.b[i], here.b[0][i], here.b[1][i]);
    pointers[lane] = &works[lane];
  }
  constexpr unsigned kPartOfA[] = {0, 1, 0};
  constexpr unsigned kPartOfB[] = {1, 0, 0};
  for (unsigned product = 0; product < 3; ++product) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      LaneWork& work = works[lane];
      for (unsigned i = 0; i < 4; ++i) work.a[i] = &parts[lane].a[kPartOfA[product]][i];
      for (unsigned i = 0; i < 2; ++i) work.b[i] = &parts[lane].b[kPartOfB[product]][i];
      work.sum = product < 2 ? lanes[lane]->small : lanes[lane]->sum;
    }
    multiply<WarpWork::MultiplyTf32>(pointers);
  }
}

void do_product(const Warp& warp, WarpWork work) {
  std::array<LaneWork*, 32> lanes;
  for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = warp.lanes[lane]->work;
  if (work == WarpWork::MultiplyBf16) multiply<WarpWork::MultiplyBf16>(lanes);
  if (work == WarpWork::MultiplyF16) multiply<WarpWork::MultiplyF16>(lanes);
  if (work == WarpWork::MultiplyTf32) multiply<WarpWork::MultiplyTf32>(lanes);
  if (work == WarpWork::MultiplyParts) multiply_parts(lanes);
}

}  // namespace

std::unique_ptr<Block> take_block() {
  auto& idle = idle_blocks();
  if (idle.empty()) {
    auto block = std::make_unique<Block>();
    block->shared.assign(kDynamicShared + kStaticShared, 0xff);
    return block;
  }
  std::unique_ptr<Block> block = std::move(idle.back());
  idle.pop_back();
  return block;
}

void give_back(std::unique_ptr<Block> block) {
  for (std::unique_ptr<Thread>& thread : block->threads)
    idle_threads().push_back(std::move(thread));
  block->threads.clear();
  block->warps.clear();
  block->byte_barriers.clear();
  for (BlockBarrier& barrier : block->barriers) barrier.waiting.clear();
  idle_blocks().push_back(std::move(block));
}

std::unique_ptr<Thread> take_thread() {
  auto& idle = idle_threads();
  if (idle.empty()) return std::make_unique<Thread>();
  std::unique_ptr<Thread> thread = std::move(idle.back());
  idle.pop_back();
  thread->waiting = Waiting::Nothing;
  thread->copies.clear();
  thread->group = 0;
  return thread;
}

std::string describe_waiting(const std::vector<std::unique_ptr<Block>>& blocks) {
  struct Group {
    unsigned count = 0;
    const Thread* first = nullptr;
  };
  std::map<std::string, Group> groups;
  for (const auto& block : blocks) {
    for (const auto& thread : block->threads) {
      if (thread->waiting == Waiting::Ended) continue;
      Group& group = groups[reason(*thread)];
      if (group.count++ == 0) group.first = thread.get();
    }
  }
  std::string result;
  for (const auto& [why, group] : groups) {
    result += fmt::format("\n  {} threads {}, such as {} of block {}", group.count, why,
                          text(group.first->place.thread), text(group.first->place.block));
  }
  return result;
}

void do_warp_work(Warp& warp, unsigned lanes) {
  const WarpWork work = warp.lanes[static_cast<unsigned>(std::countr_zero(lanes))]->work->work;
  unsigned ballot = 0;
  const bool of_words = work == WarpWork::Shuffle || work == WarpWork::Ballot;
  for (unsigned rest = of_words ? lanes : 0; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    LaneWork& own = *warp.lanes[lane]->work;
    if (work == WarpWork::Ballot && own.word != 0) ballot |= 1U << lane;
    if (work != WarpWork::Shuffle) continue;
    // What a lane gets from one that does not take part is not defined.
    const bool there = (lanes >> own.source & 1) != 0;
    own.result = there ? warp.lanes[own.source]->work->word : 0xffffffffU;
  }
  if (work == WarpWork::Ballot) {
    for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
      warp.lanes[static_cast<unsigned>(std::countr_zero(rest))]->work->result = ballot;
    }
  }
  if (work >= WarpWork::MultiplyBf16) do_product(warp, work);
}

}  // namespace rnnc::emulator
