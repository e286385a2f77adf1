// ---- Scans: linear recurrences, tiles of time side by side (ScanLaunch of ir/plan/plan.h). ----
//
// A block has a tile: 32 packets of channels, a lane each, and Warps * Steps steps, of which each
// warp has Steps. Tiles are numbered by time within their channels, and blocks take them in that
// order, so that none waits for a tile that nobody has begun.
//
// A thread computes once what its steps need that no state is part of, or none but of earlier
// rounds, and keeps it in registers (ir/plan/scan_values.h). Round by round, it composes the maps
// of its steps, a warp those of all warps, and hands that on. What comes before a tile are the
// states behind its base, the last tile before it whose number is a multiple of Group, and the maps
// of the tiles between: these are composed while the states are on their way, always in the same
// parts and order, so that bits are the same from run to run. Of many channels the base has mostly
// ended long before: its states are asked for together with the tile's inputs.
//
// Composed maps may be infinite, or NaN, where step by step nothing is; and they do not overflow
// where a step in between does. So they count only as far as nothing on the way can come near
// overflow. Otherwise the tile goes step by step, warp after warp, and hands on the states behind
// it; whoever needs these knows it, since it sees the same maps and states.
//
// Totals over the steps a thread adds up in registers, and the block warp after warp: each tile
// leaves its own sums behind, so that who adds up those of all tiles has them in one order.

// So many steps of `distance` bytes behind `first`.
template <typename T, typename Distance>
static __device__ __forceinline__ T* rnnc_steps_on(T* first, int steps, Distance distance) {
  char* const bytes = const_cast<char*>(reinterpret_cast<const char*>(first));
  return reinterpret_cast<T*>(bytes + static_cast<rnnc_word>(steps) * distance);
}

// As rnnc_kept, of an array in global memory.
template <typename T>
static __device__ __forceinline__ T* rnnc_kept_array(T* array) {
  T* const kept = rnnc_kept(array);
  __builtin_assume(__isGlobal(kept));
  return kept;
}

// Of a round's tiles, what they hand to each other: word w of a channel's tile lies w * channels
// behind the first.
struct rnnc_scan_words {
  unsigned* first;    // of the round, tile 0, the thread's channel
  rnnc_word tile;     // from one tile to the next
  unsigned channels;  // from one word to the next

  // Of a float no bit pattern is that of memory that nobody wrote.
  __device__ __forceinline__ void put(int of_tile, int word, float value) const {
    const unsigned bits = value != value ? 0x7fffffffu : __float_as_uint(value);
    rnnc_publish<4>(first + of_tile * tile + static_cast<rnnc_word>(word) * channels, &bits);
  }
  // Waits until all are there.
  template <int Words>
  __device__ __forceinline__ void get(int of_tile, int word, float* values) const {
    const unsigned* const from = first + of_tile * tile + static_cast<rnnc_word>(word) * channels;
    unsigned bits[Words];
    while (true) {
      bool missing = false;
#pragma unroll
      for (int i = 0; i < Words; ++i) {
        rnnc_poll<4>(from + static_cast<rnnc_word>(i) * channels, &bits[i]);
      }
#pragma unroll
      for (int i = 0; i < Words; ++i) missing = missing || bits[i] == 0xffffffffu;
      if (!missing) break;
      rnnc_spin_pause();
    }
#pragma unroll
    for (int i = 0; i < Words; ++i) values[i] = __uint_as_float(bits[i]);
  }
};

struct rnnc_scan_tile {
  int index;
  int count;      // of tiles of these channels
  int own_steps;  // of a thread, but in the last tile
  int left;       // steps of the chunk, from the thread's first on
  bool inside;    // whether the thread's channels are any, or stand in for some

  __device__ __forceinline__ bool is_whole() const { return left >= own_steps; }
  __device__ __forceinline__ bool has(int step) const { return step < left; }
  __device__ __forceinline__ bool has_last() const { return left > 0 && left <= own_steps; }
  // The step, or the last of the chunk.
  __device__ __forceinline__ int near(int step) const { return min(step, left - 1); }
};

