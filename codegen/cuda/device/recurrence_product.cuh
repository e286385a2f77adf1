// A product's weights, for the life of the block. What it is like, Shape says (the emitter makes
// one for each product of a kernel):
//
//   kEngine             how it multiplies
//   kGates              rows of the block's weights: those of each result one after the other
//   kKBytes             bytes of such a row, along k
//   kWarps, kKWarps     warps of the block, and how many of them share k, one part after the other;
//                       the others share the gates
//   kKBlocks            neighbouring blocks that share k, of which each has a part for its warps
//   kHeld               a warp's tiles, of 16 gates by 64 bytes of k, one piece of k after the
//                       other: how many of the first are in registers,
//   kShared, kSharedAt  how many after them in shared memory, and from which byte on; all others
//                       are in memory, from where they are loaded at each step
//   kRows               of the left operand that are multiplied at once
//   kLeftGranule        bytes by which its rows in memory may be loaded at once
//   kLeftsAt            where in shared memory exact products put left operands
//   kLeftPieces         room of each warp there, the same for all products: no barrier parts one
//                       warp's product from another's next one
//   kTileRows           where blocks exchange the left operand, the rows of a tile there; else 0,
//                       or 1 of a group of one row
//   kWholeWords         whether two values of 16 bits are stored there at once
//   kLeftInShared       whether all of it is in the block's shared memory
//   kOwnSums            0, or: a warp has all gates of 16 elements, a tile for each result, whose
//                       rows i and i + 8 are elements 2i and 2i + 1, and each lane keeps so many of
//                       their sums (RecurrenceLayout::own_sums)
template <typename Shape>
class rnnc_resident_product {
 public:
  // Of a warp.
  static constexpr int kTiles = ((Shape::kGates + 15) / 16 + Shape::kWarps / Shape::kKWarps - 1) /
                                (Shape::kWarps / Shape::kKWarps);
  static constexpr int kKParts = Shape::kKBlocks * Shape::kKWarps;
  static constexpr int kPieces = ((Shape::kKBytes + 63) / 64 + kKParts - 1) / kKParts;
  static constexpr int kRowTiles = Shape::kRows / 8;
  static constexpr bool kOneRow = Shape::kEngine == rnnc_engine::f32 && Shape::kTileRows == 1;
  // Of one row of memory each lane loads a part of its own, of 8 pieces at once. (With the 8 lanes
  // of other gates loading the same, eight times as many loads are on their way, and steps of a
  // grid are a quarter longer.)
  static constexpr bool kSpread = kOneRow && !Shape::kLeftInShared;
  static constexpr int kLoadBytes = kSpread ? 512 : 64;
  static constexpr int kLoads = (kPieces * 64 + kLoadBytes - 1) / kLoadBytes;
  static constexpr int kOnChip = Shape::kHeld + Shape::kShared;
  static constexpr int kStreamed = kPieces * kTiles - kOnChip;
  // Loads of left operands that are on their way at once: an even number.
  static constexpr int kMostAtOnce = (kStreamed > 0 ? 4 : 8) / kRowTiles * 2;
  static constexpr int kFirst = kLoads < kMostAtOnce ? kLoads : kMostAtOnce;
  // Others follow in halves of these, each while the one before is worked on.
  static constexpr int kHalf = kMostAtOnce / 2;
  static constexpr bool kIsBegun = Shape::kLeftGranule >= 16 && !Shape::kLeftInShared;
  // A piece of four tiles of rows in parts is much code, and takes longer than the next one's left
  // operands take to come: where all weights are on the chip, a loop takes the pieces of which none
  // are in registers.
  static constexpr int kMostHeld = (Shape::kHeld + kTiles - 1) / kTiles;
  static constexpr int kUnrolled =
      ((kMostHeld > kFirst ? kMostHeld : kFirst) + kHalf - 1) / kHalf * kHalf;
  static constexpr bool kRolls = Shape::kEngine == rnnc_engine::split && kRowTiles == 4 &&
                                 kStreamed == 0 && kIsBegun && kPieces - kUnrolled > 1;

