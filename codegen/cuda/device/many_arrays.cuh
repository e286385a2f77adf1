// ---- Rows of kernels with many arrays: what `rnnc_row` makes, worked out once for a block. ----
// Worked out by each thread, an array's row is some 30 instructions.

// Of arrays, by their numbers: bit i % 32 of word i / 32.
template <int Count>
struct rnnc_set {
  unsigned words[(Count + 31) / 32];
};

// Where the block's own row of each array lies, in `rows`, and whether a row of those that are
// `checked` is not aligned to packets of so many elements. By the block's first warp; the others
// wait. `wide` arrays have elements of 4 bytes, the others of 2.
template <int Count>
static __device__ __forceinline__ void rnnc_find_rows(const rnnc_word* frame,
                                                      const rnnc_access* arrays,
                                                      rnnc_set<Count> wide, rnnc_set<Count> checked,
                                                      int packet, rnnc_word* rows,
                                                      unsigned& misaligned) {
  if (threadIdx.x < 32) {
    bool found = false;
#pragma unroll
    for (int word = 0; word < (Count + 31) / 32; ++word) {
      const int i = word * 32 + threadIdx.x;
      if (i < Count) {
        const rnnc_word bytes = wide.words[word] >> threadIdx.x & 1 ? 4 : 2;
        const rnnc_word row =
            rnnc_address(frame, arrays[i]) + blockIdx.x * arrays[i].stride * bytes;
        rows[i] = row;
        if (checked.words[word] >> threadIdx.x & 1) found = found || row % (packet * bytes) != 0;
      }
    }
    found = __any_sync(0xffffffffu, found);
    if (threadIdx.x == 0) misaligned = found;
  }
  __syncthreads();
}

template <typename T>
static __device__ __forceinline__ T* rnnc_place(rnnc_word row) {
  return reinterpret_cast<T*>(__cvta_global_to_generic(static_cast<unsigned long long>(row)));
}

// Where a block's threads are at different rows:

// Where row 0 of an array lies, and the elements from a row to the next.
struct alignas(16) rnnc_base {
  rnnc_word first;
  rnnc_word stride;
};

// By all threads of a block, which then wait for one another. Hundreds of accesses, each worked out
// where it is needed, are most of a kernel's code and of the time that it takes to compile.
static __device__ __forceinline__ void rnnc_find_bases(const rnnc_word* frame,
                                                       const rnnc_access* arrays, int count,
                                                       rnnc_base* bases) {
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    bases[i] = {rnnc_address(frame, arrays[i]), arrays[i].stride};
  }
  __syncthreads();
}

// Without assumptions about pointers: of hundreds they take minutes to compile.
template <typename T>
static __device__ __forceinline__ T* rnnc_row_of_many(const rnnc_base& base, unsigned row) {
  const rnnc_word bytes = row * base.stride * static_cast<rnnc_word>(sizeof(T));
  return reinterpret_cast<T*>(
      __cvta_global_to_generic(static_cast<unsigned long long>(base.first + bytes)));
}
