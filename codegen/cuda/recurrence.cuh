// ---- Resident recurrences (ir/plan.h: RecurrenceLaunch). ----
//
// A thread block makes the results of `Units` neighbouring elements of a row, for all steps and for
// the rows of its group, and keeps their weights on the chip. Its warps split each product along k,
// so that a warp loads only its own part of the left operand, straight into the registers that
// multiply; the warps' sums meet in shared memory, where the elementwise work adds them up in
// order.
//
// Blocks exchange a state through memory that was filled with ones (rnnc_is_unwritten) before the
// launch and is written once: who reads it looks at the data until they are there. No flag, no
// fence, one trip through the L2 cache.
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

// Which elements of a row each block has: `Units` of them, that are all of one segment.
template <unsigned Units, unsigned SegmentLength, unsigned Segments>
struct rnnc_units {
  static constexpr unsigned kAcross = (SegmentLength + Units - 1) / Units;
  static __device__ __forceinline__ unsigned first(unsigned block) {
    return block / kAcross * SegmentLength + block % kAcross * Units;
  }
  // Of the segment, or of no elements for blocks that have none.
  static __device__ __forceinline__ unsigned end(unsigned block) {
    return block < kAcross * Segments ? (block / kAcross + 1) * SegmentLength : 0;
  }
  static __device__ __forceinline__ unsigned count(unsigned block) {
    return min(Units, end(block) - first(block));
  }
};

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

// Whether some value in the word is still what memory was filled with: a NaN that nothing computed
// is stored as (rnnc_exchange).
template <int ValueBytes>
static __device__ __forceinline__ bool rnnc_is_unwritten(unsigned word) {
  if constexpr (ValueBytes == 4) {
    return word == 0xffffffffu;
  } else {
    return ((~word - 0x00010001u) & word & 0x80008000u) != 0;  // some half of ~word is zero
  }
}