// What lies so many bytes behind an address of global memory. (NVRTC 13.0 never ended a backward half
// of RG-LRU with a conversion of the address, as rnnc_place has it, in place of the assumption, and
// where the sum was assumed to be such an address it loaded as from any memory.)
template <typename T>
static __device__ __forceinline__ T* rnnc_scan_array(rnnc_word place, rnnc_word bytes = 0) {
  char* const first = reinterpret_cast<char*>(place);
  __builtin_assume(__isGlobal(first));
  return reinterpret_cast<T*>(first + bytes);
}

// Where row 0 of each of Count arrays lies, into `places`, and the number of the next tile that
// nobody has begun, which array Words counts. A thread finds one, while the ticket is taken. (Found
// by each thread, they were a quarter of all instructions of RWKV-4's backward half in bf16.)
template <int Count, int Words>
static __device__ __forceinline__ unsigned rnnc_scan_begin(const rnnc_word* frame,
                                                           const rnnc_access* arrays,
                                                           rnnc_word* places) {
  __shared__ unsigned ticket;
  for (int i = threadIdx.x; i < Count; i += blockDim.x) {
    const int array = (i + Words) % Count;
    const rnnc_word place = rnnc_address(frame, arrays[array]);
    places[array] = place;
    if (i == 0) ticket = atomicInc(rnnc_scan_array<unsigned>(place), 0xffffffffu) + 1;
  }
  __syncthreads();
  return ticket;
}

// The base of a tile that is not the first.
template <typename Scan>
static __device__ __forceinline__ int rnnc_scan_base(const rnnc_scan_tile& tile) {
  return (tile.index - 1) / Scan::kGroup * Scan::kGroup;
}

// One of a scan's rounds in its tile. Scan is the generated struct (emit_scan.cpp): `values` are
// what the thread keeps of its steps, `before` the states before them of earlier rounds, which have
// been found, and of this one, which will be.
template <typename Scan, int Round>
struct rnnc_scan_round {
  typedef typename Scan::template round<Round> round;
  typedef rnnc_map<typename round::structure, round::kBounded> map;
  static constexpr int kItems = Scan::kItems;
  static constexpr int kWarps = Scan::kWarps;
  static constexpr int kGroup = Scan::kGroup;
  static constexpr int kStates = map::kStates;
  static constexpr int kWords = map::kWords;
  static constexpr int kHandedOn = kGroup > 1 ? kWords : 0;  // in front of a tile's states

  // Of the maps between the base and a tile, so many parts are composed side by side.
  static constexpr int kShares = kGroup - 1 < kWarps / kItems ? kGroup - 1 : kWarps / kItems;
  static_assert(kItems <= kWarps, "each item's states are found by a warp of its own");

  struct shared_words {
    float warps[kWarps][kItems * kWords][32];  // maps of warps, and then of all warps up to one
    float before[kShares > 0 ? kShares : 1][kItems * kWords][32];  // of tiles before, each of a few
    float states[kItems * kStates][32];  // before the tile; step by step, before the warp
    int one_by_one;
  };

  const Scan& scan;
  typename Scan::values* values;
  const rnnc_scan_tile& tile;
  const rnnc_scan_words words;
  float (*before)[Scan::kStates];  // by item
  shared_words& shared;
  const unsigned* early;  // by state and lane: of the thread's item, as they were early on

