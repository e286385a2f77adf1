// What every generated translation unit starts with, after ptx.cuh. It includes nothing: NVRTC
// knows CUDA's math functions and intrinsics by itself. Needs sm_80. The host's side of the structs
// below is codegen/cuda/device/kernel_abi.h.

// ---- Element types: storage converts to and from float, in which all arithmetic happens. ----

struct rnnc_bf16 {
  unsigned short bits;
};
struct rnnc_f16 {
  unsigned short bits;
};

static __device__ __forceinline__ float rnnc_load(const float* from) {
  return *from;
}
static __device__ __forceinline__ float rnnc_load(const rnnc_bf16* from) {
  return __uint_as_float(static_cast<unsigned>(from->bits) << 16);
}
static __device__ __forceinline__ float rnnc_load(const rnnc_f16* from) {
  return rnnc_from_f16(from->bits);
}
static __device__ __forceinline__ void rnnc_store(float* to, float value) {
  *to = value;
}
static __device__ __forceinline__ void rnnc_store(rnnc_bf16* to, float value) {
  to->bits = rnnc_to_bf16(value);
}
static __device__ __forceinline__ void rnnc_store(rnnc_f16* to, float value) {
  to->bits = rnnc_to_f16(value);
}

// ---- Scalar functions, named in ir/ops.def. NaN passes through every one of them. ----

static __device__ __forceinline__ float rnnc_bool(bool condition) {
  return condition ? 1.0f : 0.0f;
}
static __device__ __forceinline__ float rnnc_abs(float a) {
  return fabsf(a);
}
static __device__ __forceinline__ float rnnc_sign(float a) {
  return a != a ? a : rnnc_bool(a > 0.0f) - rnnc_bool(a < 0.0f);
}
static __device__ __forceinline__ float rnnc_round(float a) {
  return rintf(a);
}
static __device__ __forceinline__ float rnnc_floor(float a) {
  return floorf(a);
}
static __device__ __forceinline__ float rnnc_exp(float a) {
  return expf(a);
}
static __device__ __forceinline__ float rnnc_log(float a) {
  return logf(a);
}
static __device__ __forceinline__ float rnnc_log1p(float a) {
  return log1pf(a);
}
static __device__ __forceinline__ float rnnc_expm1(float a) {
  return expm1f(a);
}
// a / b within an ulp, and exact where the quotient is a float. No branch: what a division does
// apart takes turns with others' work, and keeps a step's work from being done beside another's.
// What is too great or small for its reciprocal to be normal is scaled before.
static __device__ __forceinline__ float rnnc_divide(float a, float b) {
  const float size = fabsf(b);
  const float scale = size > 0x1p100f ? 0x1p-60f : size < 0x1p-100f ? 0x1p60f : 1.0f;
  a *= scale;
  b *= scale;
  const float reciprocal = rnnc_reciprocal(b);
  const float quotient = a * reciprocal;
  const float rest = fmaf(-quotient, b, a);
  // Not of zero, infinities and NaN.
  return fabsf(rest) <= fabsf(a) ? fmaf(rest, reciprocal, quotient) : quotient;
}
// Likewise.
static __device__ __forceinline__ float rnnc_sqrt(float a) {
  const bool is_small = a < 0x1p-100f;
  const float b = is_small ? a * 0x1p100f : a;
  const float inverse = rsqrtf(b);
  const float root = b * inverse;
  const float better = fmaf(fmaf(-root, root, b), 0.5f * inverse, root);
  // Of zero and infinity itself.
  return b == 0.0f || inverse == 0.0f ? a : better * (is_small ? 0x1p-50f : 1.0f);
}
static __device__ __forceinline__ float rnnc_rsqrt(float a) {
  return rsqrtf(a);
}
static __device__ __forceinline__ float rnnc_tanh(float a) {
  return tanhf(a);
}
static __device__ __forceinline__ float rnnc_erf(float a) {
  return erff(a);
}
static __device__ __forceinline__ float rnnc_sin(float a) {
  return sinf(a);
}
static __device__ __forceinline__ float rnnc_cos(float a) {
  return cosf(a);
}
// exp(-a) overflows to infinity below -88, where the true result is below 1e-38: it becomes 0.
static __device__ __forceinline__ float rnnc_sigmoid(float a) {
  return rnnc_reciprocal(1.0f + expf(-a));
}
static __device__ __forceinline__ float rnnc_silu(float a) {
  return a * rnnc_sigmoid(a);
}
// log(1 + a) of 0 <= a <= 1, within 2 ulp: a and a^2 times a polynomial of degree 8 (at Chebyshev's
// nodes), in Estrin's scheme. Where others wait for the result, log1pf takes three times as long.
static __device__ __forceinline__ float rnnc_log1p_of_unit(float a) {
  const float a2 = a * a;
  const float a4 = a2 * a2;
  const float low = fmaf(fmaf(0.198621094f, a, -0.249875516f), a2, fmaf(0.333328933f, a, -0.5f));
  const float high =
      fmaf(fmaf(0.0256827865f, a, -0.0675118119f), a2, fmaf(0.116265282f, a, -0.158783853f));
  return fmaf(a2, fmaf(a4 * a4, -0.00457976619f, fmaf(high, a4, low)), a);
}
static __device__ __forceinline__ float rnnc_softplus(float a) {
  return rnnc_max(a, 0.0f) + rnnc_log1p_of_unit(expf(-fabsf(a)));
}
// erfc keeps the relative accuracy of the left tail, where 1 + erf would cancel.
static __device__ __forceinline__ float rnnc_gelu(float a) {
  return 0.5f * a * erfcf(-a * 0.70710678118654752440f);
}
static __device__ __forceinline__ float rnnc_elu(float a) {
  return a > 0.0f ? a : expm1f(a);
}
// C's pow(1, NaN) and pow(NaN, 0) are 1; here NaN passes through.
static __device__ __forceinline__ float rnnc_pow(float a, float b) {
  return a != a || b != b ? a + b : powf(a, b);
}
// The remainder with the divisor's sign.
static __device__ __forceinline__ float rnnc_mod(float a, float b) {
  const float rest = fmodf(a, b);
  if (rest == 0.0f) return copysignf(0.0f, b);
  return (rest < 0.0f) == (b < 0.0f) || rest != rest ? rest : rest + b;
}

