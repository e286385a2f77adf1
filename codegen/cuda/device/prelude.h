/// Device code that generated units start from, embedded by the build.
#pragma once

#include <string_view>

namespace rnnc {

extern const std::string_view kCudaPrelude;     // ptx.cuh and prelude.cuh: every unit
extern const std::string_view kCudaDescending;  // descending.cuh: units of descending plans
extern const std::string_view kCudaFused;       // fused.cuh: units with fused launches
extern const std::string_view kCudaRecurrence;  // recurrence*.cuh: units with recurrence launches
extern const std::string_view kCudaScan;        // scan_maps.cuh, scan.cuh: units with scan launches
extern const std::string_view kCudaSequence;    // sequence.cuh: units with such launches
extern const std::string_view kCudaResets;      // resets.cuh: units with masks that look back
extern const std::string_view kCudaTotals;      // totals.cuh: units with sums of rows
extern const std::string_view kCudaManyArrays;  // many_arrays.cuh: units with such kernels

}  // namespace rnnc
