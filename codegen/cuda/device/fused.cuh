// ---- Fused launches (ir/plan/plan.h): products of a step, elementwise work on their results. ----
//
// A thread block makes the results of `Units` neighbouring elements of a row for `Rows` rows of the
// batch. Its part of the weights has `Gates` rows: those of the block's elements for one result
// after the other.
//
// 1. Weights and left operands come in slabs of SlabBytes along k, copied to shared memory
//    asynchronously. Each operand has a ring of slabs; all that it holds is on its way before the
//    first product. Weights do not wait for earlier launches. Where the GPU can and sizes allow
//    (Bulk), one instruction copies a row's part of a slab.
// 2. The warps split the gates (WarpGates), the rows (WarpRows), and each slab along k
//    (WarpParts); sums stay in registers.
// 3. The parts' sums go to shared memory, where the elementwise work adds them up in order.
//
// Rows and gates past the end are not copied: what is made of them nobody reads.

extern __shared__ __align__(16) unsigned char rnnc_shared[];

template <rnnc_engine Engine, int Units, int Rows, int Gates, int WarpGates, int WarpRows,
          int WarpParts, int LaneParts, int SlabBytes, int Slabs, int WeightSlabs, int LeftSlabs,
          bool Bulk>
class rnnc_fused_tile {
 public:
  static constexpr int kThreads = 32 * WarpGates * WarpRows * WarpParts;

  // Copies the first slabs of the weights. `weights(slab)` copies one.
  template <typename Weights>
  __device__ __forceinline__ void begin_weights(const Weights& weights) {
    begin_barriers();
#pragma unroll 1
    for (int slab = 0; slab < WeightSlabs; ++slab) weights(slab);
    end_copies();
  }

  // Likewise, after the wait for earlier launches.
  template <typename Lefts>
  __device__ __forceinline__ void begin_lefts(const Lefts& lefts) {
#pragma unroll 1
    for (int slab = 0; slab < LeftSlabs; ++slab) {
      lefts(slab);
      end_copies();
    }
  }

  // Makes all products: `products(slab)` calls `multiply` for one slab. Results are there
  // afterwards, for every thread of the block.
  template <typename Weights, typename Lefts, typename Products>
  __device__ __forceinline__ void run(const Weights& weights, const Lefts& lefts,
                                      const Products& products) {
#pragma unroll 1
    for (int slab = 0; slab < Slabs; ++slab) {
      await(slab);
      if constexpr (kTurns) {
        __syncthreads();
        // Into the places of the slab before this one, which all warps have read.
        if (slab > 0) {
          if (slab - 1 + WeightSlabs < Slabs) weights(slab - 1 + WeightSlabs);
          if (slab - 1 + LeftSlabs < Slabs) lefts(slab - 1 + LeftSlabs);
          end_copies();
        }
      }
      products(slab);
    }
    rnnc_wait_copies(0);
    __syncthreads();
    store_sums();
    __syncthreads();
  }

  // Copies weights of `slab`, from byte `start` of the `k_bytes` of each row on, for results
  // [First, First + Members). Elements of the row from `unit` on, before `unit_end`.
  template <int First, int Members, int Copy>
  __device__ __forceinline__ void copy_weights(int slab, const char* base, int start, int k_bytes,
                                               unsigned length, unsigned unit, unsigned unit_end) {
    const unsigned units = min(unit_end - unit, static_cast<unsigned>(Units));
    base += static_cast<rnnc_word>(unit) * k_bytes + start;
    copy_slab<Members * Units, Copy>(
        weights_at(slab) + First * Units * kPitch, weight_barrier(slab), Members * units,
        k_bytes - start, [&](unsigned gate) -> const char* {
          const unsigned element = gate % Units;
          if (element >= units) return nullptr;
          return base + static_cast<rnnc_word>(gate / Units * length + element) * k_bytes;
        });
  }

  // Likewise of left operands, of rows before `row_end`.
  template <int Copy>
  __device__ __forceinline__ void copy_lefts(int slab, const char* base, int start, int k_bytes,
                                             rnnc_word row_bytes, unsigned row, unsigned row_end) {
    const unsigned rows = min(row_end - row, static_cast<unsigned>(Rows));
    base += row * row_bytes + start;
    copy_slab<Rows, Copy>(
        lefts_at(slab), left_barrier(slab), rows, k_bytes - start,
        [&](unsigned i) -> const char* { return i < rows ? base + i * row_bytes : nullptr; });
  }