  // The first warps find the states before the tile, each of an item.
  __device__ __forceinline__ void run() {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) shared.one_by_one = 0;
    if (tile.is_whole()) {
      compose<true>(warp, lane);
    } else {
      compose<false>(warp, lane);
    }
    const int base = tile.index == 0 ? 0 : rnnc_scan_base<Scan>(tile);
    __syncthreads();
    map whole;
    if (warp < kItems) whole = hand_on(warp, lane);
    if constexpr (kShares > 0) {
      fetch(warp, lane, base);
      __syncthreads();
    }
    bool serial = false;
    if (warp < kItems) serial = begin(warp, lane, base, whole);
    __syncthreads();
    if (shared.one_by_one == 0) {
      take_states(warp, lane);
    } else {
      go_one_by_one(warp, lane);
      if (serial) publish_ends(warp, lane);
    }
  }

 private:
  __device__ __forceinline__ rnnc_scan_words channel(int x) const {
    return {words.first + x, words.tile, words.channels};
  }

  // The thread's steps, which leaves the map in `shared.warps`.
  template <bool Whole>
  __device__ __forceinline__ void compose(int warp, int lane) {
#pragma unroll
    for (int x = 0; x < kItems; ++x) {
      map all = map::identity();
      bool fits = true;
      float states[Scan::kStates];
#pragma unroll
      for (int i = 0; i < Scan::kStates; ++i) states[i] = before[x][i];
#pragma unroll
      for (int s = 0; s < Scan::kSteps; ++s) {
        map one;
        float next[Scan::kStates];
        round::step(scan, values[s], x, states, next, one.a, one.b);
        if (Whole || tile.has(s)) {
          all = all.then(one);
          fits &= all.fits();
#pragma unroll
          for (int i = 0; i < Scan::kStates; ++i) states[i] = next[i];
        }
      }
      if (!fits) all = map::none();
      float words[kWords];
      all.to_words(words);
#pragma unroll
      for (int i = 0; i < kWords; ++i) shared.warps[warp][x * kWords + i][lane] = words[i];
    }
  }

  // The maps between the base and this tile, into `shared`: each warp composes some of an item.
  __device__ __forceinline__ void fetch(int warp, int lane, int base) {
    const int maps = tile.index == 0 ? 0 : tile.index - base - 1;
    for (int job = warp; job < kShares * kItems; job += kWarps) {
      const int x = job % kItems;
      const int share = job / kItems;
      map all = map::identity();
      bool fits = true;
      for (int other = share * maps / kShares; other < (share + 1) * maps / kShares; ++other) {
        float words[kWords];
        channel(x).template get<kWords>(base + 1 + other, 0, words);
        all = all.then(map::from_words(words));
        fits &= all.fits();
      }
      if (!fits) all = map::none();
      float words[kWords];
      all.to_words(words);
#pragma unroll
      for (int i = 0; i < kWords; ++i) shared.before[share][x * kWords + i][lane] = words[i];
    }
  }

  __device__ __forceinline__ map warp_map(int warp, int x, int lane) const {
    float values[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) values[i] = shared.warps[warp][x * kWords + i][lane];
    return map::from_words(values);
  }

  // The map of the whole tile, for later ones that do not begin from the states behind it. Leaves
  // that of all warps up to each.
  __device__ __forceinline__ map hand_on(int x, int lane) {
    map all = map::identity();
    bool fits = true;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      all = all.then(warp_map(warp, x, lane));
      fits &= all.fits();
      float words[kWords];
      all.to_words(words);
#pragma unroll
      for (int i = 0; i < kWords; ++i) shared.warps[warp][x * kWords + i][lane] = words[i];
    }
    if (!fits) all = map::none();
    if (tile.inside && tile.index + 1 < tile.count && tile.index % kGroup != 0) {
      float words[kWords];
      all.to_words(words);
#pragma unroll
      for (int i = 0; i < kWords; ++i) channel(x).put(tile.index, i, words[i]);
    }
    return all;
  }

  // Through a tile, if it is sure that nothing overflows on the way.
  static __device__ __forceinline__ bool pass(const map& through, float* states,
                                              float times = 1.0f) {
    const bool sure = map::fit(states, times) && through.fits();
    through.apply(states);
    return sure && map::fit(states, times);
  }

  // Finds the states before the tile. Whether it must go step by step. The states behind the base
  // come last, and are handed on as soon as they are there: everybody waits for them.
  __device__ __forceinline__ bool begin(int x, int lane, int base, const map& whole) {
    map others = map::identity();
    bool fits = true;
    for (int share = 0; share < kShares; ++share) {
      float words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = shared.before[share][x * kWords + i][lane];
      others = others.then(map::from_words(words));
      fits &= others.fits();
    }
    if (!fits) others = map::none();
    float states[kStates];
    if (tile.index == 0) {
#pragma unroll
      for (int i = 0; i < kStates; ++i) states[i] = first_state(x, round::state(i));
    } else {
      states_behind(x, lane, base, states);
      go_through(x, base, others, states);
    }
    float behind[kStates];
#pragma unroll
    for (int i = 0; i < kStates; ++i) behind[i] = states[i];
    const bool serial = !pass(whole, behind);
    if (!serial && tile.index % kGroup == 0) put_states(x, behind);
    if (serial) shared.one_by_one = 1;
#pragma unroll
    for (int i = 0; i < kStates; ++i) shared.states[x * kStates + i][lane] = states[i];
    return serial;
  }

  __device__ __forceinline__ void states_behind(int x, int lane, int base, float* states) const {
    bool missing = !Scan::kEarly;
#pragma unroll
    for (int i = 0; i < kStates && Scan::kEarly; ++i) {
      const unsigned bits = early[round::state(i) * 32 + lane];
      states[i] = __uint_as_float(bits);
      missing |= bits == 0xffffffffu;
    }
    if (missing) channel(x).template get<kStates>(base, kHandedOn, states);
  }

  // From behind the base to before the tile: one by one where the maps together do not count. Of
  // these a tile hands on the states behind it if it could not pass. It may have rounded otherwise:
  // what it passed, this one must, or it would wait for ever.
  __device__ __forceinline__ void go_through(int x, int base, const map& others,
                                             float* states) const {
    float through[kStates];
#pragma unroll
    for (int i = 0; i < kStates; ++i) through[i] = states[i];
    if (pass(others, through)) {
#pragma unroll
      for (int i = 0; i < kStates; ++i) states[i] = through[i];
      return;
    }
    for (int other = base + 1; other < tile.index; ++other) {
      float words[kWords];
      channel(x).template get<kWords>(other, 0, words);
      if (!pass(map::from_words(words), states, 2.0f)) {
        channel(x).template get<kStates>(other, kHandedOn, states);
      }
    }
  }

  // `before` at an index that registers can't have.
  __device__ __forceinline__ float first_state(int item, int state) const {
    float result = 0.0f;
#pragma unroll
    for (int x = 0; x < kItems; ++x) {
      if (x == item) result = before[x][state];
    }
    return result;
  }

  __device__ __forceinline__ void put_states(int x, const float* states) const {
    if (!tile.inside || tile.index + 1 >= tile.count) return;
#pragma unroll
    for (int i = 0; i < kStates; ++i) channel(x).put(tile.index, kHandedOn + i, states[i]);
  }

  // The states before the thread's steps, by the map of the warps before.
  __device__ __forceinline__ void take_states(int warp, int lane) {
#pragma unroll
    for (int x = 0; x < kItems; ++x) {
      float states[kStates];
#pragma unroll
      for (int i = 0; i < kStates; ++i) states[i] = shared.states[x * kStates + i][lane];
      if (warp > 0) warp_map(warp - 1, x, lane).apply(states);
#pragma unroll
      for (int i = 0; i < kStates; ++i) before[x][round::state(i)] = states[i];
    }
  }

  // Warp after warp, which leaves the states behind the tile in `shared.states`.
  __device__ __forceinline__ void go_one_by_one(int warp, int lane) {
    for (int turn = 0; turn < kWarps; ++turn) {
      if (turn == warp) {
#pragma unroll
        for (int x = 0; x < kItems; ++x) {
          float states[Scan::kStates];
#pragma unroll
          for (int i = 0; i < kStates; ++i) {
            before[x][round::state(i)] = shared.states[x * kStates + i][lane];
          }
#pragma unroll
          for (int i = 0; i < Scan::kStates; ++i) states[i] = before[x][i];
#pragma unroll
          for (int s = 0; s < Scan::kSteps; ++s) {
            float next[Scan::kStates];
            Scan::template round<Round + 1>::advance(scan, values[s], x, states, next);
            if (tile.has(s)) {
#pragma unroll
              for (int i = 0; i < Scan::kStates; ++i) states[i] = next[i];
            }
          }
#pragma unroll
          for (int i = 0; i < kStates; ++i) {
            shared.states[x * kStates + i][lane] = states[round::state(i)];
          }
        }
      }
      __syncthreads();
    }
  }

  __device__ __forceinline__ void publish_ends(int x, int lane) const {
    float states[kStates];
#pragma unroll
    for (int i = 0; i < kStates; ++i) states[i] = shared.states[x * kStates + i][lane];
    put_states(x, states);
  }
};

