// ---- Reductions over a row, of which each block of a recurrence has a part (recurrence.cuh). ----

// A part is a pair: the sum and the squared deviations from the part's mean, or an extremum.
enum class rnnc_reduction { moments, least, greatest };

// Hands on a block's parts of a row. Pairs of them go at once where they are aligned to their size.
template <bool Pairs, int Count>
static __device__ __forceinline__ void rnnc_exchange(float2* to, const float2 (&parts)[Count]) {
  unsigned bits[2 * Count];
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    bits[2 * i] = rnnc_exchanged<rnnc_engine::f32>(parts[i].x);
    bits[2 * i + 1] = rnnc_exchanged<rnnc_engine::f32>(parts[i].y);
  }
#pragma unroll
  for (int i = 0; i < Count; i += Pairs ? 2 : 1) rnnc_publish<Pairs ? 16 : 8>(to + i, bits + 2 * i);
}

// Results of reductions, for all rows of a pass one after the other.
static __device__ __forceinline__ float2* rnnc_statistics(int at) {
  return reinterpret_cast<float2*>(rnnc_shared + at);
}

// What `value` of some neighbouring lanes makes, in each of them.
template <rnnc_reduction Reduction, int Lanes>
static __device__ __forceinline__ float rnnc_joined(float value) {
  static_assert(Lanes <= 32, "lanes of one warp");
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    if constexpr (Reduction == rnnc_reduction::least) {
      value = rnnc_min(value, other);
    } else if constexpr (Reduction == rnnc_reduction::greatest) {
      value = rnnc_max(value, other);
    } else {
      value += other;
    }
  }
  return value;
}

// a / b, where b mostly is the power of two Usual.
template <int Usual>
static __device__ __forceinline__ float rnnc_quotient(float a, float b) {
  return b == Usual ? a * (1.0f / Usual) : a / b;
}

template <rnnc_reduction Reduction>
static __device__ __forceinline__ float rnnc_identity() {
  return Reduction == rnnc_reduction::least      ? rnnc_least::identity()
         : Reduction == rnnc_reduction::greatest ? rnnc_greatest::identity()
                                                 : 0.0f;
}

// A sum and squared deviations, of some neighbouring lanes that have Count elements each.
template <int Lanes, int Count>
static __device__ __forceinline__ float2 rnnc_joined_moments(float sum, float squares) {
#pragma unroll
  for (int offset = 1; offset < Lanes; offset *= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, sum, offset);
    const float apart = sum - other;
    squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    squares = fmaf(apart * apart, 0.5f / (Count * offset), squares);
    sum += other;
  }
  return make_float2(sum, squares);
}

// The part of the `Lanes` neighbouring lanes that have `count` elements of a row; this one has
// `own` of its Span values. Every lane takes part. Full: all lanes always have all.
template <rnnc_reduction Reduction, int Lanes, int Span, bool Full>
static __device__ __forceinline__ float2 rnnc_part(const float (&values)[Span], unsigned own,
                                                   unsigned count) {
  if constexpr (Full) own = Span;
  float sum = rnnc_identity<Reduction>();
#pragma unroll
  for (int i = 0; i < Span; ++i) {
    if (i >= own) continue;
    if constexpr (Reduction == rnnc_reduction::least) {
      sum = rnnc_min(sum, values[i]);
    } else if constexpr (Reduction == rnnc_reduction::greatest) {
      sum = rnnc_max(sum, values[i]);
    } else {
      sum += values[i];
    }
  }
  if constexpr (Reduction != rnnc_reduction::moments) {
    return make_float2(rnnc_joined<Reduction, Lanes>(sum), 0.0f);
  }
  const float mean =
      Full ? sum * (1.0f / Span)
           : rnnc_quotient<Lanes * Span>(sum = rnnc_joined<Reduction, Lanes>(sum),
                                         static_cast<float>(min(count, Lanes * Span)));
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < Span; ++i) {
    const float apart = values[i] - mean;
    if (i < own) squares = fmaf(apart, apart, squares);
  }
  return Full ? rnnc_joined_moments<Lanes, Span>(sum, squares)
              : make_float2(sum, rnnc_joined<Reduction, Lanes>(squares));
}