// Stores a value that other blocks wait for. Conversions to 16 bits make one NaN of all.
static __device__ __forceinline__ void rnnc_exchange(float* to, float value) {
  const unsigned bits = value != value ? 0x7fffffffu : __float_as_uint(value);
  rnnc_publish<4>(to, &bits);
}
template <typename T>
static __device__ __forceinline__ void rnnc_exchange(T* to, float value) {
  T rounded;
  rnnc_store(&rounded, value);
  const unsigned bits = rounded.bits;
  rnnc_publish<2>(to, &bits);
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
static __device__ __forceinline__ void rnnc_poll_piece(unsigned* words, const char* from,
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

// What one phase's products share: where the warps' sums lie, [buffer][warp][row][Columns + 4]. No
// two lanes that store or load at once meet in a bank. There are two buffers, so that one barrier
// parts the work of each: who stores to a buffer has passed the barrier after its last use.
template <int Warps, int Rows, int Columns, int BufferBytes>
struct rnnc_partial_sums {
  static constexpr int kStride = Columns + 4;
  static_assert(Warps * Rows * kStride * 4 <= BufferBytes, "room for all sums");

  static __device__ __forceinline__ float* at(int buffer) {
    return reinterpret_cast<float*>(rnnc_shared + buffer * BufferBytes);
  }
  static __device__ __forceinline__ float sum(int buffer, int column, int row) {
    const float* const sums = at(buffer) + row * kStride + column;
    float total = sums[0];
#pragma unroll
    for (int warp = 1; warp < Warps; ++warp) total += sums[warp * (Rows * kStride)];
    return total;
  }
};

// A product's weights, for the life of the block.
// KBytes: along k. Gates: rows of the block's weights. Held: how many of a warp's tiles of 16
// gates, of one piece after the other, are in registers; the others lie in shared memory from
// `Spill` on. Lefts: where exact products put left operands there. Granule: bytes by which the left
// operand may be loaded at once. Exchanged: other blocks write it while the launch runs.
template <rnnc_engine Engine, int KBytes, int Gates, int Rows, int Warps, int Held, int Spill,
          int Lefts, int Granule, bool Exchanged>
class rnnc_resident_product {
 public:
  static constexpr int kTiles = (Gates + 15) / 16;
  static constexpr int kPieces = ((KBytes + 63) / 64 + Warps - 1) / Warps;  // of a warp

  // `Units` elements from `unit` on of each of the product's results, which are `length` elements
  // apart; those before `unit_end`. `base` is the weight of element 0 of the first result.
  template <int Units, int Granularity>
  __device__ __forceinline__ void load_weights(const char* base, unsigned length, unsigned unit,
                                               unsigned unit_end) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
      for (int half = 0; half < 2 * kTiles; ++half) {
        const unsigned gate = half * 8 + lane() / 4;
        const unsigned element = unit + gate % Units;
        unsigned words[4] = {};
        if (gate < Gates && element < unit_end) {
          const char* const row =
              base + (static_cast<rnnc_word>(gate / Units) * length + element) * KBytes;
          rnnc_poll_piece<Granularity>(words, row + byte(piece), KBytes - byte(piece));
          round(words);
        }
        if (tile(piece, half) < Held) {
#pragma unroll
          for (int i = 0; i < 4; ++i) held_[tile(piece, half)][half % 2][i] = words[i];
        } else {
          *spilled(piece, half) = make_uint4(words[0], words[1], words[2], words[3]);
        }
      }
    }
  }

  // Stores the sums of the warp's part of k for rows [0, Rows) of which `rows` are there, `Stride`
  // floats apart. Row r of the left operand begins at `left + r * RowBytes`. `fresh`: it is being
  // written by this launch.
  template <int Stride, long long RowBytes>
  __device__ __forceinline__ void multiply(float* sums, const char* left, int rows,
                                           bool fresh) const {
    if constexpr (Engine == rnnc_engine::f32) {
      multiply_exactly<Stride, RowBytes>(sums, left, rows, fresh);
    } else {
      multiply_on_tensor_cores<Stride, RowBytes>(sums, left, rows, fresh);
    }
  }

 private:
  static constexpr int kValueBytes =
      Engine == rnnc_engine::f32 || Engine == rnnc_engine::tf32 ? 4 : 2;
  static constexpr int kRowTiles = Rows / 8;
  // Pieces whose left operands are on their way at once.
  static constexpr int kMostAtOnce = 16 / kRowTiles;
  static constexpr int kAtOnce = kPieces < kMostAtOnce ? kPieces : kMostAtOnce;

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int warp() { return threadIdx.x / 32; }
  // Of the lane's part of a piece, along k.
  static __device__ __forceinline__ int byte(int piece) {
    return (warp() * kPieces + piece) * 64 + lane() % 4 * 16;
  }
  // Of the warp's, in the order of pieces.
  static __device__ __forceinline__ int tile(int piece, int half) {
    return piece * kTiles + half / 2;
  }
  static __device__ __forceinline__ uint4* spilled(int piece, int half) {
    return reinterpret_cast<uint4*>(rnnc_shared + Spill) +
           ((tile(piece, half) - Held) * 2 + half % 2) * (32 * Warps) + threadIdx.x;
  }

  // As tensor cores take them: of other bits of f32 they would just cut off the end.
  static __device__ __forceinline__ void round(unsigned* words) {
    if constexpr (Engine == rnnc_engine::tf32) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = rnnc_to_tf32(__uint_as_float(words[i]));
    }
  }

  // Weights of gates i and i + 8 of a tile, by `half`.
  __device__ __forceinline__ void weights(unsigned* words, int piece, int half) const {
    if (tile(piece, half) < Held) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = held_[tile(piece, half)][half % 2][i];
    } else {
      rnnc_to_words(*spilled(piece, half), words);
    }
  }

  // Left operands of the pieces from `first` on. All loads are on their way at once, and again
  // those whose data were not there.
  template <long long RowBytes, int Count>
  static __device__ __forceinline__ void fetch(unsigned (&left)[Count][kRowTiles][4], int first,
                                               const char* from, int rows, bool fresh) {
    from += lane() / 4 * RowBytes;
    const auto load = [&](int piece, int tile) {
      const int at = byte(first + piece);
      if (tile * 8 + lane() / 4 < rows) {
        rnnc_poll_piece<Granule>(left[piece][tile], from + tile * 8 * RowBytes + at, KBytes - at);
      }
    };
#pragma unroll
    for (int piece = 0; piece < Count; ++piece) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) left[piece][tile][i] = 0;
        load(piece, tile);
      }
    }
    if (Exchanged && fresh) {
      bool waits;
      rnnc_patience patience;
      do {
        waits = false;
#pragma unroll
        for (int piece = 0; piece < Count; ++piece) {
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            const unsigned(&words)[4] = left[piece][tile];
            if (rnnc_is_unwritten<kValueBytes>(words[0]) ||
                rnnc_is_unwritten<kValueBytes>(words[1]) ||
                rnnc_is_unwritten<kValueBytes>(words[2]) ||
                rnnc_is_unwritten<kValueBytes>(words[3])) {
              load(piece, tile);
              waits = true;
            }
          }
        }
        if (waits) patience.wait();
      } while (waits);
    }
    rnnc_sync_warp();
  }

  // `work(first, left)` for all of the warp's pieces, `Count` at a time.
  template <int First, long long RowBytes, typename Work>
  static __device__ __forceinline__ void by_pieces(const char* from, int rows, bool fresh,
                                                   const Work& work) {
    if constexpr (First < kPieces) {
      constexpr int kCount = kPieces - First < kAtOnce ? kPieces - First : kAtOnce;
      unsigned left[kCount][kRowTiles][4];
      fetch<RowBytes>(left, First, from, rows, fresh);
#pragma unroll
      for (int i = 0; i < kCount * kRowTiles; ++i) round(left[i / kRowTiles][i % kRowTiles]);
#pragma unroll
      for (int piece = 0; piece < kCount; ++piece) work(First + piece, left[piece]);
      by_pieces<First + kCount, RowBytes>(from, rows, fresh, work);
    }
  }

  template <int Stride, long long RowBytes>
  __device__ __forceinline__ void multiply_on_tensor_cores(float* to, const char* left, int rows,
                                                           bool fresh) const {
    float sums[kTiles][kRowTiles][4] = {};
    by_pieces<0, RowBytes>(left, rows, fresh, [&](int piece, const unsigned(&words)[kRowTiles][4]) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        unsigned low[4];
        unsigned high[4];
        weights(low, piece, 2 * tile);
        weights(high, piece, 2 * tile + 1);
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            rnnc_multiply_tile<Engine>(sums[tile][r], low + k, high + k, words[r] + k);
          }
        }
      }
    });
    to += (warp() * Rows + lane() % 4 * 2) * Stride + lane() / 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          to[(r * 8 + i % 2) * Stride + tile * 16 + i / 2 * 8] = sums[tile][r][i];
        }
      }
    }
  }

  // Left operands go through shared memory, of which each warp has a part, so that each lane has
  // all rows. Then the four lanes of a gate, which have parts of k, add up what they have, two rows
  // for each.
  template <int Stride, long long RowBytes>
  __device__ __forceinline__ void multiply_exactly(float* to, const char* left, int rows,
                                                   bool fresh) const {
    static_assert(Engine != rnnc_engine::f32 || Rows == 8, "one tile of rows");
    float sums[2 * kTiles][8] = {};
    uint4* const mine = reinterpret_cast<uint4*>(rnnc_shared + Lefts) + warp() * (kPieces * 32);
    by_pieces<0, RowBytes>(left, rows, fresh, [&](int piece, const unsigned(&words)[kRowTiles][4]) {
      mine[piece * 32 + lane()] = make_uint4(words[0][0], words[0][1], words[0][2], words[0][3]);
    });
    rnnc_sync_warp();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      unsigned gates[2 * kTiles][4];
#pragma unroll
      for (int half = 0; half < 2 * kTiles; ++half) weights(gates[half], piece, half);
#pragma unroll
      for (int row = 0; row < 8; ++row) {
        unsigned x[4];
        rnnc_to_words(mine[piece * 32 + row * 4 + lane() % 4], x);
#pragma unroll
        for (int half = 0; half < 2 * kTiles; ++half) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[half][row] =
                fmaf(__uint_as_float(gates[half][i]), __uint_as_float(x[i]), sums[half][row]);
          }
        }
      }
    }
    rnnc_sync_warp();  // the next left operands come to the same places
    const bool odd = lane() % 2 != 0;
    const bool upper = lane() % 4 / 2 != 0;
    to += (warp() * 8 + (odd ? 4 : 0) + (upper ? 2 : 0)) * Stride + lane() / 4;
