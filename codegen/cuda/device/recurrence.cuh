// ---- Resident recurrences (ir/plan/plan.h: RecurrenceLaunch). ----
//
// A thread block makes the results of `Units` neighbouring elements of a row, for all steps and for
// the rows of its group, and keeps their weights on the chip. Its warps split each product along k,
// so that a warp loads only its own part of the left operand, straight into the registers that
// multiply; the warps' sums meet in shared memory, where the elementwise work adds them up in
// order. Where k is short, warps share the gates instead.
//
// Blocks exchange a state through memory that was filled with ones (rnnc_is_unwritten) before the
// launch and is written once: who reads it looks at the data until they are there. No flag, no
// fence, one trip through the L2 cache. There a state lies as tensor cores take it
// (ir/persistent/recurrence_exchange.h): pieces of 64 bytes along k, those of up to 8 rows side by
// side. On an H200 this alone made steps a third shorter than rows one after the other did.
//
// Blocks of a cluster store a state to each other's shared memory, where a barrier counts bytes: in
// half the time (16 blocks, 64 words of each: 0.32 us, through memory 0.68).
//
// Neighbouring blocks may share the k of products, as a cluster: each then has the gates of all
// their elements, but only its part of k, and reads that part of the left operand alone. What the
// sums come to it hands to the block that has the element, through its shared memory.
//
// A lane's place: lane 4 * i + j has bytes [16j, 16j + 16) of each piece of 64 bytes along k, of
// row i of the left operand's tiles of 8 rows, and of gates i and i + 8 of the weights' tiles
// of 16.

extern __shared__ __align__(16) unsigned char rnnc_shared[];

// Row `row` of an array without a slot, whose rows are Stride elements apart.
template <typename T, long long Stride>
static __device__ __forceinline__ T* rnnc_at(const rnnc_access& access, unsigned row) {
  T* const place = reinterpret_cast<T*>(access.address) + static_cast<rnnc_word>(row) * Stride;
  __builtin_assume(__isGlobal(place));
  return place;
}

// Which elements of a row each block has in a phase: Shape::kUnits of them, which all lie in one of
// the row's Shape::kSegments segments of Shape::kSegmentLength elements (one segment, but where a
// weight is block-diagonal).
template <typename Shape>
struct rnnc_units {
  static constexpr unsigned kUnits = Shape::kUnits;
  static constexpr unsigned kSegmentLength = Shape::kSegmentLength;
  static constexpr unsigned kLength = kSegmentLength * Shape::kSegments;
  static constexpr bool kFull = kSegmentLength % kUnits == 0;  // no block has fewer
  // Of a segment: whole clusters of Shape::kKBlocks blocks that share k.
  static constexpr unsigned kAcross = (kSegmentLength + Shape::kKBlocks * kUnits - 1) /
                                      (Shape::kKBlocks * kUnits) * Shape::kKBlocks;
  static __device__ __forceinline__ unsigned first(unsigned block) {
    return block / kAcross * kSegmentLength + block % kAcross * kUnits;
  }
  // Of the block's cluster.
  static __device__ __forceinline__ unsigned first_of_sharing(unsigned block) {
    return first(block - block % Shape::kKBlocks);
  }
  // Of the segment, or of no elements for blocks that have none.
  static __device__ __forceinline__ unsigned end(unsigned block) {
    return block < kAcross * Shape::kSegments ? (block / kAcross + 1) * kSegmentLength : 0;
  }
  static __device__ __forceinline__ unsigned count(unsigned block) {
    return min(kUnits, end(block) - first(block));
  }
};

// Where a slice of the exchange lies in a step (ir/persistent/recurrence_exchange.h).
// Of each row there are Slice::kVectors vectors of Slice::kK elements, one for each block of a
// block-diagonal weight. Slice::kTiles tiles of Slice::kTileRows rows hold the rows of a group.
template <typename Slice>
struct rnnc_slice {
  static constexpr unsigned kVector =
      (Slice::kK * Slice::kElementBytes + 63) / 64 * Slice::kTileRows * 64;
  static constexpr unsigned kTile = Slice::kVectors * kVector;