// Joins the parts of all `Blocks` blocks for the first `rows` rows, and puts the results to `to`, a
// reduction's `Rows` rows one after the other. A row's parts lie from `from` on, those of a block
// together: it writes whole sectors of the cache where it can (a step of a layer-norm LSTM on an
// H200: 5.9 us; with those of a reduction together 6.9).
// Rows are Stride pairs apart. Some lanes share a row, or one of `Sets` equal parts of its
// reductions, that are all of one kind then; all blocks join in one order. Squared deviations of
// parts join as those of Chan, Golub and LeVeque (1983).
// Threads: so many from FirstThread on, which have handed on the block's own parts. Looking for the
// others' before they can be there delays those who store them, and what comes just after a look is
// seen a trip later (the same step: 4.2 us, waiting 3.9).
template <typename Units, int Blocks, int FirstThread, int Threads, int Rows, int Stride,
          bool Pairs, int Sets, rnnc_reduction... Reductions>
struct rnnc_parts {
  static constexpr int kCyclesOnTheWay = 200;  // of a store to the L2 cache, at least
  static constexpr int kLanes = Blocks >= 32 ? 32 : Blocks >= 8 ? 8 : 1;  // of a row
  static constexpr int kParts = (Blocks + kLanes - 1) / kLanes;           // of a lane
  static constexpr int kCount = sizeof...(Reductions);
  static constexpr int kOfSet = kCount / Sets;
  static constexpr int kAtOnce = Pairs ? 2 : 1;  // parts, of one load
  // What is on its way at once: all parts of some reductions, of as many rows as there is room for.
  static constexpr int kMost = kParts < 8 ? 16 / kParts / kAtOnce * kAtOnce : kAtOnce;
  static constexpr int kReductionsNow = kOfSet < kMost ? kOfSet : kMost;
  static constexpr int kTurns = (Rows * Sets * kLanes + Threads - 1) / Threads;
  static constexpr int kRoom = kMost / kReductionsNow;
  static constexpr int kRowsNow = kRoom < kTurns ? kRoom : kTurns;

  static __device__ __forceinline__ void join(const float2* from, float2* to, int rows) {
    if constexpr (FirstThread > 0) {
      if (threadIdx.x < FirstThread) return;
    }
    rnnc_spend(kCyclesOnTheWay);
#pragma unroll 1
    for (int first = 0; first < rows * Sets; first += kRowsNow * (Threads / kLanes)) {
      row_of_lane of[kRowsNow];
#pragma unroll
      for (int i = 0; i < kRowsNow; ++i) {
        const int place = first + i * (Threads / kLanes) + (threadIdx.x - FirstThread) / kLanes;
        const int row = place / Sets;
        const int set = place % Sets * kOfSet;
        of[i] = {from + row * Stride + threadIdx.x % kLanes * kCount + set, to + set * Rows + row,
                 row < rows};
      }
      join_from<0>(of);
    }
  }

 private:
  static constexpr rnnc_reduction kReductions[] = {Reductions...};

  struct row_of_lane {
    const float2* from;
    float2* to;
    bool inside;
  };
  template <int Now>
  struct parts_of_lane {
    unsigned words[kParts][Now][2];
  };

  template <int First>
  static __device__ __forceinline__ void join_from(const row_of_lane (&of)[kRowsNow]) {
    if constexpr (First < kOfSet) {
      constexpr int kNow = kOfSet - First < kReductionsNow ? kOfSet - First : kReductionsNow;
      parts_of_lane<kNow> parts[kRowsNow];
      fetch<First>(parts, of);
#pragma unroll
      for (int i = 0; i < kRowsNow; ++i) join_one<First, 0>(parts[i], of[i]);
      join_from<First + kNow>(of);
    }
  }