#pragma unroll
    for (int half = 0; half < 2 * kTiles; ++half) {
      float four[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float theirs = odd ? sums[half][r] : sums[half][r + 4];
        const float mine_of_two = odd ? sums[half][r + 4] : sums[half][r];
        four[r] = mine_of_two + __shfl_xor_sync(0xffffffffu, theirs, 1);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float theirs = upper ? four[r] : four[r + 2];
        const float mine_of_two = upper ? four[r + 2] : four[r];
        to[r * Stride + half * 8] = mine_of_two + __shfl_xor_sync(0xffffffffu, theirs, 2);
      }
    }
  }

  unsigned held_[Held > 0 ? Held : 1][2][4];
};

// ---- Reductions over a row, of which each block has a part. ----

// A part is a pair: the sum and the squared deviations from the part's mean, or an extremum.
enum class rnnc_reduction { moments, least, greatest };

static __device__ __forceinline__ void rnnc_exchange(float* to, float2 value) {
  const unsigned bits[2] = {value.x != value.x ? 0x7fffffffu : __float_as_uint(value.x),
                            value.y != value.y ? 0x7fffffffu : __float_as_uint(value.y)};
  rnnc_publish<8>(to, bits);
}

// Results of reductions, for all rows of a pass one after the other.
static __device__ __forceinline__ float2* rnnc_statistics(int at) {
  return reinterpret_cast<float2*>(rnnc_shared + at);
}

