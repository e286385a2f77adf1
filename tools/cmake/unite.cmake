# The sources of a folder as one for the compiler, which parses headers, and instantiates templates,
# once instead of twenty times: libraries and tools compile in less than half of the time. So the
# names that sources of a folder keep to themselves differ, but where a function below says otherwise.
# -DRNNC_UNITE=OFF for work on the code: then a change compiles one source.
option(RNNC_UNITE "Compile the sources of a folder together" ON)

#   rnnc_alone(SOURCE…): compiled by themselves, for what they name or define
function(rnnc_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

#   rnnc_own_names(TARGET NAME…): what each source may call something of its own; no header declares them
function(rnnc_own_names target)
  set(before "#define RNNC_JOIN(a, b) a##_##b\n#define RNNC_NAMED(a, b) RNNC_JOIN(a, b)\n")
  foreach(name ${ARGN})
    string(APPEND before "#define ${name} RNNC_NAMED(${name}, RNNC_SOURCE)\n")
    string(APPEND after "#undef ${name}\n")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_UNIQUE_ID RNNC_SOURCE
                        UNITY_BUILD_CODE_BEFORE_INCLUDE "${before}"
                        UNITY_BUILD_CODE_AFTER_INCLUDE "${after}")
endfunction()

#   rnnc_unite(FOLDER): all targets of a folder and of those in it
function(rnnc_unite folder)
  if(NOT RNNC_UNITE)
    return()
  endif()
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "^[^$]*\\.cpp$")
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
      cmake_path(GET source PARENT_PATH place)
      cmake_path(RELATIVE_PATH place BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
      string(MAKE_C_IDENTIFIER "${place}" group)
      set_source_files_properties(${source} DIRECTORY ${folder} PROPERTIES UNITY_GROUP ${group})
    endforeach()
    if(sources)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    rnnc_unite(${below})
  endforeach()
endfunction()