  // `Units` elements from `unit` on of each of the product's results, which are `length` elements
  // apart; those before `unit_end`. `base` is the weight of element 0 of the first result, `stream`
  // the block's own place for what finds no room on the chip.
  template <int Units, int Granularity>
  __device__ __forceinline__ void load_weights(const char* base, unsigned length, unsigned unit,
                                               unsigned unit_end, char* stream) {
    stream_ = reinterpret_cast<uint4*>(stream) + threadIdx.x;
    const auto load = [&](unsigned(&words)[4], int piece, int half) {
      const unsigned gate = first_gate() + half * 8 + lane() / 4;
      const unsigned member = kOwn ? half / 2 : gate / Units;
      const unsigned element =
          unit + (kOwn ? warp() * 16 + lane() / 4 * 2 + half % 2 : gate % Units);
      if ((kOwn || gate < Shape::kGates) && element < unit_end) {
        const char* const row =
            base + (static_cast<rnnc_word>(member) * length + element) * Shape::kKBytes;
        int bytes = Shape::kKBytes - byte(piece);
        if (Shape::kKBytes % 16 != 0 && piece != kEnd) bytes = bytes > 0 ? 16 : 0;
        rnnc_load_piece<Granularity>(words, row + byte(piece), bytes);
        round(words);
      }
    };
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
      for (int half = 0; half < 2 * kTiles; ++half) {
        if (tile(piece, half) >= Shape::kHeld) continue;
        unsigned words[4] = {};
        load(words, piece, half);
#pragma unroll
        for (int i = 0; i < 4; ++i) held_[tile(piece, half)][half % 2][i] = words[i];
      }
    }
    // Where these go is an address: code for some serves all.
#pragma unroll 4
    for (int tile = Shape::kHeld; tile < kPieces * kTiles; ++tile) {
      unsigned words[2][4] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) load(words[i], tile / kTiles, tile % kTiles * 2 + i);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        (tile < kOnChip ? spilled(tile, i) : streamed(tile, i))[0] =
            make_uint4(words[i][0], words[i][1], words[i][2], words[i][3]);
      }
    }
  }

  // Of the warp's part of k, for tiles of gates and of rows.
  typedef rnnc_tile_sums<Shape::kEngine> totals[kTiles][Shape::kRows / 8];

  // Of the left operand, a lane's part of the first pieces: they are asked for before they are
  // needed.
  typedef unsigned first_words[kFirst][kRowTiles][4];

  // `from`: of the left operand's row 0.
  typedef typename rnnc_lane_place<Shape::kLeftInShared>::type place;
  static __device__ __forceinline__ place lane_place(const char* from) {
    from += kSpread ? load_byte(0)
                    : k_part() * kPieces * (Shape::kTileRows * 64) + row() * 64 + lane() % 4 * 16;
    if constexpr (Shape::kLeftInShared) {
      return rnnc_kept(static_cast<unsigned>(__cvta_generic_to_shared(from)));
    } else {
      return rnnc_kept(from);
    }
  }

  // `rows` rows are there, or all if Full. `fresh`: this launch writes them, and their tiles lie
  // TileStride bytes apart from `exchanged` on (lane_place). Else row r begins at
  // `left + r * RowBytes`.
  // IsWide: memory has f32, of which 16 bits are to be made.
  template <long long RowBytes, long long TileStride, bool Full, bool IsWide>
  struct left_operand {
    const char* left;
    place exchanged;
    int rows;
    bool fresh;

    // Loads from `first` on, zero where there is nothing: first on their way, then there. Where
    // memory may not be aligned they are made where they are waited for: two ways to make them
    // would meet again before they could wait for anything else.
    template <int Count>
    __device__ __forceinline__ void begin(unsigned (&words)[Count][kRowTiles][4],
                                          int first = 0) const {
      if constexpr (kIsBegun) begin_aligned(words, first);
    }
    template <int Count>
    __device__ __forceinline__ void await(unsigned (&words)[Count][kRowTiles][4],
                                          int first = 0) const {
      if (Shape::kTileRows > 0 && fresh) {
        if constexpr (!kIsBegun) begin_exchanged(words, first);
        if constexpr (Shape::kLeftInShared) {
          rnnc_sync_warp();
        } else {
          await_exchanged(words, first);
        }
      } else {
        if constexpr (!kIsBegun) fetch_rows<RowBytes, IsWide>(words, first, left, rows);
        round(words);
      }
    }

   private:
    __device__ __forceinline__ bool has(int load, int tile) const {
      return (Full || tile * 8 + row() < rows) && is_inside(load);
    }
    template <int Count>
    __device__ __forceinline__ void begin_aligned(unsigned (&words)[Count][kRowTiles][4],
                                                  int first) const {
      const char* from = exchanged;
      int load_stride = kSpread ? kLoadBytes : Shape::kTileRows * 64;
      long long tile_stride = TileStride;
      if (Shape::kTileRows == 0 || !fresh) {
        from = left + row() * RowBytes + load_byte(0);
        load_stride = kLoadBytes;
        tile_stride = 8 * RowBytes;
      }
      clear(words);
#pragma unroll
      for (int load = 0; load < Count; ++load) {
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          if (!has(first + load, tile)) continue;
          rnnc_poll<16>(from + tile * tile_stride + (first + load) * load_stride,
                        words[load][tile]);
        }
      }
    }
    __device__ __forceinline__ void load_exchanged(unsigned* words, int load, int tile) const {
      if (!has(load, tile)) return;
      constexpr int kStride = kSpread ? kLoadBytes : Shape::kTileRows * 64;
      const place from = exchanged + tile * static_cast<int>(TileStride) + load * kStride;
      if constexpr (Shape::kLeftInShared) {
        rnnc_load_shared(from, words);
      } else {
        rnnc_poll<16>(from, words);
      }
    }
    // Once all loads are on their way: each would be waited for else.
    template <int Count>
    static __device__ __forceinline__ void cut_all(unsigned (&words)[Count][kRowTiles][4],
                                                   int first) {
#pragma unroll
      for (int load = 0; load < Count; ++load) {
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          if (ends(first + load)) cut(words[load][tile], load_byte(first + load));
        }
      }
    }
    template <int Count>
    __device__ __forceinline__ void begin_exchanged(unsigned (&words)[Count][kRowTiles][4],
                                                    int first) const {
      clear(words);
#pragma unroll
      for (int load = 0; load < Count; ++load) {
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) {
          load_exchanged(words[load][tile], first + load, tile);
        }
      }
      cut_all(words, first);
    }
    // Of what other blocks write, each lane asks again for that of which something was not there,
    // all at once. (With the same code for what is asked for the first time, steps took up to 16 %
    // longer.)
    template <int Count>
    __device__ __forceinline__ void await_exchanged(unsigned (&words)[Count][kRowTiles][4],
                                                    int first) const {
      rnnc_patience patience;
      while (true) {
        bool waits = false;
        bool missing[Count][kRowTiles];
#pragma unroll
        for (int load = 0; load < Count; ++load) {
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            const unsigned(&some)[4] = words[load][tile];
            missing[load][tile] =
                rnnc_is_unwritten<kWhole>(some[0]) || rnnc_is_unwritten<kWhole>(some[1]) ||
                rnnc_is_unwritten<kWhole>(some[2]) || rnnc_is_unwritten<kWhole>(some[3]);
            waits = waits || missing[load][tile];
          }
        }
        if (!__any_sync(0xffffffffu, waits)) break;
        patience.wait();
#pragma unroll
        for (int load = 0; load < Count; ++load) {
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            if (missing[load][tile]) load_exchanged(words[load][tile], first + load, tile);
          }
        }
        cut_all(words, first);
      }
    }
  };
  template <long long RowBytes, long long TileStride, bool Full, bool IsWide = false>
  static __device__ __forceinline__ left_operand<RowBytes, TileStride, Full, IsWide> left(
      const char* left, place exchanged, int rows, bool fresh) {
    return {left, exchanged, rows, fresh};
  }

  // Stores the sums of the warp's part of k for those of rows [0, kRows) that `Sums` has. The left
  // operand's first words are there.
  template <typename Sums, typename Left>
  __device__ __forceinline__ void multiply(float* sums, const Left& left,
                                           const first_words& words) const {
    if constexpr (Shape::kEngine != rnnc_engine::f32) {
      multiply_on_tensor_cores<Sums>(sums, left, words);
    } else if constexpr (kOneRow) {
      multiply_one_row<Sums>(sums, left, words);
    } else {
      multiply_exactly<Sums>(sums, left, words);
    }
  }

  // As `multiply`, in two: products of which the results are added up have totals in common. With
  // tensor cores only. The first gates of the totals are this product's.
  template <int Tiles, typename Left>
  __device__ __forceinline__ void add_to(rnnc_tile_sums<Shape::kEngine> (&sums)[Tiles][kRowTiles],
                                         const Left& left, const first_words& words) const {
    add_tiles(sums, left, words);
  }
  template <typename Sums>
  static __device__ __forceinline__ void store(float* to, const totals& sums) {
    const int row = lane() % 4 * 2;
    to += (k_warp() * Sums::kRows + row) * Sums::kStride + first_gate() + lane() / 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        if (Sums::kRows < Shape::kRows && r * 8 + row >= Sums::kRows) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          to[(r * 8 + i % 2) * Sums::kStride + tile * 16 + i / 2 * 8] = sums[tile][r].total(i);
        }
      }
    }
  }

 private:
  static constexpr bool kOwn = Shape::kOwnSums > 0;

  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int warp() { return threadIdx.x / 32; }
  static __device__ __forceinline__ int k_warp() {
    return Shape::kKWarps == Shape::kWarps ? warp() : warp() % Shape::kKWarps;
  }
  // Of those of all blocks that share k.
  static __device__ __forceinline__ int k_part() {
    if constexpr (Shape::kKBlocks == 1) return k_warp();
    return blockIdx.x % Shape::kKBlocks * Shape::kKWarps + k_warp();
  }
  static __device__ __forceinline__ int first_gate() {
    return Shape::kKWarps == Shape::kWarps ? 0 : warp() / Shape::kKWarps * (kTiles * 16);
  }
  // Of the left operand's tiles. All lanes have the row if there is but one. Every other column of
  // sums is of a row where lanes have one each, and each of two rows is twice among them where
  // lanes have one element.
  static __device__ __forceinline__ int row() {
    if constexpr (kOneRow) return 0;
    if constexpr (Shape::kOwnSums == 2) return lane() / 4 % 2 == 0 ? lane() / 8 : 8;
    if constexpr (Shape::kOwnSums == 1) return lane() / 4 % 2 == 0 ? lane() / 8 % 2 : 8;
    return lane() / 4;
  }
  // Of the lane's part of a piece, along k.
  static __device__ __forceinline__ int byte(int piece) {
    return (k_part() * kPieces + piece) * 64 + lane() % 4 * 16;
  }
  // And of what it loads of the left operand.
  static __device__ __forceinline__ int load_byte(int load) {
    if constexpr (!kSpread) return byte(load);
    return k_part() * kPieces * 64 + load * kLoadBytes + lane() * 16;
  }
  // Of each warp's pieces the only one that k may end within, and the load that has it.
  static constexpr int kEnd = Shape::kKBytes / 64 % kPieces;
  static __device__ __forceinline__ bool ends(int load) { return load == kEnd * 64 / kLoadBytes; }
  static __device__ __forceinline__ bool is_inside(int load) {
    const bool own = !kSpread || load * kLoadBytes + lane() * 16 < kPieces * 64;
    if (load >= kLoads || !own) return false;
    if (Shape::kKBytes == kKParts * kPieces * 64) return true;
    if (kSpread || load == kEnd) return load_byte(load) < Shape::kKBytes;
    // The same for many loads.
    return k_part() < Shape::kKBytes / 64 / kPieces + (load < kEnd ? 1 : 0);
  }
  // Of the warp's, in the order of pieces.
  static __device__ __forceinline__ int tile(int piece, int half) {
    return piece * kTiles + half / 2;
  }
  static __device__ __forceinline__ uint4* spilled(int tile, int half) {
    return reinterpret_cast<uint4*>(rnnc_shared + Shape::kSharedAt) +
           ((tile - Shape::kHeld) * 2 + half) * (32 * Shape::kWarps) + threadIdx.x;
  }

  __device__ __forceinline__ uint4* streamed(int tile, int half) const {
    return stream_ + ((tile - kOnChip) * 2 + half) * (32 * Shape::kWarps);
  }

  // As tensor cores take them: of other bits of f32 they would just cut off the end. Where they are
  // split, NaNs become one that stays a NaN when it is rounded.
  static __device__ __forceinline__ void round(unsigned* words) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = __uint_as_float(words[i]);
      if constexpr (Shape::kEngine == rnnc_engine::tf32) words[i] = rnnc_to_tf32(value);
      if constexpr (Shape::kEngine == rnnc_engine::split) {
        if (value != value) words[i] = 0x7fc00000u;
      }
    }
  }

  template <int Count>
  static __device__ __forceinline__ void clear(unsigned (&words)[Count][kRowTiles][4]) {
#pragma unroll
    for (int load = 0; load < Count; ++load) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) words[load][tile][i] = 0;
      }
    }
  }

  static __device__ __forceinline__ void copy(unsigned (&to)[kRowTiles][4],
                                              const unsigned (&from)[kRowTiles][4]) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[tile][i] = from[tile][i];
    }
  }

  template <int Count>
  static __device__ __forceinline__ void round(unsigned (&words)[Count][kRowTiles][4]) {
#pragma unroll
    for (int load = 0; load < Count; ++load) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) round(words[load][tile]);
    }
  }

  typedef rnnc_streamed_weights<kStreamed, Shape::kWarps> stream_ahead;

  // Weights of gates i and i + 8 of a tile, by `half`.
  __device__ __forceinline__ void weights(unsigned* words, int piece, int half,
                                          stream_ahead& ahead) const {
    if (tile(piece, half) < Shape::kHeld) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = held_[tile(piece, half)][half % 2][i];
        if constexpr (Shape::kEngine == rnnc_engine::split) rnnc_keep_here(words[i]);
      }
    } else if (tile(piece, half) < kOnChip) {
      rnnc_to_words(*spilled(tile(piece, half), half % 2), words);
    } else {
      ahead.take(words, tile(piece, half) - kOnChip, half % 2);
    }
  }

  // Of row-major memory, that does not change; not rounded.
  template <long long RowBytes, bool IsWide, int Count>
  static __device__ __forceinline__ void fetch_rows(unsigned (&left)[Count][kRowTiles][4],
                                                    int first, const char* from, int rows) {
    from += row() * RowBytes;
#pragma unroll
    for (int load = 0; load < Count; ++load) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        unsigned(&words)[4] = left[load][tile];
        words[0] = words[1] = words[2] = words[3] = 0;
        if (tile * 8 + row() >= rows || !is_inside(first + load)) continue;
        const int at = load_byte(first + load);
        const int bytes = ends(first + load) ? Shape::kKBytes - at : 16;
        if constexpr (IsWide) {
          constexpr bool kIsF16 = Shape::kEngine == rnnc_engine::f16;
          rnnc_load_wide_piece<Shape::kLeftGranule, kIsF16>(
              words, from + tile * 8 * RowBytes + 2 * at, 2 * bytes);
        } else {
          rnnc_load_aligned_piece<Shape::kLeftGranule>(words, from + tile * 8 * RowBytes + at,
                                                       bytes);
        }
      }
    }
    rnnc_sync_warp();
  }

  static constexpr bool kWhole = Shape::kWholeWords || (Shape::kEngine != rnnc_engine::f16 &&
                                                        Shape::kEngine != rnnc_engine::bf16);

  // Makes zeros of what lies behind the end of k, where nothing is ever written.
  static __device__ __forceinline__ void cut(unsigned* words, int at) {
    if constexpr (Shape::kKBytes % 16 != 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (at + 4 * i >= Shape::kKBytes) words[i] = 0;
        if (!kWhole && at + 4 * i + 2 == Shape::kKBytes) words[i] &= 0xffffu;
      }
    }
  }

  // `work(load, left)` for the warp's loads before End: the first ones, then others, by halves or,
  // where they are not begun before they are waited for, some at a time.
  template <int End = kLoads, typename Left, typename Work>
  static __device__ __forceinline__ void by_loads(const Left& left, const first_words& words,
                                                  const Work& work) {
    if constexpr (kIsBegun && kFirst < End) {
      unsigned halves[2][kHalf][kRowTiles][4];
#pragma unroll
      for (int load = 0; load < kFirst; ++load)
        copy(halves[load / kHalf][load % kHalf], words[load]);
#pragma unroll
      for (int first = 0; first < End; first += kHalf) {
        unsigned(&these)[kHalf][kRowTiles][4] = halves[first / kHalf % 2];
        if (first >= kFirst) left.await(these, first);
#pragma unroll
        for (int i = 0; i < kHalf; ++i) {
          if (first + i < End) work(first + i, these[i]);
        }
        if (first + kFirst < End) left.begin(these, first + kFirst);
      }
    } else {
#pragma unroll
      for (int load = 0; load < kFirst; ++load) work(load, words[load]);
      if constexpr (!kIsBegun) {
#pragma unroll
        for (int next = kFirst; next < End; next += kMostAtOnce) {
          unsigned some[kMostAtOnce][kRowTiles][4];
          left.await(some, next);
#pragma unroll
          for (int i = 0; i < kMostAtOnce; ++i) {
            if (next + i < End) work(next + i, some[i]);
          }
        }
      }
    }
  }

  template <typename Sums, typename Left>
  __device__ __forceinline__ void multiply_on_tensor_cores(float* to, const Left& left,
                                                           const first_words& words) const {
    totals sums;
    add_tiles(sums, left, words);
    store<Sums>(to, sums);
  }

  template <int Tiles, typename Left>
  __device__ __forceinline__ void add_tiles(
      rnnc_tile_sums<Shape::kEngine> (&sums)[Tiles][kRowTiles], const Left& left,
      const first_words& first) const {
    stream_ahead ahead(stream_);
    by_loads<kRolls ? kUnrolled : kLoads>(
        left, first, [&](int piece, const unsigned(&words)[kRowTiles][4]) {
          add_piece(sums, words,
                    [&](unsigned* gate, int half) { weights(gate, piece, half, ahead); });
        });
    if constexpr (kRolls) {
      unsigned next[1][kRowTiles][4];
      left.begin(next, kUnrolled);
#pragma unroll 1
      for (int piece = kUnrolled; piece < kPieces; ++piece) {
        left.await(next, piece);
        unsigned words[kRowTiles][4];
        copy(words, next[0]);
        if (piece + 1 < kPieces) left.begin(next, piece + 1);
        add_piece(sums, words, [&](unsigned* gate, int half) {
          rnnc_to_words(*spilled(tile(piece, half), half % 2), gate);
        });
      }
    }
  }
  // `weights(words, half)`: of the piece (weights).
  template <int Tiles, typename Weights>
  static __device__ __forceinline__ void add_piece(
      rnnc_tile_sums<Shape::kEngine> (&sums)[Tiles][kRowTiles],
      const unsigned (&words)[kRowTiles][4], const Weights& weights) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      unsigned low[4];
      unsigned high[4];
      weights(low, 2 * tile);
      weights(high, 2 * tile + 1);
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) sums[tile][r].add(low + k, high + k, words[r] + k);
      }
    }
  }

  // ---- Exactly: the four lanes of a gate have parts of k, and add up what they have. ----

  template <typename Sums, typename Left>
  __device__ __forceinline__ void multiply_one_row(float* to, const Left& left,
                                                   const first_words& first) const {
    float sums[2 * kTiles] = {};
    stream_ahead ahead(stream_);
    const auto multiply = [&](int piece, const unsigned* words) {
#pragma unroll
      for (int half = 0; half < 2 * kTiles; ++half) {
        unsigned gate[4];
        weights(gate, piece, half, ahead);
        rnnc_add_products(sums[half], gate, words);
      }
    };
    if constexpr (kSpread) {
      uint4* const mine = put_in_shared(left, first);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        unsigned words[4];
        rnnc_to_words(mine[piece * 4 + lane() % 4], words);
        multiply(piece, words);
      }
      rnnc_sync_warp();  // the next left operands come to the same places
    } else {
      by_loads(left, first,
               [&](int piece, const unsigned(&words)[kRowTiles][4]) { multiply(piece, words[0]); });
    }
    to += k_warp() * Sums::kRows * Sums::kStride + first_gate() + lane() / 4;
    const bool odd = lane() % 2 != 0;