// The states behind the base, as far as they are there, of a thread's first channel.
template <typename Scan, int Round>
static __device__ __forceinline__ void rnnc_scan_ask_early(int base, rnnc_scan_words words,
                                                           unsigned* early) {
  if constexpr (Round < Scan::kRounds) {
    typedef rnnc_scan_round<Scan, Round> round;
    const unsigned* const from = words.first + base * words.tile;
#pragma unroll
    for (int i = 0; i < round::kStates; ++i) {
      rnnc_poll<4>(from + static_cast<rnnc_word>(round::kHandedOn + i) * words.channels,
                   &early[round::round::state(i)]);
    }
    words.first += static_cast<rnnc_word>(round::kHandedOn + round::kStates) * words.channels;
    rnnc_scan_ask_early<Scan, Round + 1>(base, words, early);
  }
}

template <typename Scan, int Round>
static __device__ constexpr unsigned rnnc_scan_round_bytes() {
  if constexpr (Round < Scan::kRounds) {
    constexpr unsigned own = sizeof(typename rnnc_scan_round<Scan, Round>::shared_words);
    constexpr unsigned others = rnnc_scan_round_bytes<Scan, Round + 1>();
    return own > others ? own : others;
  } else {
    return 0;
  }
}

// Shared memory: rounds take turns, in two halves if there is room, so that a round need not wait
// until the one before it has been read; then what was asked for early.
template <typename Scan>
struct rnnc_scan_memory {
  static constexpr unsigned kRound = rnnc_scan_round_bytes<Scan, 0>() / sizeof(float);
  static constexpr bool kHalves = Scan::kRounds > 1 && kRound <= 4096;
  static constexpr unsigned kRounds = kHalves ? 2 * kRound : kRound;
  static constexpr unsigned kEarlyOfItem = 32 * Scan::kStates;
  static constexpr unsigned kWords = kRounds + (Scan::kEarly ? Scan::kItems * kEarlyOfItem : 0);
};

