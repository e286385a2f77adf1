// ---- Affine maps that scans compose (ScanRound of ir/plan/scan_round.h). ----

struct rnnc_sum_product {
  static constexpr float kMostCoefficient = 0x1p20f;
  static constexpr float kMostOffset = 0x1p60f;
  static constexpr float kMostState = 0x1p40f;
  static __device__ __forceinline__ float zero() { return 0.0f; }
  static __device__ __forceinline__ float one() { return 1.0f; }
  static __device__ __forceinline__ float times(float a, float b) { return a * b; }
  static __device__ __forceinline__ float join(float sum, float a, float b) {
    return fmaf(a, b, sum);
  }
  // What is no NaN and at most `most`, of maps and of states.
  static __device__ __forceinline__ bool fits(float value, float most) {
    return fabsf(value) <= most;
  }
  static __device__ __forceinline__ bool state_fits(float value, float most) {
    return fits(value, most);
  }
};

// Infinities that stand for zero do no harm. Nor do maps' numbers that come near them: an offset is
// never below its last step's, and a state that such a coefficient leads to is lost step by step, too.
struct rnnc_max_plus {
  static constexpr float kMostCoefficient = 0x1p110f;
  static constexpr float kMostOffset = 0x1p112f;
  static constexpr float kMostState = 0x1p110f;
  static __device__ __forceinline__ float zero() { return __int_as_float(0xff800000); }
  static __device__ __forceinline__ float one() { return 0.0f; }
  static __device__ __forceinline__ float times(float a, float b) { return a + b; }
  static __device__ __forceinline__ float join(float sum, float a, float b) {
    return rnnc_max(sum, a + b);
  }
  static __device__ __forceinline__ bool fits(float value, float most) { return value <= most; }
  static __device__ __forceinline__ bool state_fits(float value, float most) {
    return (fabsf(value) <= most) | (value == zero());
  }
};
struct rnnc_min_plus : rnnc_max_plus {
  static __device__ __forceinline__ float zero() { return __int_as_float(0x7f800000); }
  static __device__ __forceinline__ float join(float sum, float a, float b) {
    return rnnc_min(sum, a + b);
  }
  static __device__ __forceinline__ bool fits(float value, float most) { return value >= -most; }
  static __device__ __forceinline__ bool state_fits(float value, float most) {
    return (fabsf(value) <= most) | (value == zero());
  }
};

// The coefficients of a round's maps (ir/plan/scan_structure.h), in `a`.
template <typename Algebra, int States>
struct rnnc_full {
  typedef Algebra algebra;
  static constexpr int kStates = States;
  static constexpr int kCoefficients = States * States;
  static __device__ __forceinline__ void identity(float* a) {
#pragma unroll
    for (int i = 0; i < kCoefficients; ++i) {
      a[i] = i % (States + 1) == 0 ? Algebra::one() : Algebra::zero();
    }
  }
  // `first`, then `next`.
  static __device__ __forceinline__ void join(float* a, const float* first, const float* next) {
#pragma unroll
    for (int i = 0; i < States; ++i) {
#pragma unroll
      for (int j = 0; j < States; ++j) {
        a[i * States + j] = Algebra::times(next[i * States], first[j]);
#pragma unroll
        for (int k = 1; k < States; ++k) {
          a[i * States + j] =
              Algebra::join(a[i * States + j], next[i * States + k], first[k * States + j]);
        }
      }
    }
  }
  static __device__ __forceinline__ float apply(float sum, const float* a, const float* h, int i) {
#pragma unroll
    for (int k = 0; k < States; ++k) sum = Algebra::join(sum, a[i * States + k], h[k]);
    return sum;
  }
};

// One for all states.
template <typename Algebra, int States>
struct rnnc_scaled {
  typedef Algebra algebra;
  static constexpr int kStates = States;
  static constexpr int kCoefficients = 1;
  static __device__ __forceinline__ void identity(float* a) { a[0] = Algebra::one(); }
  static __device__ __forceinline__ void join(float* a, const float* first, const float* next) {
    a[0] = Algebra::times(next[0], first[0]);
  }
  static __device__ __forceinline__ float apply(float sum, const float* a, const float* h, int i) {
    return Algebra::join(sum, a[0], h[i]);
  }
};

