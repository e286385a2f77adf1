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

// Results of reductions, for all rows of a lap one after the other.
static __device__ __forceinline__ float2* rnnc_statistics(int at) {
  return reinterpret_cast<float2*>(rnnc_shared + at);
}

template <rnnc_reduction Reduction>
static __device__ __forceinline__ float rnnc_extremum(float a, float b) {
  return Reduction == rnnc_reduction::least ? rnnc_min(a, b) : rnnc_max(a, b);
}

// The greatest power of two that is not above Most, which is at least 1.
template <int Most>
static __device__ __forceinline__ constexpr int rnnc_power_of_two() {
  int power = 1;
  while (2 * power <= Most) power *= 2;
  return power;
}

// What `value` of some neighbouring lanes makes, in each of them.
template <rnnc_reduction Reduction, int Lanes>
static __device__ __forceinline__ float rnnc_joined(float value) {
  static_assert(Lanes <= 32, "lanes of one warp");
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    if constexpr (Reduction == rnnc_reduction::moments) {
      value += other;
    } else {
      value = rnnc_extremum<Reduction>(value, other);
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

// What two values of Elements elements each make.
template <rnnc_reduction Reduction, int Elements>
static __device__ __forceinline__ float2 rnnc_both(float2 a, float2 b) {
  if constexpr (Reduction != rnnc_reduction::moments) {
    return make_float2(rnnc_extremum<Reduction>(a.x, b.x), 0.0f);
  }
  const float apart = a.x - b.x;
  return make_float2(a.x + b.x, fmaf(apart * apart, 0.5f / Elements, a.y + b.y));
}

// Of Count values of each lane, what those of Lanes neighbouring lanes make that are a multiple of
// First apart. While a lane has several values, a power of two, it keeps half of them and hands on
// the others, so that it ends with value number `kept` alone. Each value is of Elements elements.
template <rnnc_reduction Reduction, int Lanes, int First, int Elements, int Count>
static __device__ __forceinline__ float2 rnnc_folded(const float2 (&values)[Count], int& kept) {
  if constexpr (First == Lanes) {
    static_assert(Count == 1, "as many lanes as values");
    return values[0];
  } else {
    static_assert(Count == 1 || Count % 2 == 0, "a power of two");
    constexpr int kHalf = (Count + 1) / 2;
    const bool upper = Count > 1 && threadIdx.x / First % 2 != 0;
    if (upper) kept += kHalf;
    float2 halves[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float2 low = values[i];
      const float2 high = values[Count - kHalf + i];
      const float2 own = upper ? high : low;
      const float2 others = upper || Count == 1 ? low : high;
      float2 another = make_float2(__shfl_xor_sync(0xffffffffu, others.x, First), 0.0f);
      if constexpr (Reduction == rnnc_reduction::moments) {
        another.y = __shfl_xor_sync(0xffffffffu, others.y, First);
      }
      halves[i] = rnnc_both<Reduction, Elements>(own, another);
    }
    return rnnc_folded<Reduction, Lanes, 2 * First, 2 * Elements>(halves, kept);
  }
}

// What Count values of one lane make, of Elements elements each: halves of them in pairs, while
// there are any.
template <rnnc_reduction Reduction, int Elements, int Count>
static __device__ __forceinline__ float2 rnnc_of_lane(const float2 (&values)[Count]) {
  if constexpr (Count == 1) {
    return values[0];
  } else if constexpr (Count % 2 == 0) {
    float2 pairs[Count / 2];
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) {
      pairs[i] = rnnc_both<Reduction, Elements>(values[i], values[i + Count / 2]);
    }
    return rnnc_of_lane<Reduction, 2 * Elements>(pairs);
  } else if constexpr (Reduction != rnnc_reduction::moments) {
    float extremum = values[0].x;
#pragma unroll
    for (int i = 1; i < Count; ++i) {
      extremum = rnnc_extremum<Reduction>(extremum, values[i].x);
    }
    return make_float2(extremum, 0.0f);
  } else {
    float sum = values[0].x;
#pragma unroll
    for (int i = 1; i < Count; ++i) sum += values[i].x;
    const float mean = sum * (1.0f / (Elements * Count));
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float apart = values[i].x * (1.0f / Elements) - mean;
      squares += fmaf(Elements * apart, apart, values[i].y);
    }
    return make_float2(sum, squares);
  }
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
    if constexpr (Reduction == rnnc_reduction::moments) {
      sum += values[i];
    } else {
      sum = rnnc_extremum<Reduction>(sum, values[i]);
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
  if constexpr (!Full) return make_float2(sum, rnnc_joined<Reduction, Lanes>(squares));
  const float2 of_lane[1] = {make_float2(sum, squares)};
  int kept = 0;
  return rnnc_folded<Reduction, Lanes, 1, Span>(of_lane, kept);
}

// Some parts of a lane's, once all of those are there that it loads: `load(i)` asks for words[i].
// Both words of a part are there together, and the second is not negative.
template <int Count, int Words, typename Load>
static __device__ __forceinline__ void rnnc_await_parts(unsigned (&words)[Count][Words],
                                                        const Load& load) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
#pragma unroll
    for (int j = 0; j < Words; ++j) words[i][j] = 0;
    load(i);
  }
  rnnc_patience patience;
  while (true) {
    unsigned missing[Count];
    unsigned any = 0;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      missing[i] = 0;
#pragma unroll
      for (int j = 1; j < Words; j += 2) missing[i] |= words[i][j];
      any |= missing[i];
    }
    if (!__any_sync(0xffffffffu, static_cast<int>(any) < 0)) break;
    patience.wait();
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (static_cast<int>(missing[i]) < 0) load(i);
    }
  }
}

