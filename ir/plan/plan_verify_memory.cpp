// 1. Every buffer of the workspace or of program memory is aligned and inside its piece of memory.
// 2. Find where each is touched: by Once stages, and in which lags of which sweeps.
// 3. Of two that share memory:
//    a. None has a pad of zeros. Neither may live on between waves while the other is touched: a
//       history, a carry, what Once stages left for others, what is kept for a later sweep.
//    b. All launches of one sweep that touch either are of one lag, and so in order.
//    c. A launch that writes one touches the other only to write in place: element by element, each
//       load before the store.
// That nothing is read after another was written over it is seen by the order of launches
// (plan_verify.cpp).
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "ir/plan/alignment.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_memory.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/plan_verify_parts.h"

namespace rnnc {
namespace {

class MemoryVerifier {
 public:
  explicit MemoryVerifier(const Plan& plan) : plan_(plan), uses_(plan.buffers.size()) {}

  Status run() {
    if (Status status = check_sizes(); !status) return status;
    find_uses();
    Status shared;
    for_each_overlap(plan_, [&](BufferId a, BufferId b) {
      if (shared && !are_alike(uses_[a], uses_[b])) shared = check_pair(a, b);
    });
    if (!shared) return shared;
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        if (Status status = check_in_place(launch); !status) return status;
      }
    }
    return {};
  }

 private:
  struct Uses {
    bool once = false;
    std::set<std::pair<uint32_t, uint32_t>> places;  // sweep, lag
    bool kept = false;    // from wave to wave of the sweeps it is used in
    bool always = false;  // from Once stages on
    bool plain = false;   // of one place alone, and nothing else
  };

  /// Most buffers that share memory are.
  static bool are_alike(const Uses& a, const Uses& b) {
    return a.plain && b.plain && *a.places.begin() == *b.places.begin();
  }

  Status check_sizes() const {
    if (plan_.workspace_bytes_per_step % kBufferAlignment != 0 ||
        (plan_.workspace_bytes_per_step > 0 && plan_.workspace_bytes % kBufferAlignment != 0)) {
      return fail("the workspace per step is not aligned");
    }
    for (const Buffer& buffer : plan_.buffers) {
      const MemoryPiece piece = memory_piece(buffer);
      if (piece == MemoryPiece::None) continue;
      if (buffer.offset % kBufferAlignment != 0)
        return fail("buffer {} is not aligned", buffer.name);
      const int64_t end = buffer.offset + byte_size(plan_, buffer);
      if (buffer.offset < 0 || end > size_of(piece)) {
        return fail("buffer {} is outside the {}", buffer.name, name_of(piece));
      }
    }
    return {};
  }

  int64_t size_of(MemoryPiece piece) const {
    if (piece == MemoryPiece::Program) return plan_.program_bytes;
    return piece == MemoryPiece::PerStep ? plan_.workspace_bytes_per_step : plan_.workspace_bytes;
  }

  static std::string_view name_of(MemoryPiece piece) {
    if (piece == MemoryPiece::Program) return "program memory";
    return piece == MemoryPiece::PerStep ? "workspace per step" : "workspace";
  }

  void find_uses() {
    for (const Stage& stage : plan_.stages) {
      for (const Launch& launch : stage.launches) {
        for (const Touch& touch : touches(plan_, launch)) {
          Uses& uses = uses_[touch.access.buffer];
          if (stage.domain == Domain::Once) {
            uses.once = true;
          } else if (stage.domain == Domain::Last) {
            uses.places.emplace(plan_.sweeps, 0);
          } else {
            uses.places.emplace(stage.sweep, stage.lag);
          }
        }
        // They are cleared when their sweep begins.
        for (const BufferId sum : sums_of(launch)) uses_[sum].kept = true;
      }
    }
    for (const StatePlan& state : plan_.states) {
      for (const auto launch : kStateLaunches) {
        for (const Touch& touch : touches(plan_, state.*launch)) {
          Uses& uses = uses_[touch.access.buffer];
          uses.places.emplace(state.sweep, state.lag);
          uses.kept = true;
        }
      }
    }
    for (size_t i = 0; i < uses_.size(); ++i) {
      Uses& uses = uses_[i];
      uses.always = uses.once && !uses.places.empty();
      const Buffer& buffer = plan_.buffers[i];
      if (uses.places.size() > 1 && uses.places.rbegin()->first == plan_.sweeps) uses.kept = true;
      if (buffer.history > 0 || buffer.extent == Extent::Steps) uses.kept = true;
      uses.plain = !uses.once && !uses.kept && !ends_in_zeros(buffer) && uses.places.size() == 1;
    }
  }