#pragma unroll
    for (int pair = 0; pair < kTiles; ++pair) {
      float sum = rnnc_exchange_between(sums[2 * pair], sums[2 * pair + 1], odd, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane() % 4 < 2) to[(2 * pair + odd) * 8] = sum;
    }
  }

  // Left operands go through shared memory, of which each warp has a part, so that each lane has
  // all rows. Two rows at a time: unrolled for all, the code would not fit the instruction cache.
  template <typename Sums, typename Left>
  __device__ __forceinline__ void multiply_exactly(float* to, const Left& left,
                                                   const first_words& first) const {
    static_assert(Shape::kEngine != rnnc_engine::f32 || Shape::kRows == 8, "one tile of rows");
    uint4* const mine = put_in_shared(left, first);
    const bool odd = lane() % 2 != 0;
    const bool upper = lane() % 4 / 2 != 0;
    to += (k_warp() * Sums::kRows + odd) * Sums::kStride + first_gate() + upper * 8 + lane() / 4;
#pragma unroll 1
    for (int row = 0; row < min(left.rows, 8); row += 2) {
      float sums[2 * kTiles][2] = {};
      stream_ahead ahead(stream_);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        unsigned x[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          rnnc_to_words(mine[piece * 32 + (row + r) * 4 + lane() % 4], x[r]);
        }
#pragma unroll
        for (int half = 0; half < 2 * kTiles; ++half) {
          unsigned gate[4];
          weights(gate, piece, half, ahead);
#pragma unroll
          for (int r = 0; r < 2; ++r) rnnc_add_products(sums[half][r], gate, x[r]);
        }
      }
#pragma unroll
      for (int pair = 0; pair < kTiles; ++pair) {
        float of_row[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          of_row[i] = rnnc_exchange_between(sums[2 * pair + i][0], sums[2 * pair + i][1], odd, 1);
        }
        to[row * Sums::kStride + pair * 16] = rnnc_exchange_between(of_row[0], of_row[1], upper, 2);
      }
    }
    rnnc_sync_warp();  // the next left operands come to the same places
  }

  // The left operand, where the warp's lanes all have it.
  template <typename Left>
  static __device__ __forceinline__ uint4* put_in_shared(const Left& left,
                                                         const first_words& first) {
    static_assert(kPieces <= Shape::kLeftPieces, "room for all of them");
    uint4* const mine = reinterpret_cast<uint4*>(rnnc_shared + Shape::kLeftsAt) +
                        warp() * (Shape::kLeftPieces * 32);
    by_loads(left, first, [&](int load, const unsigned(&words)[kRowTiles][4]) {
      mine[load * 32 + lane()] = make_uint4(words[0][0], words[0][1], words[0][2], words[0][3]);
    });
    rnnc_sync_warp();
    return mine;
  }

  unsigned held_[Shape::kHeld > 0 ? Shape::kHeld : 1][2][4];
  uint4* stream_;
};
