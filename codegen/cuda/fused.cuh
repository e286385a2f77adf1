// ---- Fused launches: products of a step, and elementwise work on their results (ir/plan.h). ----
//
// A thread block makes the results of `Units` neighbouring elements of a row for `Rows` rows of the
// batch. Its part of the weights has `Gates` rows: those of the block's elements for one result
// after the other, filled up with zeros.
//
// 1. Weights and left operands come in stages of Slabs * 128 bytes along k, copied to shared memory
//    asynchronously. Each operand has a ring of stages; all that it holds is on its way before the
//    first product. Weights do not wait for earlier launches.
// 2. The warps split a stage's gates (WarpGates), its rows (WarpRows), and its pieces along k
//    (WarpParts), each a cache sector or two; sums stay in registers.
// 3. The parts' sums go to shared memory, where the elementwise work adds them up in order.

enum class rnnc_engine {
  f32,   // exact, on the ordinary units
  tf32,  // the others on tensor cores
  bf16,
  f16,
};

// Copies Bytes to shared memory at address `to`, or zeros if nothing is `inside`.
template <int Bytes>
static __device__ __forceinline__ void rnnc_copy(unsigned to, const char* from, bool inside) {
  const auto global = static_cast<unsigned long long>(__cvta_generic_to_global(from));
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(global), "r"(inside ? 16 : 0)
                 : "memory");
  } else if constexpr (Bytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(to), "l"(global), "n"(Bytes), "r"(inside ? Bytes : 0)
                 : "memory");
  } else {
    unsigned short bits = 0;
    if (inside) bits = *reinterpret_cast<const unsigned short*>(from);
    asm volatile("st.shared.u16 [%0], %1;" : : "r"(to), "h"(bits) : "memory");
  }
}
// What was copied since the last call is one group.
static __device__ __forceinline__ void rnnc_end_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
// Waits until at most `pending` groups are on their way, or fewer. A constant after unrolling.
static __device__ __forceinline__ void rnnc_wait_copies(int pending) {
  switch (pending) {
    case 0:
      asm volatile("cp.async.wait_group 0;" : : : "memory");
      break;
    case 1:
      asm volatile("cp.async.wait_group 1;" : : : "memory");
      break;
    case 2:
      asm volatile("cp.async.wait_group 2;" : : : "memory");
      break;
    case 3:
      asm volatile("cp.async.wait_group 3;" : : : "memory");
      break;
    case 4:
      asm volatile("cp.async.wait_group 4;" : : : "memory");
      break;
    default:
      asm volatile("cp.async.wait_group 5;" : : : "memory");
      break;
  }
}