  static __device__ __forceinline__ unsigned vector(unsigned group, unsigned index) {
    return group * Slice::kTiles * kTile + index * kVector;
  }
  static __device__ __forceinline__ unsigned element(unsigned group, unsigned index) {
    const unsigned byte = index % Slice::kK * Slice::kElementBytes;
    return vector(group, index / Slice::kK) + byte / 64 * (Slice::kTileRows * 64) + byte % 64;
  }
  static __device__ __forceinline__ unsigned row(unsigned row_of_group) {
    return row_of_group / 8 * kTile + row_of_group % 8 * 64;
  }
};

// Brings the block's share of some bytes, which Blocks blocks load, to the L2 cache.
template <unsigned Blocks>
static __device__ __forceinline__ void rnnc_prefetch_part(const char* from, unsigned bytes,
                                                          unsigned block) {
  constexpr unsigned kSectorBytes = 32;
  for (unsigned at = (block * 32 + threadIdx.x % 32) * kSectorBytes; at < bytes;
       at += Blocks * 32 * kSectorBytes) {
    rnnc_prefetch(from + at);
  }
}

// What loops that wait for other blocks call. With a watchdog, they do not wait forever.
class rnnc_patience {
 public:
  __device__ __forceinline__ void wait() {
    if constexpr (kWatchdogSeconds != 0) {
      const unsigned long long now = rnnc_globaltimer();
      if (since_ == 0) since_ = now;
      if (now - since_ > kWatchdogSeconds * 1000000000ull) {
        rnnc_give_up();
      }
    }
    rnnc_spin_pause();
  }

 private:
  unsigned long long since_ = 0;
};

// Whether something of a word is still what memory was filled with: a NaN that nothing computed is
// stored as (rnnc_exchanged). Unless words are stored as a Whole, that may be one of two values.
template <bool Whole>
static __device__ __forceinline__ bool rnnc_is_unwritten(unsigned word) {
  if constexpr (Whole) {
    return word == 0xffffffffu;
  } else {
    return ((~word - 0x00010001u) & word & 0x80008000u) != 0;  // some half of ~word is zero
  }
}

// Where a thread will store to the exchange some steps later, it stores once more what is there. So
// the line is in the L2 cache when blocks look for the value: there it was before the launch, but
// whatever goes through the cache meanwhile drives it out, and who looks for it waits for memory.
// (Steps of training on an H200, bf16: LSTM 16x1024 4.26 us without, 3.88 with loads of these lines
// ahead, 3.82 so; GRU 3.66, 3.23, 3.11.)
template <int Bytes>
static __device__ __forceinline__ void rnnc_refresh(char* to) {
  constexpr unsigned kOnes[4] = {~0u, ~0u, ~0u, ~0u};
  rnnc_publish<Bytes>(to, kOnes);
}
// Likewise behind the last value of a vector, up to the end of its sector: one of which only a part
// is stored is loaded from memory first. Place: in the sector.
template <int Place>
static __device__ __forceinline__ void rnnc_refresh_pad(char* to) {
  constexpr int kSectorBytes = 32;
  if constexpr (Place < kSectorBytes) {
    constexpr int kBytes = Place % 16 == 0 ? 16 : Place & -Place;
    rnnc_refresh<kBytes>(to);
    rnnc_refresh_pad<Place + kBytes>(to + kBytes);
  }
}