// ---- Shorter functions, for results that are rounded to 16 bits (kernel_text.cpp). ----

// exp(a) errs by as many ulp as |a| has ones.
static __device__ __forceinline__ float rnnc_short_exp(float a) {
  return rnnc_near_exp2(a * 1.44269504088896340736f);
}
// A series near 0, where exp(a) - 1 has no more digits.
static __device__ __forceinline__ float rnnc_short_expm1(float a) {
  const float series = fmaf(fmaf(a, 0.166666667f, 0.5f) * a, a, a);
  return fabsf(a) < 0.02f ? series : rnnc_short_exp(a) - 1.0f;
}
static __device__ __forceinline__ float rnnc_short_sigmoid(float a) {
  return rnnc_reciprocal(1.0f + rnnc_short_exp(-a));
}
static __device__ __forceinline__ float rnnc_short_silu(float a) {
  return a * rnnc_short_sigmoid(a);
}

// ---- Reductions over a block, always in the same order. ----

struct rnnc_sum {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};
struct rnnc_least {
  static __device__ __forceinline__ float identity() { return __int_as_float(0x7f800000); }
  static __device__ __forceinline__ float join(float a, float b) { return rnnc_min(a, b); }
};
struct rnnc_greatest {
  static __device__ __forceinline__ float identity() { return __int_as_float(0xff800000); }
  static __device__ __forceinline__ float join(float a, float b) { return rnnc_max(a, b); }
};

// First half: leaves one value per warp in `partial`. The caller then synchronises the block.
template <typename Reduction>
static __device__ __forceinline__ void rnnc_reduce_warps(float value, float* partial) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = Reduction::join(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
}

// Second half: every thread gets the block's value.
template <typename Reduction, int Warps>
static __device__ __forceinline__ float rnnc_join_warps(const float* partial) {
  float value = partial[0];
#pragma unroll
  for (int warp = 1; warp < Warps; ++warp) value = Reduction::join(value, partial[warp]);
  return value;
}

// ---- Where arrays lie. ----

// The parameter block that graphs of ours read. Word 0 is the first step of the current chunk, word
// 1 the steps of the call, word 2 counts blocks of `rnnc_end_chunk`, the words after them are the
// addresses of buffers that may lie elsewhere at every call.
typedef long long rnnc_word;

