// ---- Rows of kernels with many arrays: what `rnnc_row` makes, where it is needed. ----

// In the place of the parameter block, where an array has no slot. Not static: the compiler would
// know what is in it, and make branches of that.
__device__ rnnc_word rnnc_no_slots[4];

// Of hundreds of arrays, branches, words that might have been stored to and assumptions about
// pointers take minutes to compile: here are none.
template <typename T>
static __device__ __forceinline__ T* rnnc_row_of_many(const rnnc_word* frame,
                                                      const rnnc_access& access, unsigned row) {
  const rnnc_word* const words = access.slot >= 0 ? frame : rnnc_no_slots;
  const rnnc_word first =
      access.address + __ldg(words + 3 + max(access.slot, 0)) + __ldg(words) * access.per_step;
  const rnnc_word bytes = row * access.stride * static_cast<rnnc_word>(sizeof(T));
  return reinterpret_cast<T*>(
      __cvta_global_to_generic(static_cast<unsigned long long>(first + bytes)));
}