// The bits of a value that other blocks wait for, as their products take it. Conversions to 16 bits
// make one NaN of all.
template <rnnc_engine Engine>
static __device__ __forceinline__ unsigned rnnc_exchanged(float value) {
  if constexpr (Engine == rnnc_engine::f16) {
    return rnnc_to_f16(value);
  } else if constexpr (Engine == rnnc_engine::bf16) {
    return rnnc_to_bf16(value);
  } else {
    if (value != value) return 0x7fc00000u;
    return Engine == rnnc_engine::tf32 ? rnnc_to_tf32(value) : __float_as_uint(value);
  }
}
template <rnnc_engine Engine>
static __device__ __forceinline__ void rnnc_exchange(char* to, float value) {
  const unsigned bits = rnnc_exchanged<Engine>(value);
  rnnc_publish<Engine == rnnc_engine::f16 || Engine == rnnc_engine::bf16 ? 2 : 4>(to, &bits);
}
// Two neighbouring values, at a place aligned to both.
template <rnnc_engine Engine>
static __device__ __forceinline__ void rnnc_exchange(char* to, float first, float second) {
  unsigned bits[2] = {rnnc_exchanged<Engine>(first), rnnc_exchanged<Engine>(second)};
  if constexpr (Engine == rnnc_engine::f16 || Engine == rnnc_engine::bf16) {
    bits[0] |= bits[1] << 16;
    rnnc_publish<4>(to, bits);
  } else {
    rnnc_publish<8>(to, bits);
  }
}

// Likewise, of values that the block alone waits for, at a barrier.
template <rnnc_engine Engine>
static __device__ __forceinline__ void rnnc_keep(char* to, float value) {
  const unsigned bits = rnnc_exchanged<Engine>(value);
  if constexpr (Engine == rnnc_engine::f16 || Engine == rnnc_engine::bf16) {
    *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(bits);
  } else {
    *reinterpret_cast<unsigned*>(to) = bits;
  }
}
template <rnnc_engine Engine>
static __device__ __forceinline__ void rnnc_keep(char* to, float first, float second) {
  const unsigned bits[2] = {rnnc_exchanged<Engine>(first), rnnc_exchanged<Engine>(second)};
  if constexpr (Engine == rnnc_engine::f16 || Engine == rnnc_engine::bf16) {
    *reinterpret_cast<unsigned*>(to) = bits[0] | bits[1] << 16;
  } else {
    *reinterpret_cast<uint2*>(to) = make_uint2(bits[0], bits[1]);
  }
}

// Likewise, of a word that all `Blocks` blocks of the cluster wait for, at a barrier of theirs that
// counts the bytes. Both are at the same address in each block.
template <int Blocks, int Bytes>
static __device__ __forceinline__ void rnnc_send_words(unsigned to, unsigned barrier,
                                                       const unsigned* words) {
#pragma unroll
  for (unsigned rank = 0; rank < Blocks; ++rank) {
    rnnc_store_in_cluster<Bytes>(rnnc_address_in_cluster(to, rank), words,
                                 rnnc_address_in_cluster(barrier, rank));
  }
}
template <rnnc_engine Engine, int Blocks>
static __device__ __forceinline__ void rnnc_send(unsigned to, unsigned barrier, float value) {
  static_assert(Engine != rnnc_engine::f16 && Engine != rnnc_engine::bf16, "whole words");
  const unsigned bits = rnnc_exchanged<Engine>(value);
  rnnc_send_words<Blocks, 4>(to, barrier, &bits);
}
// Of halves, one alone is a word with a zero.
template <rnnc_engine Engine, int Blocks>
static __device__ __forceinline__ void rnnc_send(unsigned to, unsigned barrier, float first,
                                                 float second, bool both) {
  unsigned bits[2] = {rnnc_exchanged<Engine>(first), both ? rnnc_exchanged<Engine>(second) : 0};
  if constexpr (Engine == rnnc_engine::f16 || Engine == rnnc_engine::bf16) {
    bits[0] |= bits[1] << 16;
    rnnc_send_words<Blocks, 4>(to, barrier, bits);
  } else if (both) {
    rnnc_send_words<Blocks, 8>(to, barrier, bits);
  } else {
    rnnc_send_words<Blocks, 4>(to, barrier, bits);
  }
}
// Until all bytes of a slice have arrived.
static __device__ __forceinline__ void rnnc_await_slice(unsigned barrier, unsigned parity) {
  rnnc_patience patience;
  while (!rnnc_has_arrived(barrier, parity)) patience.wait();
}

