# What `cmake --install` lays down: librnnc for programs that embed it, the command, and the cells.
# No file has the folder's name in it, so that the folder may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS rnnc_shared EXPORT rnncTargets
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS rnnc RUNTIME COMPONENT command)
foreach(folder cells networks torch keras flax)
  install(DIRECTORY examples/${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}/rnnc COMPONENT runtime
          FILES_MATCHING PATTERN *.rnn PATTERN *.map)
endforeach()
install(FILES runtime/capi/rnnc.h runtime/capi/rnnc.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rnnc COMPONENT development)

# find_package(rnnc): the library needs no other package.
set(package ${CMAKE_BINARY_DIR}/package)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rnnc)
file(WRITE ${package}/rnncConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/rnncTargets.cmake)\n")
write_basic_package_version_file(${package}/rnncConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(EXPORT rnncTargets NAMESPACE rnnc:: DESTINATION ${package_folder} COMPONENT development)
install(FILES ${package}/rnncConfig.cmake ${package}/rnncConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)

# pkg-config rnnc
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH to_prefix /${pkgconfig_folder} /)
configure_file(tools/cmake/rnnc.pc.in ${package}/rnnc.pc @ONLY)
install(FILES ${package}/rnnc.pc DESTINATION ${pkgconfig_folder} COMPONENT development)