// Lanes that share the parts of a row, which are `loads` loads: as many as there can be, at least
// `least`, or fewer, so that all `threads` have parts of one row and none has more than `most`
// loads. Each time that their number halves, so does one round of shuffles.
static __device__ __forceinline__ constexpr int rnnc_lanes_of_row(int loads, int least, int most,
                                                                  int threads, int rows) {
  int lanes = (loads & -loads) < 32 ? (loads & -loads) : 32;
  while (lanes > least && threads / lanes < rows && loads / lanes * 2 <= most) lanes /= 2;
  return lanes;
}

// Joins the parts that all blocks have of some reductions of one kind, for the first `rows` rows of
// a lap. `Units`: which elements each block has (rnnc_units). Puts the results to `to`, a
// reduction's rows one after the other. What Parts says:
//
//   kReduction          the kind
//   kBlocks             that have parts
//   kFirstThread        the first thread that joins, of those that handed on the block's own parts
//                       at the time `since`, or of others that have nothing else to do meanwhile
//   kThreads            how many do
//   kRows               of a lap, at most
//   kCount              how many reductions are joined
//   kApart              pairs from one block's parts to the next one's
//   kStride             pairs from one row's parts to the next one's
//   kPairs              whether two parts are aligned to 16 bytes, so that they are loaded at once
//
// A row's parts lie from `from` on, those of a block together: it writes whole sectors of the cache
// where it can, and who looks at them looks at few lines. (A step of a layer-norm LSTM on an H200:
// 3.9 us; with those of a reduction together 1 us more, with those of a block and all rows together
// 0.5 us more.) All blocks join in one order. Squared deviations of parts join as those of Chan,
// Golub and LeVeque (1983). Looking for the others' parts before they can be there delays those who
// store them, and what comes just after a look is seen a trip later (the same step: 4.2 us, waiting
// 3.9).
template <typename Parts, typename Units>
struct rnnc_parts {
  static constexpr rnnc_reduction kReduction = Parts::kReduction;
  static constexpr int kCyclesOnTheWay = 300;  // of a store to the L2 cache, at least
  static constexpr int kMostWords = 32;        // of a thread, on their way at once

  static __device__ __forceinline__ void join(const float2* from, float2* to, int rows,
                                              unsigned since) {
    if constexpr (Parts::kFirstThread > 0) {
      if (threadIdx.x < Parts::kFirstThread) return;
    }
    if constexpr (kInOrder) from += thread() / kLanes * Parts::kStride + thread() % kLanes * 2;
    from = rnnc_kept(from);
    rnnc_spend(since, kCyclesOnTheWay);
    if constexpr (kInOrder) {
      join_in_order(from, to, rows);
    } else {
      join_by_blocks(from, to, rows);
    }
  }