  Status check_pair(BufferId a, BufferId b) const {
    const Uses& first = uses_[a];
    const Uses& second = uses_[b];
    const std::string& name = plan_.buffers[a].name;
    const std::string& other = plan_.buffers[b].name;
    for (const BufferId id : {a, b}) {
      if (!ends_in_zeros(plan_.buffers[id])) continue;
      return fail("buffer {} overlaps {}, and the pad of one must stay zero", name, other);
    }
    if (first.always || second.always) {
      return fail("buffer {} overlaps {}, which outlives the call", name, other);
    }
    std::set<std::pair<uint32_t, uint32_t>> places = first.places;
    places.insert(second.places.begin(), second.places.end());
    for (const auto& place : places) {
      const uint32_t sweep = place.first;
      if (!lives_in(first, sweep) || !lives_in(second, sweep)) continue;
      if (first.kept || second.kept) {
        return fail("buffer {} overlaps {} from wave to wave", name, other);
      }
      const auto of_another_lag = [&place](const auto& third) {
        return third.first == place.first && third.second != place.second;
      };
      if (std::ranges::any_of(places, of_another_lag)) {
        return fail("buffer {} overlaps {}, which another lag uses", name, other);
      }
    }
    return {};
  }

  /// Kept ones from the first sweep that uses them to the last.
  static bool lives_in(const Uses& uses, uint32_t sweep) {
    if (uses.places.empty()) return false;
    return uses.places.begin()->first <= sweep && sweep <= uses.places.rbegin()->first;
  }

  Status check_in_place(const Launch& launch) const {
    struct Place {
      MemoryPiece piece = MemoryPiece::None;
      int64_t begin = 0;
      int64_t end = 0;
      const Touch* touch = nullptr;
    };
    const std::vector<Touch> all = touches(plan_, launch);
    std::vector<Place> places;
    for (const Touch& touch : all) {
      const Buffer& buffer = plan_.buffers[touch.access.buffer];
      const MemoryPiece piece = memory_piece(buffer);
      if (piece == MemoryPiece::None) continue;
      places.push_back({piece, buffer.offset, buffer.offset + byte_size(plan_, buffer), &touch});
    }
    std::ranges::sort(places, {}, [](const Place& p) { return std::pair(p.piece, p.begin); });
    for (auto first = places.begin(); first != places.end(); ++first) {
      for (auto second = std::next(first); second != places.end(); ++second) {
        if (second->piece != first->piece || second->begin >= first->end) break;
        if (Status status = check_in_place(launch, *first->touch, *second->touch); !status) {
          return status;
        }
      }
    }
    return {};
  }

  /// Two touches of one launch whose buffers overlap, or are one.
  Status check_in_place(const Launch& launch, const Touch& a, const Touch& b) const {
    if (a.access.buffer == b.access.buffer || (!a.write && !b.write)) return {};
    const Touch& write = a.write ? a : b;
    const Touch& other = a.write ? b : a;
    const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch);
    if (elementwise != nullptr && is_in_place(*elementwise, write, other)) return {};
    return fail("{} is written over {}, which the same launch touches",
                plan_.buffers[write.access.buffer].name, plan_.buffers[other.access.buffer].name);
  }

  bool is_in_place(const ElementwiseLaunch& launch, const Touch& write, const Touch& read) const {
    const Kernel& kernel = plan_.kernels[launch.kernel];
    const Buffer& from = plan_.buffers[read.access.buffer];
    const Buffer& to = plan_.buffers[write.access.buffer];
    const bool same_place =
        from.offset == to.offset && from.extent == to.extent && from.width == to.width &&
        rnnc::size_of(from.dtype) == rnnc::size_of(to.dtype) &&
        read.access.column == write.access.column && read.access.stride == write.access.stride &&
        read.count == write.count && from.history == 0 && to.history == 0;
    return same_place && !read.write && !has_reductions(kernel) && kernel.loops.empty() &&
           position(launch, read, Instruction::Kind::Load) <
               position(launch, write, Instruction::Kind::Store);
  }

  /// Of the instruction that touches the buffer.
  size_t position(const ElementwiseLaunch& launch, const Touch& touch,
                  Instruction::Kind kind) const {
    const std::vector<Instruction>& body = plan_.kernels[launch.kernel].body;
    for (size_t i = 0; i < body.size(); ++i) {
      const bool moves = body[i].kind == kind;
      if (moves && launch.accesses[body[i].argument].buffer == touch.access.buffer) return i;
    }
    return body.size();
  }

  const Plan& plan_;
  std::vector<Uses> uses_;
};

}  // namespace

Status verify_memory(const Plan& plan) {
  return MemoryVerifier(plan).run();
}

}  // namespace rnnc