// Row 0 of an array. With slot < 0 it lies at `address`; else `address` bytes and `per_step` bytes
// times word 0 of the parameter block from the address in that slot of it.
struct rnnc_access {
  rnnc_word address;
  rnnc_word per_step;
  rnnc_word stride;  // elements from one row to the next
  int slot;
};

// Whether there is an array at all: an instance of a fused launch may lack what others store.
static __device__ __forceinline__ bool rnnc_is_array(const rnnc_access& access) {
  return access.address != 0 || access.slot >= 0;
}

// Rows of a launch; blocks of one blockIdx.y take `per_slice` of them.
struct rnnc_rows {
  const rnnc_word* frame;
  unsigned count;
  unsigned per_slice;
  int step;        // of the launch, less word 0
  int predicated;  // whether it does nothing at other steps than the call's
};

// From row 0.
template <typename T>
static __device__ __forceinline__ T* rnnc_row(T* first, const rnnc_access& access, unsigned row) {
  T* const place = first + row * access.stride;
  __builtin_assume(__isGlobal(place));  // loads and stores need not find out
  return place;
}
// Of row 0.
static __device__ __forceinline__ rnnc_word rnnc_address(const rnnc_word* frame,
                                                         const rnnc_access& access) {
  rnnc_word address = access.address;
  if (access.slot >= 0) address += frame[3 + access.slot] + frame[0] * access.per_step;
  return address;
}
template <typename T>
static __device__ __forceinline__ T* rnnc_row(const rnnc_word* frame, const rnnc_access& access,
                                              unsigned row) {
  return rnnc_row(reinterpret_cast<T*>(rnnc_address(frame, access)), access, row);
}

// Whether the launch has anything to do.
static __device__ __forceinline__ bool rnnc_is_due(const rnnc_rows& rows) {
  if (rows.count == 0) return false;
  if (!rows.predicated) return true;
  const rnnc_word step = rows.frame[0] + rows.step;
  return step >= 0 && step < rows.frame[1];
}

// ---- Packets: neighbouring elements of a row as they lie in memory. ----

template <int Bytes>
struct rnnc_bits;
template <>
struct rnnc_bits<2> {
  typedef unsigned short type;
};
template <>
struct rnnc_bits<4> {
  typedef unsigned type;
};
template <>
struct rnnc_bits<8> {
  typedef uint2 type;
};
template <>
struct rnnc_bits<16> {
  typedef uint4 type;
};

static __device__ __forceinline__ void rnnc_to_words(unsigned bits, unsigned* words) {
  words[0] = bits;
}
static __device__ __forceinline__ void rnnc_to_words(uint2 bits, unsigned* words) {
  words[0] = bits.x;
  words[1] = bits.y;
}
static __device__ __forceinline__ void rnnc_to_words(uint4 bits, unsigned* words) {
  words[0] = bits.x;
  words[1] = bits.y;
  words[2] = bits.z;
  words[3] = bits.w;
}
static __device__ __forceinline__ void rnnc_to_bits(const unsigned* words, unsigned short* bits) {
  *bits = static_cast<unsigned short>(words[0]);
}
static __device__ __forceinline__ void rnnc_to_bits(const unsigned* words, unsigned* bits) {
  *bits = words[0];
}
static __device__ __forceinline__ void rnnc_to_bits(const unsigned* words, uint2* bits) {
  *bits = make_uint2(words[0], words[1]);
}
static __device__ __forceinline__ void rnnc_to_bits(const unsigned* words, uint4* bits) {
  *bits = make_uint4(words[0], words[1], words[2], words[3]);
}

// Loaded and stored at once where they are Aligned to their size. Before `set` all are zero.
template <typename T, int Items, bool Aligned>
struct rnnc_packet {
  typedef typename rnnc_bits<sizeof(T) * Items>::type bits_type;
  typedef typename rnnc_bits<sizeof(T)>::type element_bits;
  static constexpr int kPerWord = 4 / sizeof(T);
  unsigned words[(Items + kPerWord - 1) / kPerWord];