// A word that other blocks store.
static __device__ __forceinline__ unsigned rnnc_gathered(const char* from) {
  unsigned word;
  rnnc_poll<4>(from, &word);
  return word;
}
// Words that other blocks store, once all are there that a warp's lanes load: `load(i)` is what is
// seen of word i.
template <int Count, typename Load>
static __device__ __forceinline__ void rnnc_gather(unsigned (&words)[Count], const Load& load) {
#pragma unroll
  for (int i = 0; i < Count; ++i) words[i] = load(i);
  rnnc_patience patience;
  while (true) {
    bool missing = false;
#pragma unroll
    for (int i = 0; i < Count; ++i) missing = missing || rnnc_is_unwritten<true>(words[i]);
    if (!__any_sync(0xffffffffu, missing)) break;
    patience.wait();
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (rnnc_is_unwritten<true>(words[i])) words[i] = load(i);
    }
  }
}

// As a value reads that was stored as a T.
template <typename T>
static __device__ __forceinline__ float rnnc_rounded(float value) {
  T stored;
  rnnc_store(&stored, value);
  return rnnc_load(&stored);
}

// The first `bytes` bytes of 16, those after them zero, by loads of Granule bytes.
template <int Granule>
static __device__ __forceinline__ void rnnc_load_piece(unsigned* words, const char* from,
                                                       int bytes) {
  if constexpr (Granule >= 4) {
#pragma unroll
    for (int i = 0; i < 16 / Granule; ++i) {
      if (i * Granule < bytes) rnnc_poll<Granule>(from + i * Granule, words + i * (Granule / 4));
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (2 * i >= bytes) continue;
      unsigned half;
      rnnc_poll<2>(from + 2 * i, &half);
      words[i / 2] = i % 2 == 0 ? half : words[i / 2] & 0xffffu | half << 16;
    }
  }
}

// Likewise, at once where that turns out to be aligned.
template <int Granule>
static __device__ __forceinline__ void rnnc_load_aligned_piece(unsigned* words, const char* from,
                                                               int bytes) {
  if (bytes >= 16 && reinterpret_cast<rnnc_word>(from) % 16 == 0) {
    rnnc_load_piece<16>(words, from, 16);
  } else {
    rnnc_load_piece<Granule>(words, from, bytes);
  }
}