// sum[16][8] += a[16][k] * b[8][k]^T for the k of two words. In lane 4 * i + j, `low` and `high` are
// two words of rows i and i + 8 of `a`, `b` is of row i of `b`, all of the same k, which are no
// other lane's of that i. `sum` holds rows i and i + 8, columns 2j and 2j + 1.
template <rnnc_engine Engine>
static __device__ __forceinline__ void rnnc_multiply_tile(float* sum, const unsigned* low,
                                                          const unsigned* high,
                                                          const unsigned* b) {
#define RNNC_MMA(kind)                                                                     \
  asm("mma.sync.aligned." kind " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "           \
      "{%0, %1, %2, %3};"                                                                  \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                             \
      : "r"(low[0]), "r"(high[0]), "r"(low[1]), "r"(high[1]), "r"(b[0]), "r"(b[1]))
  if constexpr (Engine == rnnc_engine::bf16) {
    RNNC_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else if constexpr (Engine == rnnc_engine::f16) {
    RNNC_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  } else {
    RNNC_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef RNNC_MMA
}

extern __shared__ __align__(16) unsigned char rnnc_shared[];

template <rnnc_engine Engine, int Units, int Rows, int Gates, int WarpGates, int WarpRows,
          int WarpParts, int Slabs, int Stages, int WeightStages, int LeftStages>
class rnnc_fused_tile {
 public:
  static constexpr int kThreads = 32 * WarpGates * WarpRows * WarpParts;

  // Copies the first stages of the weights. `weights(stage)` copies one.
  template <typename Weights>
  __device__ __forceinline__ void begin_weights(const Weights& weights) {
#pragma unroll 1
    for (int stage = 0; stage < WeightStages; ++stage) weights(stage);
    rnnc_end_copies();
  }

  // Likewise, after the wait for earlier launches.
  template <typename Lefts>
  __device__ __forceinline__ void begin_lefts(const Lefts& lefts) {
#pragma unroll 1
    for (int stage = 0; stage < LeftStages; ++stage) {
      lefts(stage);
      rnnc_end_copies();
    }
  }

  // Makes all products: `products(stage)` calls `multiply` for one stage. Results are there
  // afterwards, for every thread of the block.
  template <typename Weights, typename Lefts, typename Products>
  __device__ __forceinline__ void run(const Weights& weights, const Lefts& lefts,
                                      const Products& products) {
    if constexpr (WeightStages == Stages && LeftStages == Stages) {
#pragma unroll(Stages <= 8 ? Stages : 1)
      for (int stage = 0; stage < Stages; ++stage) {
        rnnc_wait_copies(Stages - 1 - stage);
        __syncthreads();
        products(stage);
      }
    } else {
      // One group is begun at each stage but the first, in the places of the stage before it. So
      // stage s of `left`, and what was begun earlier, is there once LeftStages - 2 are pending.
#pragma unroll 1
      for (int stage = 0; stage < Stages; ++stage) {
        rnnc_wait_copies(LeftStages - 2);
        __syncthreads();
        if (stage > 0) {
          if (stage - 1 + WeightStages < Stages) weights(stage - 1 + WeightStages);
          if (stage - 1 + LeftStages < Stages) lefts(stage - 1 + LeftStages);
          rnnc_end_copies();
        }
        products(stage);
      }
    }
    rnnc_wait_copies(0);
    __syncthreads();
    store_sums();
    __syncthreads();
  }

  // Copies weights of `stage`, from byte `start` of the `k_bytes` of each row on, for results
  // [First, First + Members). Elements of the row from `unit` on, before `unit_end`.
  template <int First, int Members, int Copy>
  __device__ __forceinline__ void copy_weights(int stage, const char* base, int start, int k_bytes,
                                               unsigned length, unsigned unit, unsigned unit_end) {
    constexpr int kLow = whole_tiles_before(First * Units);
    constexpr int kHigh = whole_tiles_before((First + Members) * Units + kTileGates - 1);
    copy_stage<kHigh - kLow, Copy>(
        weights_at(stage), kLow, base, start, k_bytes, [&](int gate) -> rnnc_word {
          const int member = gate / Units - First;
          const unsigned element = unit + gate % Units;
          if (member < 0 || member >= Members || element >= unit_end) return -1;
          return (static_cast<rnnc_word>(member) * length + element) * k_bytes;
        });
  }

  // Likewise of left operands, of rows before `row_end`.
  template <int Copy>
  __device__ __forceinline__ void copy_lefts(int stage, const char* base, int start, int k_bytes,
                                             rnnc_word row_bytes, unsigned row, unsigned row_end) {
    copy_stage<Rows, Copy>(lefts_at(stage), 0, base, start, k_bytes, [&](int i) -> rnnc_word {
      return row + i < row_end ? (row + i) * row_bytes : -1;
    });
  }

  // Adds the products of a stage for results [First, First + Members).
  template <int First, int Members>
  __device__ __forceinline__ void multiply(int stage) {
    if constexpr (kTensorCores) {
      multiply_on_tensor_cores<First * Units, (First + Members) * Units>(stage);
    } else {
      multiply_exactly<First * Units, (First + Members) * Units>(stage);
    }
  }

  // Of the block's elements and rows.
  __device__ __forceinline__ float result(int index, int unit, int row) const {
    const float* sum = reinterpret_cast<const float*>(rnnc_shared) + row * kSumStride +
                       index * Units + unit;
    float total = sum[0];
#pragma unroll
    for (int part = 1; part < WarpParts; ++part) total += sum[part * Rows * kSumStride];
    return total;
  }

 private:
  static constexpr bool kTensorCores = Engine != rnnc_engine::f32;
  static constexpr int kRowBytes = 128 * Slabs;  // of a stage
  // A warp's sums: tiles of 16 gates by 8 rows on tensor cores, else of 8 by 4 with one per lane.
  static constexpr int kTileGates = kTensorCores ? 16 : 8;
  static constexpr int kTileRows = kTensorCores ? 8 : 4;
  static constexpr int kGateTiles = Gates / (kTileGates * WarpGates);
  static constexpr int kRowTiles = Rows / (kTileRows * WarpRows);
  static constexpr int kTileSums = kTensorCores ? 4 : 1;
  // In shared memory, from a row of the batch to the next: no two lanes store to the same bank.
  static constexpr int kSumStride =
      kTensorCores ? Gates + 4 : Gates + (40 - Gates % 32) % 32;
  static_assert(kGateTiles * kTileGates * WarpGates == Gates, "gates in whole tiles");
  static_assert(kRowTiles * kTileRows * WarpRows == Rows, "rows in whole tiles");
  static_assert(Slabs * (kTensorCores ? 2 : 8) % WarpParts == 0, "parts of one size");
  static_assert(LeftStages <= WeightStages && WeightStages <= Stages, "rings");
  static_assert(LeftStages >= 2 || LeftStages == Stages, "rings that turn have two places");

  static constexpr __device__ int whole_tiles_before(int gate) {
    return gate / kTileGates * kTileGates;
  }

  // Whether the tile that begins at `gate` has some of [Begin, End), or others beside them. A
  // product adds nothing to what is not its own: not even zero times a left operand, which may be
  // infinite.
  template <int Begin, int End>
  static constexpr __device__ bool has_some(int gate) {
    return gate + kTileGates > Begin && gate < End;
  }
  template <int Begin, int End>
  static constexpr __device__ bool has_others(int gate) {
    return gate < Begin || gate + kTileGates > End;
  }

  // Where byte `byte` of a row of a stage lies. The 16-byte runs of a slab change places from row
  // to row, so that lanes that read the same k of neighbouring rows meet no bank twice: on tensor
  // cores 4 runs of 2 rows at a time, else one run of up to 8 rows.
  static __device__ __forceinline__ int place(int row, int byte) {
    const int change = kTensorCores ? (row & 1) << 2 : row & 7;
    return row * kRowBytes + (byte & ~127) + (((byte >> 4 & 7) ^ change) << 4) + (byte & 15);
  }
  static __device__ __forceinline__ int weights_at(int stage) {
    return stage % WeightStages * (Gates * kRowBytes);
  }
  static __device__ __forceinline__ int lefts_at(int stage) {
    return WeightStages * Gates * kRowBytes + stage % LeftStages * (Rows * kRowBytes);
  }

  // Copies rows [first, first + Count) of a stage. `offset_of(row)` is the row's offset from
  // `base`, or negative for zeros.
  template <int Count, int Copy, typename OffsetOf>
  static __device__ __forceinline__ void copy_stage(int to, int first, const char* base, int start,
                                                    int k_bytes, const OffsetOf& offset_of) {
    constexpr int kCopies = kRowBytes / Copy;
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(rnnc_shared + to));
#pragma unroll 4
    for (int i = threadIdx.x; i < Count * kCopies; i += kThreads) {
      const int row = first + i / kCopies;
      const int byte = i % kCopies * Copy;
      const rnnc_word offset = offset_of(row);
      const bool inside = offset >= 0 && start + byte < k_bytes;
      rnnc_copy<Copy>(shared + place(row, byte), inside ? base + offset + start + byte : base,
                      inside);
    }
  }

  // Lane 4 * i + j reads 16 bytes of rows i of each tile, the j-th of 64 along k.
  template <int Begin, int End>
  __device__ __forceinline__ void multiply_on_tensor_cores(int stage) {
    const unsigned char* weights = rnnc_shared + weights_at(stage);
    const unsigned char* lefts = rnnc_shared + lefts_at(stage);
#pragma unroll
    for (int i = 0; i < 2 * Slabs / WarpParts; ++i) {
      const int byte = (part() + i * WarpParts) * 64 + lane() % 4 * 16;
      unsigned left[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        read(left[r], lefts + place((warp_row() * kRowTiles + r) * 8 + lane() / 4, byte));
      }
#pragma unroll
      for (int g = 0; g < kGateTiles; ++g) {
        const int gate = (warp_gate() * kGateTiles + g) * 16;
        if (!has_some<Begin, End>(gate)) continue;
        unsigned low_rows[4];
        unsigned high_rows[4];
        read(low_rows, weights + place(gate + lane() / 4, byte));
        read(high_rows, weights + place(gate + lane() / 4 + 8, byte));
        const auto add_to = [&](float (&sums)[kRowTiles][kTileSums]) {
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            rnnc_multiply_tile<Engine>(sums[r], low_rows, high_rows, left[r]);
          }
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            rnnc_multiply_tile<Engine>(sums[r], low_rows + 2, high_rows + 2, left[r] + 2);
          }
        };
        if (!has_others<Begin, End>(gate)) {
          add_to(sums_[g]);
        } else {
          float sums[kRowTiles][kTileSums] = {};
          add_to(sums);
#pragma unroll
          for (int s = 0; s < kTileSums; ++s) {
            const int own = gate + lane() / 4 + s / 2 * 8;
            if (own < Begin || own >= End) continue;
#pragma unroll
            for (int r = 0; r < kRowTiles; ++r) sums_[g][r][s] += sums[r][s];
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void read(unsigned* words, const unsigned char* from) {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    words[0] = all.x;
    words[1] = all.y;
    words[2] = all.z;
    words[3] = all.w;
    if constexpr (Engine == rnnc_engine::tf32) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(words[i]) : "f"(__uint_as_float(words[i])));
      }
    }
  }

  // Each lane reads 4 elements of one row per tile.
  template <int Begin, int End>
  __device__ __forceinline__ void multiply_exactly(int stage) {
    static_assert(WarpGates == 1 || kTensorCores, "every warp has all gates");
    const unsigned char* weights = rnnc_shared + weights_at(stage);
    const unsigned char* lefts = rnnc_shared + lefts_at(stage);
#pragma unroll
    for (int i = 0; i < 8 * Slabs / WarpParts; ++i) {
      const int byte = (part() + i * WarpParts) * 16;
      float weight[kGateTiles][4];
      float left[kRowTiles][4];
#pragma unroll
      for (int g = 0; g < kGateTiles; ++g) {
        if (has_some<Begin, End>(g * 8)) {
          read(weight[g], weights + place(g * 8 + lane_gate(), byte));
        }
      }
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        read(left[r], lefts + place((warp_row() * kRowTiles + r) * 4 + lane_row(), byte));
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int g = 0; g < kGateTiles; ++g) {
          if (!has_some<Begin, End>(g * 8)) continue;
          const int own = g * 8 + lane_gate();
          if (has_others<Begin, End>(g * 8) && (own < Begin || own >= End)) continue;
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            sums_[g][r][0] = fmaf(weight[g][e], left[r][e], sums_[g][r][0]);
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void read(float* elements, const unsigned char* from) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    elements[0] = all.x;
    elements[1] = all.y;
    elements[2] = all.z;
    elements[3] = all.w;
  }

  __device__ __forceinline__ void store_sums() const {
    float* sums = reinterpret_cast<float*>(rnnc_shared) + part() * Rows * kSumStride;
#pragma unroll
    for (int g = 0; g < kGateTiles; ++g) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < kTileSums; ++i) {
          int gate = (warp_gate() * kGateTiles + g) * kTileGates;
          int row = (warp_row() * kRowTiles + r) * kTileRows;
          gate += kTensorCores ? lane() / 4 + i / 2 * 8 : lane_gate();
          row += kTensorCores ? lane() % 4 * 2 + i % 2 : lane_row();
          sums[row * kSumStride + gate] = sums_[g][r][i];
        }
      }
    }
  }

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int warp_gate() { return threadIdx.x / 32 % WarpGates; }
  static __device__ __forceinline__ int warp_row() {
    return threadIdx.x / 32 / WarpGates % WarpRows;
  }
  static __device__ __forceinline__ int part() { return threadIdx.x / 32 / (WarpGates * WarpRows); }
  // Exact products: 8 by 4 lanes. Lanes that differ in bit 0 read the same weights and those that
  // differ in bit 1 the same left operands, which lets shared memory serve half a warp at a time.
  static __device__ __forceinline__ int lane_gate() { return (lane() >> 1 & 1) | (lane() >> 2 & 6); }
  static __device__ __forceinline__ int lane_row() { return (lane() & 1) | (lane() >> 1 & 2); }

  float sums_[kGateTiles][kRowTiles][kTileSums] = {};
};