 private:
  static __device__ __forceinline__ int thread() { return threadIdx.x - Parts::kFirstThread; }

  // ---- Lanes load a row's parts in the order of memory, 16 bytes each. A lane always has parts of
  // ---- the same reductions, and all parts are of as many elements.

  static constexpr int kPairs = Parts::kBlocks * Parts::kCount / 2;        // of a row
  static constexpr int kLoads = Parts::kPairs && kPairs > 0 ? kPairs : 1;  // likewise
  static constexpr int kKinds =
      Parts::kCount == 1 ? 1 : Parts::kCount / 2;             // of lanes, by their reductions
  static constexpr int kValues = Parts::kCount == 1 ? 1 : 2;  // of a lane and a row
  static constexpr int kResults = kKinds * kValues;           // of a row
  static constexpr int kLanes =
      rnnc_lanes_of_row(kLoads, kResults, kMostWords / 4, Parts::kThreads, Parts::kRows);
  static constexpr int kLoadsOfLane = kLoads / kLanes;
  static constexpr bool kInOrder =
      Parts::kPairs && Parts::kApart == Parts::kCount && Units::kFull &&
      Parts::kBlocks * Parts::kCount % 2 == 0 && (Parts::kCount == 1 || Parts::kCount % 2 == 0) &&
      (kKinds & kKinds - 1) == 0 && kResults <= kLanes && kLoadsOfLane * 4 <= kMostWords;
  static constexpr int kTeams = Parts::kThreads / kLanes;
  static constexpr int kRoom = kInOrder ? kMostWords / (kLoadsOfLane * 4) : 1;
  static constexpr int kTurns = (Parts::kRows + kTeams - 1) / kTeams;
  static constexpr int kWanted = kRoom < kTurns ? kRoom : kTurns;
  // So many rows that each of a team's lanes may end with one value.
  static constexpr int kMostRows = kLanes / kResults;
  static constexpr int kRowsNow =
      kInOrder ? rnnc_power_of_two<(kWanted < kMostRows ? kWanted : kMostRows)>() : 1;

  static __device__ __forceinline__ void join_in_order(const float2* from, float2* to, int rows) {
    const int lane = thread() % kLanes;
#pragma unroll 1
    for (int first = 0; first < rows; first += kTeams * kRowsNow) {
      const int row = first + thread() / kLanes;
      int kept = 0;
      const float2 result =
          in_order<kRowsNow>(from + first * Parts::kStride, rows - row, kTeams, kept);
      const int place = row + kept / kValues * kTeams;
      if (lane < kResults * kRowsNow && place < rows) {
        to[(lane % kKinds * kValues + kept % kValues) * Parts::kRows + place] = result;
      }
    }
  }

  // Of Now rows from the lane's first part on, `apart` apart, as far as there are `rows`: a result
  // that the lane ends with, of row kept / kValues.
  template <int Now>
  static __device__ __forceinline__ float2 in_order(const float2* from, int rows, int apart,
                                                    int& kept) {
    unsigned words[Now * kLoadsOfLane][4];
    rnnc_await_parts(words, [&](int i) {
      const int row = i / kLoadsOfLane * apart;
      const int load = i % kLoadsOfLane * kLanes;
      if (row < rows) rnnc_poll<16>(from + row * Parts::kStride + load * 2, words[i]);
    });
    float2 values[Now * kValues];
#pragma unroll
    for (int i = 0; i < Now; ++i) of_row<kValues>(words, i * kLoadsOfLane, values + i * kValues);
    constexpr int kElements = Units::kUnits * kLoadsOfLane * 2 / kValues;
    return rnnc_folded<kReduction, kLanes, kKinds, kElements>(values, kept);
  }

  template <int Values, int All>
  static __device__ __forceinline__ void of_row(const unsigned (&words)[All][4], int first,
                                                float2* values) {
    constexpr int kOfValue = kLoadsOfLane * 2 / Values;
#pragma unroll
    for (int value = 0; value < Values; ++value) {
      float2 parts[kOfValue];
#pragma unroll
      for (int i = 0; i < kOfValue; ++i) {
        const unsigned* const both = words[first + (Values == 2 ? i : i / 2)];
        const int at = Values == 2 ? value * 2 : i % 2 * 2;
        parts[i] = make_float2(__uint_as_float(both[at]), __uint_as_float(both[at + 1]));
      }
      values[value] = rnnc_of_lane<kReduction, Units::kUnits>(parts);
    }
  }