  template <int First, int Index, int Now>
  static __device__ __forceinline__ void join_one(const parts_of_lane<Now>& parts,
                                                  const row_of_lane& of) {
    if constexpr (Index < Now) {
      const float2 result = joined<kReductions[First + Index], Index>(parts.words);
      if (of.inside && threadIdx.x % kLanes == 0) of.to[(First + Index) * Rows] = result;
      join_one<First, Index + 1>(parts, of);
    }
  }

  static __device__ __forceinline__ int block(int part) {
    return threadIdx.x % kLanes + part * kLanes;
  }

  // Parts once they are there.
  template <int First, int Now>
  static __device__ __forceinline__ void fetch(parts_of_lane<Now> (&parts)[kRowsNow],
                                               const row_of_lane (&of)[kRowsNow]) {
    const auto load = [&](int row, int part) {
      if (!of[row].inside || block(part) >= Blocks) return;
#pragma unroll
      for (int i = 0; i < Now; i += kAtOnce) {
        rnnc_poll<8 * kAtOnce>(of[row].from + First + part * (kLanes * kCount) + i,
                               parts[row].words[part][i]);
      }
    };
#pragma unroll
    for (int row = 0; row < kRowsNow; ++row) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < Now; ++i) {
          parts[row].words[part][i][0] = parts[row].words[part][i][1] = 0;
        }
        load(row, part);
      }
    }
    bool waits;
    rnnc_patience patience;
    do {
      waits = false;
      bool missing[kRowsNow][kParts];
#pragma unroll
      for (int row = 0; row < kRowsNow; ++row) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          bool own = false;
#pragma unroll
          for (int i = 0; i < Now; ++i) {
            own |= parts[row].words[part][i][0] == 0xffffffffu;
            own |= parts[row].words[part][i][1] == 0xffffffffu;
          }
          missing[row][part] = __any_sync(0xffffffffu, own);
          waits |= missing[row][part];
        }
      }
      if (!waits) break;
      patience.wait();
#pragma unroll
      for (int row = 0; row < kRowsNow; ++row) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          if (missing[row][part]) load(row, part);
        }
      }
    } while (waits);
  }

  template <rnnc_reduction Reduction, int Index, int Now>
  static __device__ __forceinline__ float2 joined(const unsigned (&parts)[kParts][Now][2]) {
    float own[kParts];
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      own[j] = block(j) < Blocks ? __uint_as_float(parts[j][Index][0]) : rnnc_identity<Reduction>();
    }
    if constexpr (Reduction != rnnc_reduction::moments) {
      float extremum = own[0];
#pragma unroll
      for (int j = 1; j < kParts; ++j) {
        extremum = Reduction == rnnc_reduction::least ? rnnc_min(extremum, own[j])
                                                      : rnnc_max(extremum, own[j]);
      }
      return make_float2(rnnc_joined<Reduction, kLanes>(extremum), 0.0f);
    } else {
      constexpr bool kFull = Units::kFull && Blocks == kLanes * kParts;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kParts; ++j) sum += own[j];
      if constexpr (!kFull) sum = rnnc_joined<Reduction, kLanes>(sum);
      const float mean = sum / static_cast<float>(kFull ? Units::kUnits * kParts : Units::kLength);
      float squares = 0.0f;
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
        if (block(j) >= Blocks) continue;
        const auto elements = static_cast<float>(kFull ? Units::kUnits : Units::count(block(j)));
        const float apart = rnnc_quotient<Units::kUnits>(own[j], elements) - mean;
        squares += fmaf(elements * apart, apart, __uint_as_float(parts[j][Index][1]));
      }
      if constexpr (kFull) return rnnc_joined_moments<kLanes, Units::kUnits * kParts>(sum, squares);
      return make_float2(sum, rnnc_joined<Reduction, kLanes>(squares));
    }
  }
};