  // Adds the products of a slab for results [First, First + Members), and nothing to others: not
  // even zero times a left operand, which may be infinite.
  template <int First, int Members>
  __device__ __forceinline__ void multiply(int slab) {
    if constexpr (kTensorCores) {
      multiply_on_tensor_cores<First * Units, (First + Members) * Units>(slab);
    } else {
      multiply_exactly<First * Units, (First + Members) * Units>(slab);
    }
  }

  // Of the block's elements and rows.
  __device__ __forceinline__ float result(int index, int unit, int row) const {
    const float* sum =
        reinterpret_cast<const float*>(rnnc_shared) + row * kSumStride + index * Units + unit;
    float total = sum[0];
#pragma unroll
    for (int part = 1; part < WarpParts; ++part) total += sum[part * Rows * kSumStride];
    return total;
  }

 private:
  static constexpr bool kTensorCores = Engine != rnnc_engine::f32;
#if __CUDA_ARCH__ >= 900
  static constexpr bool kBulk = Bulk;
#else
  static constexpr bool kBulk = false;
#endif
  // Whether a place holds more than one slab.
  static constexpr bool kTurns = WeightSlabs < Slabs || LeftSlabs < Slabs;
  // A warp's sums: tiles of 16 gates by 8 rows on tensor cores. Else its lanes are 8 by 4, or
  // 4 by 4 twice for two parts of k, with one sum of a tile each.
  static constexpr int kTileGates = kTensorCores ? 16 : 8 / LaneParts;
  static constexpr int kTileRows = kTensorCores ? 8 : 4;
  static constexpr int kGateTiles = Gates / (kTileGates * WarpGates);
  static constexpr int kRowTiles = Rows / (kTileRows * WarpRows);
  static constexpr int kTileSums = kTensorCores ? 4 : 1;
  // In shared memory, from a row of a slab to the next. Lanes that read the same k of neighbouring
  // rows meet no bank twice: on tensor cores 4 runs of 16 bytes of 2 rows at a time, else one run
  // of up to 8 rows, or of 4 rows and two parts of k 64 bytes apart.
  static constexpr int kPitch = SlabBytes + (!kTensorCores ? 16 : SlabBytes % 128 == 0 ? 64 : 0);
  // From a row of the batch to the next: no two lanes store sums to the same bank.
  static constexpr int kSumStride = kTensorCores ? Gates + 4 : Gates + (40 - Gates % 32) % 32;
  // What a lane reads at once, and a warp.
  static constexpr int kPiece = kTensorCores ? 64 : 16 * LaneParts;
  static constexpr int kPieces = SlabBytes / (kPiece * WarpParts);  // of a slab, for a warp
  static_assert(kGateTiles * kTileGates * WarpGates == Gates, "gates in whole tiles");
  static_assert(kRowTiles * kTileRows * WarpRows == Rows, "rows in whole tiles");
  static_assert(kPieces * kPiece * WarpParts == SlabBytes, "parts of one size");
  static_assert(LaneParts == 1 || SlabBytes % 128 == 0, "parts of lanes alternate by 64 bytes");
  static_assert(LeftSlabs <= WeightSlabs && WeightSlabs <= Slabs, "rings");
  static_assert(LeftSlabs >= 2 || !kTurns, "rings that turn have two places");

  static __device__ __forceinline__ int weights_at(int slab) {
    return slab % WeightSlabs * (Gates * kPitch);
  }
  static __device__ __forceinline__ int lefts_at(int slab) {
    return WeightSlabs * Gates * kPitch + slab % LeftSlabs * (Rows * kPitch);
  }

  // ---- Copies. ----

  static __device__ __forceinline__ unsigned barrier(int place) {
    __shared__ unsigned long long barriers[kBulk ? WeightSlabs + LeftSlabs : 1];
    return static_cast<unsigned>(__cvta_generic_to_shared(barriers + place));
  }
  static __device__ __forceinline__ unsigned weight_barrier(int slab) {
    return barrier(slab % WeightSlabs);
  }
  static __device__ __forceinline__ unsigned left_barrier(int slab) {
    return barrier(WeightSlabs + slab % LeftSlabs);
  }