template <rnnc_reduction Reduction>
struct rnnc_part {
  // Two parts of `a_count` and `b_count` elements (Chan, Golub and LeVeque 1983).
  static __device__ __forceinline__ float2 join(float2 a, unsigned a_count, float2 b,
                                                unsigned b_count) {
    if constexpr (Reduction == rnnc_reduction::least) {
      return make_float2(rnnc_min(a.x, b.x), 0.0f);
    } else if constexpr (Reduction == rnnc_reduction::greatest) {
      return make_float2(rnnc_max(a.x, b.x), 0.0f);
    } else {
      if (a_count == 0) return b;
      if (b_count == 0) return a;
      const float first = static_cast<float>(a_count);
      const float second = static_cast<float>(b_count);
      const float apart = b.x / second - a.x / first;
      return make_float2(a.x + b.x,
                         a.y + b.y + apart * apart * (first * second / (first + second)));
    }
  }

  // Of the `Lanes` neighbouring lanes that have a row's elements, `count` of them. Every lane takes
  // part.
  template <int Lanes>
  static __device__ __forceinline__ float2 of_lanes(float value, bool inside, unsigned count) {
    static_assert(Lanes <= 32, "lanes of one warp");
    const auto joined = [](float x) {
#pragma unroll
      for (int offset = Lanes / 2; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, offset);
        if constexpr (Reduction == rnnc_reduction::least) {
          x = rnnc_min(x, other);
        } else if constexpr (Reduction == rnnc_reduction::greatest) {
          x = rnnc_max(x, other);
        } else {
          x += other;
        }
      }
      return x;
    };
    if constexpr (Reduction == rnnc_reduction::moments) {
      const float sum = joined(inside ? value : 0.0f);
      const float apart = inside ? value - sum / static_cast<float>(min(count, Lanes)) : 0.0f;
      return make_float2(sum, joined(apart * apart));
    } else {
      const float none =
          Reduction == rnnc_reduction::least ? rnnc_least::identity() : rnnc_greatest::identity();
      return make_float2(joined(inside ? value : none), 0.0f);
    }
  }

  // Joins the parts of all `Blocks` blocks for the first `rows` rows, `Stride` floats apart, which
  // lie one after the other from `from` on. Some lanes share a row; all blocks join in one order.
  template <typename Units, int Blocks, int Threads, long long Stride>
  static __device__ __forceinline__ void of_blocks(const float* from, float2* to, int rows) {
    constexpr int kLanes = Blocks >= 32 ? 32 : Blocks >= 8 ? 8 : 1;  // of a row
    constexpr int kParts = (Blocks + kLanes - 1) / kLanes;           // of a lane
    constexpr int kAtOnce = kParts < 8 ? kParts : 8;
    const int lane = threadIdx.x % kLanes;
    for (int first = 0; first < rows; first += Threads / kLanes) {
      const int row = first + threadIdx.x / kLanes;
      const bool inside = row < rows;
      float2 total = make_float2(0.0f, 0.0f);
      unsigned count = 0;
#pragma unroll 1
      for (int i = 0; i < kParts; i += kAtOnce) {
        unsigned parts[kAtOnce][2];
        fetch<kAtOnce, kLanes, Blocks>(parts, from + row * Stride, lane + i * kLanes, inside);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int block = lane + (i + j) * kLanes;
          if (!inside || block >= Blocks) continue;
          const float2 part =
              make_float2(__uint_as_float(parts[j][0]), __uint_as_float(parts[j][1]));
          const unsigned elements = Units::count(block);
          total = count == 0 ? part : join(total, count, part, elements);
          count += elements;
        }
      }
      rnnc_sync_warp();
#pragma unroll
      for (int offset = 1; offset < kLanes; offset *= 2) {
        const float2 other = make_float2(__shfl_xor_sync(0xffffffffu, total.x, offset),
                                         __shfl_xor_sync(0xffffffffu, total.y, offset));
        const unsigned others = __shfl_xor_sync(0xffffffffu, count, offset);
        if (lane % (2 * offset) != 0 || others == 0) continue;
        total = join(total, count, other, others);
        count += others;
      }
      if (inside && lane == 0) to[row] = total;
    }
  }

 private:
  // Parts of blocks `first`, `first + Lanes` and so on, once they are there.
  template <int Count, int Lanes, int Blocks>
  static __device__ __forceinline__ void fetch(unsigned (&parts)[Count][2], const float* from,
                                               int first, bool inside) {
    bool waits;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int block = first + i * Lanes;
      parts[i][0] = parts[i][1] = 0;
      if (inside && block < Blocks) rnnc_poll<8>(from + block * 2, parts[i]);
    }
    rnnc_patience patience;
    do {
      waits = false;
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        if (parts[i][0] != 0xffffffffu && parts[i][1] != 0xffffffffu) continue;
        rnnc_poll<8>(from + (first + i * Lanes) * 2, parts[i]);
        waits = true;
      }
      if (waits) patience.wait();
    } while (waits);
  }
};
