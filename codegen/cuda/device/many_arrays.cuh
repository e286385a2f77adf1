// ---- Rows of kernels with many arrays: what `rnnc_row` makes, worked out once for a block. ----

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
