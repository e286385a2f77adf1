// ---- Loop launches: a recurrence in registers (ir/plan.h). ----

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
  typedef unsigned long long type;
};

static __device__ __forceinline__ float rnnc_from_bits(unsigned bits, const float*) {
  return __uint_as_float(bits);
}
template <typename T>
static __device__ __forceinline__ float rnnc_from_bits(unsigned bits, const T* type) {
  const T value = {static_cast<unsigned short>(bits)};
  return rnnc_load(&value);
}
static __device__ __forceinline__ unsigned rnnc_to_bits(float value, const float*) {
  return __float_as_uint(value);
}
template <typename T>
static __device__ __forceinline__ unsigned rnnc_to_bits(float value, const T*) {
  T result;
  rnnc_store(&result, value);
  return result.bits;
}

// Neighbouring elements of a row as they lie in memory. Loaded and stored at once where they are
// Aligned to their size.
template <typename T, int Items, bool Aligned>
struct rnnc_packet {
  typedef typename rnnc_bits<sizeof(T) * Items>::type bits_type;
  typedef typename rnnc_bits<sizeof(T)>::type element_bits;
  bits_type bits;

  static __device__ __forceinline__ rnnc_packet load(const T* from) {
    rnnc_packet result;
    if constexpr (Aligned) {
      result.bits = *reinterpret_cast<const bits_type*>(from);
    } else {
      result.bits = 0;
#pragma unroll
      for (int i = 0; i < Items; ++i) {
        result.bits |= static_cast<bits_type>(reinterpret_cast<const element_bits*>(from)[i])
                       << (8 * sizeof(T) * i);
      }
    }
    return result;
  }
  __device__ __forceinline__ void store(T* to) const {
    if constexpr (Aligned) {
      *reinterpret_cast<bits_type*>(to) = bits;
    } else {
#pragma unroll
      for (int i = 0; i < Items; ++i) {
        reinterpret_cast<element_bits*>(to)[i] =
            static_cast<element_bits>(bits >> (8 * sizeof(T) * i));
      }
    }
  }
  __device__ __forceinline__ float get(int i) const {
    return rnnc_from_bits(static_cast<element_bits>(bits >> (8 * sizeof(T) * i)),
                          static_cast<const T*>(nullptr));
  }
  __device__ __forceinline__ void set(int i, float value) {
    bits |= static_cast<bits_type>(rnnc_to_bits(value, static_cast<const T*>(nullptr)))
            << (8 * sizeof(T) * i);
  }
};