  static __device__ __forceinline__ rnnc_packet load(const T* from) {
    rnnc_packet result = {};
    if constexpr (Aligned) {
      rnnc_to_words(*reinterpret_cast<const bits_type*>(from), result.words);
    } else {
#pragma unroll
      for (int i = 0; i < Items; ++i) {
        result.set_bits(i, reinterpret_cast<const element_bits*>(from)[i]);
      }
    }
    return result;
  }
  __device__ __forceinline__ void store(T* to) const {
    if constexpr (Aligned) {
      rnnc_to_bits(words, reinterpret_cast<bits_type*>(to));
    } else {
#pragma unroll
      for (int i = 0; i < Items; ++i) {
        reinterpret_cast<element_bits*>(to)[i] = static_cast<element_bits>(get_bits(i));
      }
    }
  }
  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i]);
    } else {
      const T value = {static_cast<unsigned short>(get_bits(i))};
      return rnnc_load(&value);
    }
  }
  __device__ __forceinline__ void set(int i, float value) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(value);
    } else {
      T rounded;
      rnnc_store(&rounded, value);
      set_bits(i, rounded.bits);
    }
  }

 private:
  __device__ __forceinline__ unsigned get_bits(int i) const {
    return words[i / kPerWord] >> (8 * sizeof(T) * (i % kPerWord));
  }
  __device__ __forceinline__ void set_bits(int i, unsigned bits) {
    words[i / kPerWord] |= bits << (8 * sizeof(T) * (i % kPerWord));
  }
};

// ---- Programmatic dependent launch. ----

// What most kernels begin with.
static __device__ __forceinline__ void rnnc_begin() {
  rnnc_let_next_begin();
  rnnc_wait_for_previous();
}

// ---- Kernels that every program needs. ----

struct rnnc_words {
  rnnc_word word[64];
};

// Writes words [first, first + count) of the parameter block, in the stream's order.
extern "C" __global__ void rnnc_set_frame(rnnc_word* frame, int first, int count,
                                          const __grid_constant__ rnnc_words words) {
  rnnc_begin();
  if (threadIdx.x < count) frame[first + threadIdx.x] = words.word[threadIdx.x];
}

// A history to move: `depth` slots of `units` 16-bit words each. Where it lies is as in
// rnnc_access.
struct rnnc_history {
  rnnc_word address;
  rnnc_word units;
  int depth;
  int slot;
};
struct rnnc_histories {
  rnnc_history history[64];
};

// Slots [steps, steps + depth) of `units` each move to [0, depth). The two may overlap: what is
// `steps` slots apart moves one after the other.
template <typename Unit>
static __device__ __forceinline__ void rnnc_move_history(Unit* slots, rnnc_word units,
                                                         rnnc_word depth, rnnc_word steps) {
  const rnnc_word threads = static_cast<rnnc_word>(gridDim.x) * blockDim.x;
  const rnnc_word distance = steps * units;
  const rnnc_word first = min(depth, steps) * units;
  rnnc_word i = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < first; i += threads) {
    for (rnnc_word to = i; to < depth * units; to += distance) slots[to] = slots[to + distance];
  }
}

// The end of a wave of chunks of `steps` steps. blockIdx.y takes one history, whose address is a
// multiple of 16. `advance`: moves the frame on by the steps, once all blocks have read it.
// `before_ends`: does nothing where a sequence may end in the wave.
extern "C" __global__ void rnnc_end_chunk(rnnc_word* frame, int steps, int advance, int before_ends,
                                          const __grid_constant__ rnnc_histories histories) {
  rnnc_begin();
  if (before_ends && frame[0] + steps >= frame[1]) return;
  const rnnc_history& history = histories.history[blockIdx.y];
  rnnc_word address = history.address;
  if (history.slot >= 0) address += frame[3 + history.slot];
  if (history.units % 8 == 0) {
    rnnc_move_history(reinterpret_cast<uint4*>(address), history.units / 8, history.depth, steps);
  } else {
    rnnc_move_history(reinterpret_cast<unsigned short*>(address), history.units, history.depth,
                      steps);
  }
  if (!advance) return;
  __syncthreads();
  const unsigned last = gridDim.x * gridDim.y - 1;
  if (threadIdx.x == 0 && atomicInc(reinterpret_cast<unsigned*>(frame + 2), last) == last) {
    frame[0] += steps;
  }
}

// ---- The plan's kernels. ----
