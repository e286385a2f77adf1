# Everything that rnnc takes from elsewhere, as targets with one spelling each.

# The compiled fmt: header-only fmt doubles the time it takes to compile rnnc.
find_package(fmt REQUIRED)
add_library(rnnc_fmt INTERFACE)
target_link_libraries(rnnc_fmt INTERFACE fmt::fmt)

find_path(RNNC_EXPECTED_INCLUDE tl/expected.hpp REQUIRED)
add_library(rnnc_expected INTERFACE)
target_include_directories(rnnc_expected SYSTEM INTERFACE ${RNNC_EXPECTED_INCLUDE})

find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
# Beast and Asio (tools/serve), of headers alone.
find_path(RNNC_BOOST_INCLUDE boost/beast/http.hpp REQUIRED)
add_library(rnnc_boost INTERFACE)
target_include_directories(rnnc_boost SYSTEM INTERFACE ${RNNC_BOOST_INCLUDE})
find_path(RNNC_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(rnnc_xxhash INTERFACE)
target_include_directories(rnnc_xxhash SYSTEM INTERFACE ${RNNC_XXHASH_INCLUDE})
target_compile_definitions(rnnc_xxhash INTERFACE XXH_INLINE_ALL)

# Not by its own pkg-config file, to need no pkg-config.
find_path(RNNC_UTF8PROC_INCLUDE utf8proc.h REQUIRED)
find_library(RNNC_UTF8PROC_LIBRARY utf8proc REQUIRED)
add_library(rnnc_utf8proc INTERFACE)
target_include_directories(rnnc_utf8proc SYSTEM INTERFACE ${RNNC_UTF8PROC_INCLUDE})
target_link_libraries(rnnc_utf8proc INTERFACE ${RNNC_UTF8PROC_LIBRARY})

# Not by libzip's own CMake config, which wants its command-line tools too.
find_path(RNNC_ZIP_INCLUDE zip.h REQUIRED)
find_library(RNNC_ZIP_LIBRARY zip REQUIRED)
add_library(rnnc_zip INTERFACE)
target_include_directories(rnnc_zip SYSTEM INTERFACE ${RNNC_ZIP_INCLUDE})
# It is opened on first use (runtime/arrays/zip_library.h), under the name of its binary interface.
get_filename_component(zip_file ${RNNC_ZIP_LIBRARY} REALPATH)
get_filename_component(zip_file ${zip_file} NAME)
string(REGEX MATCH "^libzip\\.so\\.[0-9]+" RNNC_ZIP_NAME ${zip_file})
if(NOT RNNC_ZIP_NAME)
  message(FATAL_ERROR "${RNNC_ZIP_LIBRARY} is no shared library with a version")
endif()
target_compile_definitions(rnnc_zip INTERFACE RNNC_ZIP_LIBRARY="${RNNC_ZIP_NAME}")
target_link_libraries(rnnc_zip INTERFACE ${CMAKE_DL_LIBS})

if(RNNC_TESTS)
  find_package(GTest REQUIRED)
endif()

if(RNNC_CPU)
  find_package(LLVM 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19/lib/cmake/llvm)
  # Static: libLLVM.so takes longer to load than `rnnc check` takes to run.
  llvm_map_components_to_libnames(RNNC_LLVM_LIBS core nativecodegen orcjit scalaropts support target)
  add_library(rnnc_llvm INTERFACE)
  target_include_directories(rnnc_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  target_link_libraries(rnnc_llvm INTERFACE ${RNNC_LLVM_LIBS})
endif()

if(RNNC_CUDA)
  # Headers and the static runtime at build time; NVRTC and cuBLASLt are loaded on first use, so a
  # built rnnc starts on machines without them. Their folder goes into the run path.
  if(NOT RNNC_CUDA_ROOT)
    find_package(CUDAToolkit 13 REQUIRED)
    set(RNNC_CUDA_INCLUDE ${CUDAToolkit_INCLUDE_DIRS})
    set(RNNC_CUDA_LIB ${CUDAToolkit_LIBRARY_DIR})
  else()
    set(RNNC_CUDA_INCLUDE ${RNNC_CUDA_ROOT}/include)
    set(RNNC_CUDA_LIB ${RNNC_CUDA_ROOT}/lib)
  endif()
  find_library(RNNC_CUDART cudart_static PATHS ${RNNC_CUDA_LIB} NO_DEFAULT_PATH REQUIRED)
  add_library(rnnc_cuda_toolkit INTERFACE)
  target_include_directories(rnnc_cuda_toolkit SYSTEM INTERFACE ${RNNC_CUDA_INCLUDE})
  add_library(rnnc_cudart INTERFACE)
  target_link_libraries(rnnc_cudart INTERFACE rnnc_cuda_toolkit ${RNNC_CUDART} Threads::Threads
                        ${CMAKE_DL_LIBS} rt)
  list(APPEND CMAKE_BUILD_RPATH ${RNNC_CUDA_LIB})
endif()
