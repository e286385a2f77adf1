# Headers of others that most sources include, compiled once: to parse them takes about half of the
# time of a source. A source still includes all that it uses: clang-tidy, and builds of another kind
# or by another compiler, have no precompiled headers.
#
# Not by target_precompile_headers: it makes a header in the build folder, and names it by its whole
# path, so that ccache would have none of one preset's objects for the next.

#   rnnc_precompile(NAME HEADER LIBRARY…): for targets made in the same folder that link LIBRARY…
function(rnnc_precompile name header)
  # Ninja runs all compilers in the build folder, which `-include` counts on.
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR
     NOT CMAKE_GENERATOR STREQUAL "Ninja")
    return()
  endif()
  set_source_files_properties(${header} PROPERTIES LANGUAGE CXX HEADER_FILE_ONLY OFF
                              COMPILE_OPTIONS "-x;c++-header")
  add_library(rnnc_precompiled_${name}_object OBJECT ${header})
  target_link_libraries(rnnc_precompiled_${name}_object PRIVATE ${ARGN})
  set(object $<TARGET_OBJECTS:rnnc_precompiled_${name}_object>)
  # Where g++ looks for it.
  set(folder ${CMAKE_BINARY_DIR}/precompiled)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${folder}/${name}.h.gch
                     COMMAND ${CMAKE_COMMAND} -E create_symlink ${object} ${folder}/${name}.h.gch
                     DEPENDS ${object} VERBATIM)
  add_custom_target(rnnc_precompiled_${name} DEPENDS ${folder}/${name}.h.gch)
endfunction()

#   rnnc_use_precompiled(NAME TARGET…): by those of the targets that the build has
function(rnnc_use_precompiled name)
  if(NOT TARGET rnnc_precompiled_${name})
    return()
  endif()
  foreach(target ${ARGN})
    if(TARGET ${target})
      # By a path in the build folder, where compilers run.
      target_compile_options(${target} PRIVATE "SHELL:-include precompiled/${name}.h" -Winvalid-pch)
      # After precompiled headers g++ 12 sees overflows in std::string's operator+ that are none.
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                             -Wno-stringop-overread)
      add_dependencies(${target} rnnc_precompiled_${name})
    endif()
  endforeach()
endfunction()