// [a0, -a1; a1, a0].
struct rnnc_rotation {
  typedef rnnc_sum_product algebra;
  static constexpr int kStates = 2;
  static constexpr int kCoefficients = 2;
  static __device__ __forceinline__ void identity(float* a) {
    a[0] = 1.0f;
    a[1] = 0.0f;
  }
  static __device__ __forceinline__ void join(float* a, const float* first, const float* next) {
    a[0] = fmaf(-next[1], first[1], next[0] * first[0]);
    a[1] = fmaf(next[0], first[1], next[1] * first[0]);
  }
  static __device__ __forceinline__ float apply(float sum, const float* a, const float* h, int i) {
    return fmaf(i == 0 ? -a[1] : a[0], h[1], fmaf(i == 0 ? a[0] : a[1], h[0], sum));
  }
};

// h becomes a * h + b. Bounded: no product of coefficients can be greater than 1, but NaN, and then
// the offset is, too.
template <typename Structure, bool Bounded>
struct rnnc_map {
  typedef typename Structure::algebra algebra;
  static constexpr int kStates = Structure::kStates;
  static constexpr int kCoefficients = Structure::kCoefficients;
  static constexpr int kWords = kCoefficients + kStates;
  float a[kCoefficients];
  float b[kStates];

  static __device__ __forceinline__ rnnc_map identity() {
    rnnc_map map;
    Structure::identity(map.a);
#pragma unroll
    for (int i = 0; i < kStates; ++i) map.b[i] = algebra::zero();
    return map;
  }

  // This one first.
  __device__ __forceinline__ rnnc_map then(const rnnc_map& next) const {
    rnnc_map map;
    Structure::join(map.a, a, next.a);
#pragma unroll
    for (int i = 0; i < kStates; ++i) map.b[i] = Structure::apply(next.b[i], next.a, b, i);
    return map;
  }

  __device__ __forceinline__ void apply(float* states) const {
    float next[kStates];
#pragma unroll
    for (int i = 0; i < kStates; ++i) next[i] = Structure::apply(b[i], a, states, i);
#pragma unroll
    for (int i = 0; i < kStates; ++i) states[i] = next[i];
  }

  // Without branches: each step asks.
  __device__ __forceinline__ bool fits() const {
    bool result = true;
#pragma unroll
    for (int i = 0; i < kStates; ++i) result &= algebra::fits(b[i], algebra::kMostOffset);
#pragma unroll
    for (int i = 0; i < kCoefficients && !Bounded; ++i) {
      result &= algebra::fits(a[i], algebra::kMostCoefficient);
    }
    return result;
  }
  static __device__ __forceinline__ bool fit(const float* states, float times = 1.0f) {
    bool result = true;
#pragma unroll
    for (int i = 0; i < kStates; ++i) {
      result &= algebra::state_fits(states[i], times * algebra::kMostState);
    }
    return result;
  }

  __device__ __forceinline__ void to_words(float* words) const {
#pragma unroll
    for (int i = 0; i < kCoefficients; ++i) words[i] = a[i];
#pragma unroll
    for (int i = 0; i < kStates; ++i) words[kCoefficients + i] = b[i];
  }
  static __device__ __forceinline__ rnnc_map from_words(const float* words) {
    rnnc_map map;
#pragma unroll
    for (int i = 0; i < kCoefficients; ++i) map.a[i] = words[i];
#pragma unroll
    for (int i = 0; i < kStates; ++i) map.b[i] = words[kCoefficients + i];
    return map;
  }
  // In the place of one that does not count.
  static __device__ __forceinline__ rnnc_map none() {
    float words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = __int_as_float(0x7fffffff);
    return from_words(words);
  }
};