  // ---- Some lanes share a row's reduction, and have parts of some blocks each. ----

  static constexpr int kLanesOfOne = Parts::kBlocks >= 32 ? 32 : Parts::kBlocks >= 8 ? 8 : 1;
  static constexpr int kParts = (Parts::kBlocks + kLanesOfOne - 1) / kLanesOfOne;  // of a lane
  static constexpr int kTeamsOfOne = Parts::kThreads / kLanesOfOne;
  // No part is of fewer elements, and all lanes have as many.
  static constexpr bool kFull = Units::kFull && Parts::kBlocks == kLanesOfOne * kParts;

  static __device__ __forceinline__ int block(int part) {
    return thread() % kLanesOfOne + part * kLanesOfOne;
  }

  static constexpr int kTurnsOfOne = (Parts::kRows * Parts::kCount + kTeamsOfOne - 1) / kTeamsOfOne;
  static constexpr int kRoomForOnes = kMostWords / 2 / kParts > 0 ? kMostWords / 2 / kParts : 1;
  static constexpr int kNow = kRoomForOnes < kTurnsOfOne ? kRoomForOnes : kTurnsOfOne;

  static __device__ __forceinline__ void join_by_blocks(const float2* from, float2* to, int rows) {
#pragma unroll 1
    for (int first = 0; first < rows * Parts::kCount; first += kTeamsOfOne * kNow) {
      const int place = first + thread() / kLanesOfOne;
      unsigned words[kNow * kParts][2];
      rnnc_await_parts(words, [&](int i) {
        const int of_one = place + i / kParts * kTeamsOfOne;
        const int part = i % kParts;
        if (of_one >= rows * Parts::kCount || block(part) >= Parts::kBlocks) return;
        rnnc_poll<8>(from + of_one / Parts::kCount * Parts::kStride + block(part) * Parts::kApart +
                         of_one % Parts::kCount,
                     words[i]);
      });
#pragma unroll
      for (int i = 0; i < kNow; ++i) {
        float2 parts[kParts];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const unsigned(&both)[2] = words[i * kParts + part];
          parts[part] = make_float2(__uint_as_float(both[0]), __uint_as_float(both[1]));
        }
        const float2 result = joined(parts);
        const int of_one = place + i * kTeamsOfOne;
        if (of_one < rows * Parts::kCount && thread() % kLanesOfOne == 0) {
          to[of_one % Parts::kCount * Parts::kRows + of_one / Parts::kCount] = result;
        }
      }
    }
  }

  static __device__ __forceinline__ float2 joined(const float2 (&parts)[kParts]) {
    if constexpr (kFull) {
      const float2 own[1] = {rnnc_of_lane<kReduction, Units::kUnits>(parts)};
      int kept = 0;
      return rnnc_folded<kReduction, kLanesOfOne, 1, Units::kUnits * kParts>(own, kept);
    } else if constexpr (kReduction != rnnc_reduction::moments) {
      float extremum = rnnc_identity<kReduction>();
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (block(part) < Parts::kBlocks)
          extremum = rnnc_extremum<kReduction>(extremum, parts[part].x);
      }
      return make_float2(rnnc_joined<kReduction, kLanesOfOne>(extremum), 0.0f);
    } else {
      float sum = 0.0f;
#pragma unroll
      for (int part = 0; part < kParts; ++part) sum += parts[part].x;
      sum = rnnc_joined<kReduction, kLanesOfOne>(sum);
      const float mean = sum / static_cast<float>(Units::kLength);
      float squares = 0.0f;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (block(part) >= Parts::kBlocks) continue;
        const auto elements = static_cast<float>(Units::count(block(part)));
        const float apart = rnnc_quotient<Units::kUnits>(parts[part].x, elements) - mean;
        squares += fmaf(elements * apart, apart, parts[part].y);
      }
      return make_float2(sum, rnnc_joined<kReduction, kLanesOfOne>(squares));
    }
  }
};