// All rounds from one on.
template <typename Scan, int Round>
static __device__ __forceinline__ void rnnc_scan_rounds(
    const Scan& scan, typename Scan::values* values, const rnnc_scan_tile& tile,
    rnnc_scan_words words, float (*before)[Scan::kStates], float* memory, const unsigned* early) {
  if constexpr (Round < Scan::kRounds) {
    typedef rnnc_scan_round<Scan, Round> round;
    typedef rnnc_scan_memory<Scan> all;
    float* const own = memory + (all::kHalves ? Round % 2 * all::kRound : 0);
    auto& shared = *reinterpret_cast<typename round::shared_words*>(own);
    round{scan, values, tile, words, before, shared, early}.run();
    if constexpr (Round + 1 < Scan::kRounds && !all::kHalves) __syncthreads();
    words.first += static_cast<rnnc_word>(round::kHandedOn + round::kStates) * words.channels;
    rnnc_scan_rounds<Scan, Round + 1>(scan, values, tile, words, before, memory, early);
  }
}

// What the thread keeps of its steps. All are loaded before any is waited for.
template <bool Whole, typename Scan>
static __device__ __forceinline__ void rnnc_scan_load(const Scan& scan, const rnnc_scan_tile& tile,
                                                      const rnnc_scan_words& words,
                                                      typename Scan::values* values,
                                                      unsigned* early) {
  typename Scan::inputs inputs[Scan::kSteps];
#pragma unroll
  for (int s = 0; s < Scan::kSteps; ++s) inputs[s] = scan.load(Whole ? s : tile.near(s));
  const int warp = threadIdx.x / 32;
  const bool asks = Scan::kEarly && warp < Scan::kItems && tile.index > 0;
  unsigned bits[Scan::kStates];
  if (asks) {
    const rnnc_scan_words own = {words.first + warp, words.tile, words.channels};
    rnnc_scan_ask_early<Scan, 0>(rnnc_scan_base<Scan>(tile), own, bits);
  }
#pragma unroll
  for (int s = 0; s < Scan::kSteps; ++s) values[s] = scan.keep(inputs[s]);
  if (!asks) return;
#pragma unroll
  for (int i = 0; i < Scan::kStates; ++i) early[i * 32 + threadIdx.x % 32] = bits[i];
}