  static __device__ __forceinline__ void begin_barriers() {
#if __CUDA_ARCH__ >= 900
    if constexpr (kBulk) {
      if (threadIdx.x == 0) {
        for (int i = 0; i < WeightSlabs + LeftSlabs; ++i) rnnc_begin_barrier(barrier(i));
        rnnc_publish_barriers();
      }
      __syncthreads();
    }
#endif
  }

  // What was copied since the last call is one group; barriers count bulk copies.
  static __device__ __forceinline__ void end_copies() {
    if constexpr (!kBulk) rnnc_end_copies();
  }

  // Until a slab is there for every thread of the block.
  static __device__ __forceinline__ void await(int slab) {
#if __CUDA_ARCH__ >= 900
    if constexpr (kBulk) {
      rnnc_await(weight_barrier(slab), slab / WeightSlabs % 2);
      rnnc_await(left_barrier(slab), slab / LeftSlabs % 2);
      return;
    }
#endif
    // A group per slab of `left` is begun ahead, and one at each later slab: the slab, and what
    // was begun earlier, is there once those after it are all that is pending.
    rnnc_wait_copies(kTurns ? LeftSlabs - 2 : Slabs - 1 - slab);
    if constexpr (!kTurns) __syncthreads();
  }

  // Copies rows [0, Count) of a slab, of which `there` are not null, with zeros for what is after
  // `bytes`. `from(row)` is where the row's part begins.
  template <unsigned Count, int Copy, typename From>
  static __device__ __forceinline__ void copy_slab(int to, unsigned barrier, unsigned there,
                                                   int bytes, const From& from) {
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(rnnc_shared + to));
#if __CUDA_ARCH__ >= 900
    if constexpr (kBulk) {
      if (threadIdx.x == 0) rnnc_expect(barrier, there * SlabBytes);
      if (lane() != 0) return;  // copies of a warp's lanes would follow one another all the same
#pragma unroll 1
      for (unsigned row = threadIdx.x / 32; row < Count; row += kThreads / 32) {
        const char* const part = from(row);
        if (part != nullptr) rnnc_copy_bulk(shared + row * kPitch, part, SlabBytes, barrier);
      }
      return;
    }
#endif
    constexpr unsigned kCopies = SlabBytes / Copy;
    constexpr unsigned kAcross = kCopies < kThreads ? kCopies : kThreads;
#pragma unroll 4
    for (unsigned row = threadIdx.x / kAcross; row < Count; row += kThreads / kAcross) {
      const char* const part = from(row);
      if (part == nullptr) continue;
#pragma unroll
      for (unsigned i = 0; i < kCopies / kAcross; ++i) {
        const int byte = (threadIdx.x % kAcross + i * kAcross) * Copy;
        const bool inside = byte < bytes;
        rnnc_copy<Copy>(shared + row * kPitch + byte, inside ? part + byte : part, inside);
      }
    }
  }

  // ---- Products. ----

  // Whether the tile that begins at `gate` has some of [Begin, End), or others beside them.
  template <int Begin, int End>
  static constexpr __device__ bool has_some(int gate) {
    return gate + kTileGates > Begin && gate < End;
  }
  template <int Begin, int End>
  static constexpr __device__ bool has_others(int gate) {
    return gate < Begin || gate + kTileGates > End;
  }

  // Lane 4 * i + j reads 16 bytes of rows i of each tile, the j-th of 64 along k.
  template <int Begin, int End>
  __device__ __forceinline__ void multiply_on_tensor_cores(int slab) {
    const int byte = part() * kPieces * kPiece + lane() % 4 * 16;
    const unsigned char* weights = rnnc_shared + weights_at(slab) + lane() / 4 * kPitch + byte;
    const unsigned char* lefts =
        rnnc_shared + lefts_at(slab) + (warp_row() * kRowTiles * 8 + lane() / 4) * kPitch + byte;
#pragma unroll(kPieces < 4 ? kPieces : 4)
    for (int i = 0; i < kPieces; ++i) {
      unsigned left[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) read(left[r], lefts + r * 8 * kPitch + i * kPiece);
#pragma unroll
      for (int g = 0; g < kGateTiles; ++g) {
        const int gate = (warp_gate() * kGateTiles + g) * 16;
        if (!has_some<Begin, End>(gate)) continue;
        unsigned low_rows[4];
        unsigned high_rows[4];
        read(low_rows, weights + gate * kPitch + i * kPiece);
        read(high_rows, weights + (gate + 8) * kPitch + i * kPiece);
        const auto add_to = [&](float(&sums)[kRowTiles][kTileSums]) {
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
      for (int i = 0; i < 4; ++i) words[i] = rnnc_to_tf32(__uint_as_float(words[i]));
    }
  }

  // What a lane multiplies: 4 elements along k of a row of each tile.
  struct Pieces {
    float4 weight[kGateTiles];
    float4 left[kRowTiles];

    __device__ __forceinline__ void read(const unsigned char* weights, const unsigned char* lefts) {
#pragma unroll
      for (int g = 0; g < kGateTiles; ++g) {
        weight[g] = *reinterpret_cast<const float4*>(weights + g * kTileGates * kPitch);
      }
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        left[r] = *reinterpret_cast<const float4*>(lefts + r * kTileRows * kPitch);
      }
    }
  };

  // Pieces come in runs of 64 bytes, which alternate between the lanes' parts. The next piece is
  // read while one is multiplied.
  template <int Begin, int End>
  __device__ __forceinline__ void multiply_exactly(int slab) {
    constexpr int kRun = kPieces < 4 ? kPieces : 4;
    const int first = part() * kPieces;
    const int byte = first / 4 * (64 * LaneParts) + first % 4 * 16 + lane_part() * 64;
    const unsigned char* weights = rnnc_shared + weights_at(slab) +
                                   (warp_gate() * kGateTiles * kTileGates + lane_gate()) * kPitch +
                                   byte;
    const unsigned char* lefts = rnnc_shared + lefts_at(slab) +
                                 (warp_row() * kRowTiles * kTileRows + lane_row()) * kPitch + byte;
    Pieces now;
    now.read(weights, lefts);
#pragma unroll 1
    for (int run = 0; run < kPieces; run += kRun) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        Pieces next = now;
        const int ahead = i + 1 < kRun ? (i + 1) * 16 : 64 * LaneParts;
        if (i + 1 < kRun || run + kRun < kPieces) next.read(weights + ahead, lefts + ahead);
        add_products<Begin, End>(now);
        now = next;
      }
      weights += 64 * LaneParts;
      lefts += 64 * LaneParts;
    }
  }

  template <int Begin, int End>
  __device__ __forceinline__ void add_products(const Pieces& pieces) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int g = 0; g < kGateTiles; ++g) {
        const int gate = (warp_gate() * kGateTiles + g) * kTileGates;
        const int own = gate + lane_gate();
        if (!has_some<Begin, End>(gate)) continue;
        if (has_others<Begin, End>(gate) && (own < Begin || own >= End)) continue;
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          sums_[g][r][0] =
              fmaf(element(pieces.weight[g], e), element(pieces.left[r], e), sums_[g][r][0]);
        }
      }
    }
  }

  static __device__ __forceinline__ float element(const float4& all, int index) {
    return index == 0 ? all.x : index == 1 ? all.y : index == 2 ? all.z : all.w;
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
          float sum = sums_[g][r][i];
          if constexpr (LaneParts == 2) sum += __shfl_xor_sync(0xffffffffu, sum, 16);
          if (lane_part() == 0) sums[row * kSumStride + gate] = sum;
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
  // Exact products. Lanes that differ in bit 0 read the same weights and those that differ in bit 1
  // the same left operands, which lets shared memory serve half a warp at a time.
  static __device__ __forceinline__ int lane_gate() {
    return ((lane() >> 1 & 1) | (lane() >> 2 & 6)) % (8 / LaneParts);
  }
  static __device__ __forceinline__ int lane_row() { return (lane() & 1) | (lane() >> 1 & 2); }
  static __device__ __forceinline__ int lane_part() { return LaneParts == 1 ? 0 : lane() >> 4; }

  float sums_[kGateTiles][kRowTiles][kTileSums] = {};
};
