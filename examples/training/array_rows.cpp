#include "examples/training/array_rows.h"

#include <algorithm>

#include "runtime/backend/backend.h"

namespace training {

using rnnc::Array;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

ArrayRows::ArrayRows(rnnc::Backend& backend, std::vector<rnnc::ArrayInfo> infos)
    : infos_(std::move(infos)), memory_(backend) {
  for (const rnnc::ArrayInfo& info : infos_) {
    first_rows_.push_back(rows_);
    rows_ += (info.elements() + kWidth - 1) / kWidth;
  }
}

size_t ArrayRows::place(size_t array) const {
  return static_cast<size_t>(first_rows_[array] * kWidth) * rnnc::size_of(dtype());
}

Status ArrayRows::allocate() {
  return memory_.upload(Array::zeros(dtype(), {rows_, kWidth}), dtype());
}

Status ArrayRows::upload(const std::vector<NamedArray>& arrays) {
  Array all = Array::zeros(dtype(), {rows_, kWidth});
  for (size_t i = 0; i < arrays.size(); ++i) {
    std::ranges::copy(arrays[i].array.as(dtype()).data,
                      all.data.begin() + static_cast<std::ptrdiff_t>(place(i)));
  }
  return memory_.upload(all, dtype());
}

Result<std::vector<NamedArray>> ArrayRows::download() const {
  const Result<Array> all = memory_.download(dtype(), {rows_, kWidth});
  if (!all) return tl::unexpected(all.error());
  const size_t size = rnnc::size_of(all->dtype);
  std::vector<NamedArray> arrays;
  for (size_t i = 0; i < infos_.size(); ++i) {
    Array array = Array::zeros(all->dtype, infos_[i].shape);
    const auto begin = all->data.begin() + first_rows_[i] * kWidth * static_cast<int64_t>(size);
    std::copy_n(begin, array.data.size(), array.data.begin());
    arrays.push_back({infos_[i].name, std::move(array)});
  }
  return arrays;
}

std::vector<void*> ArrayRows::pointers() const {
  std::vector<void*> pointers;
  for (size_t i = 0; i < infos_.size(); ++i) {
    pointers.push_back(static_cast<std::byte*>(memory_.get()) + place(i));
  }
  return pointers;
}

}  // namespace training