// Likewise, of 16 bits, from twice as many bytes of f32.
template <int Granule, bool IsF16>
static __device__ __forceinline__ void rnnc_load_wide_piece(unsigned* words, const char* from,
                                                            int bytes) {
  unsigned wide[8] = {};
  rnnc_load_aligned_piece<Granule>(wide, from, bytes);
  if (bytes > 16) rnnc_load_aligned_piece<Granule>(wide + 4, from + 16, bytes - 16);
  const auto half = [](unsigned bits) -> unsigned {
    const float value = __uint_as_float(bits);
    return IsF16 ? rnnc_to_f16(value) : rnnc_to_bf16(value);
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = half(wide[2 * i]) | half(wide[2 * i + 1]) << 16;
}

// A thread's share of some inputs, which are copied to shared memory some steps ahead. Of each step
// it copies Copy::kBytes bytes. From step to step they lie Copy::kAdvance bytes further on in
// memory, and in shared memory in turn at Copy::kSteps places that are Copy::kStepBytes apart.
// Copy::kIsChecked: memory may be aligned to elements of Copy::kElementBytes alone. Copy::kAhead:
// how many steps before its copy something is on its way to the L2 cache, or 0. (A load that waits
// for memory delays all later ones of the multiprocessor, and those look for what other blocks
// write: GRU 16x1024 in bf16 1.45 us, without 1.54.) Copy::kBack: bytes of a step if a step takes
// those of the one before it in the sequence, and the sequence's first one zeros; else 0.
template <typename Copy>
class rnnc_input {
 public:
  // `from`, `to`: of step 0. Of steps that are copied together, the thread's is the one so many
  // steps behind the first. `first`: the step that is the sequence's first.
  __device__ __forceinline__ void set(const char* from, unsigned to, unsigned behind, int steps,
                                      int first) {
    from_ = rnnc_kept(from + behind * Copy::kAdvance - Copy::kBack);
    to_ = to + behind * Copy::kStepBytes;
    end_ = steps - static_cast<int>(behind);
    first_ = first - static_cast<int>(behind);
  }
  // Of `step`, the first of those that are copied together.
  __device__ __forceinline__ void copy(int step) const {
    if (step >= end_) return;
    const char* const from = from_ + step * Copy::kAdvance;
    if (Copy::kAhead > 0 && step + Copy::kAhead < end_ && is_there(step + Copy::kAhead))
      rnnc_prefetch(from + Copy::kAhead * Copy::kAdvance);
    const unsigned to = to_ + static_cast<unsigned>(step) % Copy::kSteps * Copy::kStepBytes;
    if (Copy::kIsChecked && reinterpret_cast<rnnc_word>(from) % Copy::kBytes != 0) {
#pragma unroll 1
      for (int i = 0; i < Copy::kBytes; i += Copy::kElementBytes)
        rnnc_copy<Copy::kElementBytes>(to + i, from + i, is_there(step));
    } else {
      rnnc_copy<Copy::kBytes>(to, from, is_there(step));
    }
  }

 private:
  __device__ __forceinline__ bool is_there(int step) const {
    return Copy::kBack == 0 || step != first_;
  }

  const char* from_ = nullptr;
  unsigned to_ = 0;
  int end_ = 0;
  int first_ = 0;
};

// What a thread carries of one value from step to step: its Carry::kValues elements of each of the
// Carry::kLaps laps, in shared memory from byte Carry::kAt on. Only the thread itself looks at
// it.
template <typename Carry>
class rnnc_carried {
 public:
  struct of_lap {
    float* first;
    __device__ __forceinline__ float& operator[](int value) const {
      return first[value * Carry::kThreads];
    }
  };
  __device__ __forceinline__ of_lap operator[](int lap) const {
    float* const all = reinterpret_cast<float*>(rnnc_shared + Carry::kAt) + threadIdx.x;
    return {all + lap * (Carry::kValues * Carry::kThreads)};
  }
  __device__ __forceinline__ void clear() const {
#pragma unroll 1
    for (int lap = 0; lap < Carry::kLaps; ++lap) {
#pragma unroll
      for (int value = 0; value < Carry::kValues; ++value) (*this)[lap][value] = 0;
    }
  }
};

// What one phase's products share: where the warps' sums lie, as [buffer][warp][row][columns + 4].
// No two lanes that store or load at once meet in a bank. There are two buffers, so that one
// barrier parts the work of each: who stores to a buffer has passed the barrier after its last use.
// Shape::kRows: those that there can be, up to an even number. Shape::kWarps: that have parts of a
// sum.
template <typename Shape>
struct rnnc_partial_sums {
  static constexpr int kRows = Shape::kRows;
  static constexpr int kStride = Shape::kColumns + 4;
  static_assert(Shape::kWarps * Shape::kRows * kStride * 4 <= Shape::kBytes, "room for all sums");

  static __device__ __forceinline__ float* at(int buffer) {
    return reinterpret_cast<float*>(rnnc_shared + buffer * Shape::kBytes);
  }
  // Of a warp's, where a column of a row is.
  static __device__ __forceinline__ unsigned place(unsigned column, unsigned row) {
    return row * kStride + column;
  }
  // Of `Span` neighbouring columns from a place on.
  template <int Span>
  static __device__ __forceinline__ void add(float (&totals)[Span], int buffer, unsigned place) {
    typedef rnnc_packet<float, Span, true> packet;
    const float* const sums = at(buffer) + place;
#pragma unroll
    for (int warp = 0; warp < Shape::kWarps; ++warp) {
      const packet part = packet::load(sums + warp * (Shape::kRows * kStride));
#pragma unroll
      for (int i = 0; i < Span; ++i) totals[i] += part.get(i);
    }
  }
};

// What one phase's products share where blocks share k: the other blocks' sums for this one's
// elements, as [buffer][distance - 1][row][columns + 4], from byte Shape::kAt of shared memory on,
// and of each buffer a barrier that counts their bytes, from byte Shape::kBarriersAt on. Buffers as
// of rnnc_partial_sums: who hands on to one has had all that the others handed on to its other one.
// Shape::kGates: columns that are used. (Each store counts at the barrier by itself, in turn: so
// few stores as can be. With pairs, and a block's own sums among them, a step of GRU 16x1024 in bf16
// took 1.47 us on an H100, and takes 1.31.)
template <typename Shape>
struct rnnc_block_sums {
  static constexpr int kRows = Shape::kRows;
  static constexpr int kStride = Shape::kColumns + 4;
  static constexpr unsigned kOthers = Shape::kBlocks - 1;
  static constexpr unsigned kBlockBytes = Shape::kRows * kStride * 4;

  static __device__ __forceinline__ unsigned shared(unsigned byte) {
    return static_cast<unsigned>(__cvta_generic_to_shared(rnnc_shared)) + byte;
  }
  static __device__ __forceinline__ unsigned barrier(int buffer) {
    return shared(Shape::kBarriersAt + buffer * 8u);
  }
  // Of `rows` rows from the lap's first on, which may be no more.
  static __device__ __forceinline__ unsigned rows_of_lap(int rows) {
    return static_cast<unsigned>(max(0, min(rows, kRows)));
  }
  static __device__ __forceinline__ void expect(int buffer, int rows) {
    rnnc_expect(barrier(buffer), kOthers * Shape::kGates * 4u * rows_of_lap(rows));
  }
  // Hands on what the block's warps have of a product's sums, where Sums says, for other blocks:
  // Product::kMembers results of Product::kUnits elements of each block, from Product::kColumn of
  // the sums on; for who has the elements, from Product::kTo on. By all of the block's threads.
  template <typename Product, typename Sums>
  static __device__ __forceinline__ void hand_on(int buffer, int rows) {
    constexpr unsigned kUnits = Product::kUnits;
    constexpr int kSpan = kUnits % 4 == 0 ? 4 : kUnits % 2 == 0 ? 2 : 1;
    constexpr unsigned kPackets = kUnits / kSpan;
    constexpr unsigned kOfRow = Product::kMembers * kOthers * kPackets;
    const unsigned own = blockIdx.x % Shape::kBlocks;
    const unsigned count = rows_of_lap(rows) * kOfRow;
#pragma unroll
    for (unsigned first = 0; first < kRows * kOfRow; first += Product::kThreads) {
      const unsigned i = first + threadIdx.x;
      if (i >= count) continue;
      const unsigned unit = i % kPackets * kSpan;
      const unsigned other = i / kPackets % kOthers;
      const unsigned member = i / (kPackets * kOthers) % Product::kMembers;
      const unsigned row = i / kOfRow;
      const unsigned block = (own + 1 + other) % Shape::kBlocks;
      const unsigned gate = (member * Shape::kBlocks + block) * kUnits + unit;
      float totals[kSpan] = {};
      Sums::template add<kSpan>(totals, buffer, Sums::place(Product::kColumn + gate, row));
      unsigned words[kSpan];
#pragma unroll
      for (int s = 0; s < kSpan; ++s) words[s] = __float_as_uint(totals[s]);
      const unsigned column = Product::kTo + member * kUnits + unit;
      const unsigned to = Shape::kAt + (buffer * kOthers + kOthers - 1 - other) * kBlockBytes +
                          (row * kStride + column) * 4;
      rnnc_store_in_cluster<4 * kSpan>(rnnc_address_in_cluster(shared(to), block), words,
                                       rnnc_address_in_cluster(barrier(buffer), block));
    }
  }
  // Until all that the others hand on to the buffer is there.
  static __device__ __forceinline__ void await(int buffer, unsigned parity) {
    rnnc_await_slice(barrier(buffer), parity);
  }
  static __device__ __forceinline__ unsigned place(unsigned column, unsigned row) {
    return row * kStride + column;
  }
  // Of `Span` neighbouring columns from a place on, in the order of blocks behind this one.
  template <int Span>
  static __device__ __forceinline__ void add(float (&totals)[Span], int buffer, unsigned place) {
    typedef rnnc_packet<float, Span, true> packet;
    const float* const sums = reinterpret_cast<const float*>(rnnc_shared + Shape::kAt) +
                              buffer * (kOthers * (kBlockBytes / 4)) + place;
#pragma unroll
    for (int other = 0; other < kOthers; ++other) {
      const packet part = packet::load(sums + other * (kBlockBytes / 4));
#pragma unroll
      for (int i = 0; i < Span; ++i) totals[i] += part.get(i);
    }
  }
};

// Sums of a tile of 16 gates and 8 rows, as a warp's lanes have them (rnnc_multiply_tile).
template <rnnc_engine Engine>
class rnnc_tile_sums {
 public:
  __device__ __forceinline__ void add(const unsigned* low, const unsigned* high,
                                      const unsigned* b) {
    rnnc_multiply_tile<Engine>(sums_, low, high, b);
  }
  __device__ __forceinline__ float total(int i) const { return sums_[i]; }

 private:
  float sums_[4] = {};
};

// Of f32 in three products of TF32: a = a' + a" with a' rounded to TF32, and a b is taken as
// a' b' + a' b" + a" b'. What is left out is at most 2^-22 |a b|, and tensor cores cut off a" and
// b" by at most 2^-23 |a| and 2^-23 |b|: 2^-21 |a b| in all, as much as 8 roundings of f32. (Their
// sums are rounded once in 8 products.) The parts that are small have sums of their own: they do
// not suffer from the rounding of the large one, and where a or b is infinite, so that a" or b"
// would make NaNs, they count for nothing. What rounds to infinity, from (1 - 2^-12) 2^128 on, is
// infinite here as it is in TF32. (Ootomo, Yokota: Recovering single precision accuracy
// from Tensor Cores while surpassing the FP32 theoretical peak performance, 2022.)
template <>
class rnnc_tile_sums<rnnc_engine::split> {
 public:
  __device__ __forceinline__ void add(const unsigned* low, const unsigned* high,
                                      const unsigned* b) {
    rnnc_multiply_parts(large_, small_, low, high, b);
  }
  __device__ __forceinline__ float total(int i) const {
    return large_[i] + (fabsf(small_[i]) < __uint_as_float(0x7f800000u) ? small_[i] : 0.0f);
  }

 private:
  float large_[4] = {};
  float small_[4] = {};
};

// Of 4 pairs of f32.
static __device__ __forceinline__ void rnnc_add_products(float& sum, const unsigned* a,
                                                         const unsigned* b) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(__uint_as_float(a[i]), __uint_as_float(b[i]), sum);
}
// Of two lanes, whose numbers differ in a bit, one gets the sum of both's first values, the other
// (`second`) that of their second ones.
static __device__ __forceinline__ float rnnc_exchange_between(float a, float b, bool second,
                                                              int bit) {
  return (second ? b : a) + __shfl_xor_sync(0xffffffffu, second ? a : b, bit);
}

// Weights of `Tiles` tiles in memory, a thread's part of each: those of the tiles that come next
// are on their way. They are taken in order.
template <int Tiles, int Warps>
class rnnc_streamed_weights {
 public:
  __device__ __forceinline__ explicit rnnc_streamed_weights(const uint4* from) : from_(from) {
#pragma unroll
    for (int tile = 0; tile < kAhead; ++tile) load(tile);
  }
  __device__ __forceinline__ void take(unsigned* words, int tile, int half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = words_[tile % kDepth][half][i];
    if (half == 1 && tile + kAhead < Tiles) load(tile + kAhead);
  }

 private:
  static constexpr int kDepth = 4;
  static constexpr int kAhead = Tiles < kDepth ? Tiles : kDepth;

  __device__ __forceinline__ void load(int tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rnnc_poll<16>(from_ + (tile * 2 + half) * (32 * Warps), words_[tile % kDepth][half]);
    }
  }

  const uint4* from_;
  unsigned words_[kDepth][2][4];
};

// Where a lane's part of what blocks exchange begins: in memory, or in shared memory.
template <bool InShared>
struct rnnc_lane_place {
  typedef const char* type;
};
template <>
struct rnnc_lane_place<true> {
  typedef unsigned type;
};