template <bool Whole, typename Scan>
static __device__ __forceinline__ void rnnc_scan_run(const Scan& scan, const rnnc_scan_tile& tile,
                                                     const typename Scan::values* values,
                                                     float (*states)[Scan::kStates],
                                                     float* totals) {
  const typename Scan::outputs outputs = scan.open();
#pragma unroll
  for (int s = 0; s < Scan::kSteps; ++s) {
    if (Whole || tile.has(s)) scan.run(values[s], s, states, outputs, tile.inside, totals);
  }
}

// The totals of all warps' threads, as many at once as there is room for, to where the thread's
// channels have theirs.
template <typename Scan>
static __device__ __forceinline__ void rnnc_scan_add_up(const rnnc_scan_tile& tile,
                                                        const float* totals, float* memory,
                                                        float* partials) {
  constexpr int kWarps = Scan::kWarps;
  constexpr int kTotals = Scan::kTotals * Scan::kItems;
  constexpr int kRoom = rnnc_scan_memory<Scan>::kWords / (32 * kWarps);
  static_assert(kRoom > 0, "a warp's maps take as much");
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int first = 0; first < kTotals; first += kRoom) {
    const int count = min(kRoom, kTotals - first);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRoom; ++i) {
      if (i < count) memory[(i * kWarps + warp) * 32 + lane] = totals[first + i];
    }
    __syncthreads();
    for (int i = warp; i < count; i += kWarps) {
      float sum = memory[i * kWarps * 32 + lane];
#pragma unroll
      for (int other = 1; other < kWarps; ++other) sum += memory[(i * kWarps + other) * 32 + lane];
      const int total = first + i;
      if (tile.inside) partials[total / Scan::kItems * Scan::kLength + total % Scan::kItems] = sum;
    }
  }
}

// The whole of a block. `words`: of the thread's channels; `memory`: shared, rnnc_scan_memory's;
// `partials`: the tile's, from the thread's first channel on.
template <typename Scan>
static __device__ __forceinline__ void rnnc_scan(const Scan& scan, const rnnc_scan_tile& tile,
                                                 const rnnc_scan_words& words, float* memory,
                                                 float* partials = nullptr) {
  typedef rnnc_scan_memory<Scan> all;
  unsigned* const early = reinterpret_cast<unsigned*>(memory + all::kRounds) +
                          (Scan::kEarly ? threadIdx.x / 32 % Scan::kItems * all::kEarlyOfItem : 0);
  typename Scan::values values[Scan::kSteps];
  if (tile.is_whole()) {
    rnnc_scan_load<true>(scan, tile, words, values, early);
  } else {
    rnnc_scan_load<false>(scan, tile, words, values, early);
  }
  float states[Scan::kItems][Scan::kStates] = {};
  if (tile.index == 0) scan.load_states(states);
  rnnc_scan_rounds<Scan, 0>(scan, values, tile, words, states, memory, early);
  float totals[Scan::kTotals * Scan::kItems + 1] = {};  // the last of nothing: no array is empty
  if (tile.is_whole()) {
    rnnc_scan_run<true>(scan, tile, values, states, totals);
  } else {
    rnnc_scan_run<false>(scan, tile, values, states, totals);
  }
  if (tile.has_last() && tile.inside) scan.store_states(states);
  if constexpr (Scan::kTotals > 0) rnnc_scan_add_up<Scan>(tile, totals, memory, partials);
}
